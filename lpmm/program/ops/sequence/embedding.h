// Embeddings of tokens.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// Sequences of `length` tokens; inference has its own length. Without `positions` tokens are looked up alone;
// with it the row of each one's position, of `context`, is added: its position in `documents`
// (document_table()) where there are some, else in the sequence.
struct EmbeddingShape {
  int vocabulary = 0, length = 0, width = 0;
  std::string positions = {};
  int context = 0;
  static constexpr Initial kUsual{InitialKind::kNormal, 0.02};
  Initial initial = kUsual;  // of the tokens' rows
  bool fp32_states = false;  // of them: TensorInfo::fp32_states
  bool is_source = false;    // tokens are those of Batch::source, of which inference has the whole
  bool is_shared = false;    // an op before has declared the tensor
  Value documents = {};
};

// Tensors `tokens`.weight (vocabulary, width) and, where there are positions, `positions`.weight (context,
// width), both normal of deviation 0.02, if not said otherwise: Radford et al. 2019.
Value embedding(ProgramBuilder& b, const std::string& tokens, const EmbeddingShape& shape);

}  // namespace lpmm
