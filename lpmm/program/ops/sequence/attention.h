// Attention: Vaswani et al. 2017.
#pragma once

#include "lpmm/program/builder.h"

namespace lpmm {

struct AttentionConfig {
  int heads = 1, kv_heads = 0;  // of queries; of keys and values, 0: as many
  int context = 0;              // positions that generated text may have
  double dropout = 0;           // of the probabilities
  bool is_causal = true;
  int window = 0;   // positions to each side that one sees, itself among them; causal: up to itself; 0: all
  Value bias = {};  // relative_bias(), of self-attention that is not causal; its id is -1: none
};

// Self-attention of a value whose channels are the queries of `heads` heads, the keys of `kv_heads`, and
// their values. Where it is not causal, a batch may say how many positions of each sequence are seen
// (Batch::lengths). Where it is, `documents` may keep those of a sequence apart (document_table()).
Value attention(ProgramBuilder& b, Value qkv, const AttentionConfig& config, Value documents = {});
// Attention of queries to the keys and values of another value, whose channels are the keys of `kv_heads`
// heads and their values; not causal. A batch may say how many positions of each sequence of those are seen
// (Batch::lengths). Inference keeps them from its first call.
Value cross_attention(ProgramBuilder& b, Value q, Value kv, const AttentionConfig& config);

}  // namespace lpmm
