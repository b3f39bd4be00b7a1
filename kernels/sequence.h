// Kernels of transformers: layer norm, GELU, causal attention, embedding gradients, softmax cross-entropy
// over a vocabulary seen by chunks.
//
// Conventions as in kernels/compute.h. A row is one position of one sequence; rows of all sequences lie one
// after another. Sums over rows are cut by shapes alone: the same bits for any pool.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/compute.h"
#include "kernels/noise.h"

namespace lpmm::kernels {

// ---- layer norm ------------------------------------------------------------------------------------------
// Ba et al. 2016, over the values of each row; variance is biased.
struct RowNormShape {
  std::int64_t rows = 0, width = 0;
  Compute type = Compute::kFp32;
};
// y = (x - mean) * inverse_deviation * weight + bias; mean and inverse_deviation of each row are kept.
void layer_norm_forward(Pool& pool, const RowNormShape& shape, const void* x, const float* weight,
                        const float* bias, void* y, float* mean, float* inverse_deviation);
struct RowNormBackward {
  const void *x = nullptr, *dy = nullptr;
  const float *weight = nullptr, *mean = nullptr, *inverse_deviation = nullptr;
  void* dx = nullptr;
  bool accumulate = false;  // dx += instead of dx =
  float *weight_gradient = nullptr, *bias_gradient = nullptr;
};
std::int64_t layer_norm_scratch_bytes(const RowNormShape& shape);  // of the backward
void layer_norm_backward(Pool& pool, const RowNormShape& shape, const RowNormBackward& args, void* scratch);

// ---- GELU ------------------------------------------------------------------------------------------------
// The tanh form: y = x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 x^3)).
void gelu_forward(Pool& pool, Compute type, std::int64_t count, const void* x, void* y);
void gelu_backward(Pool& pool, Compute type, std::int64_t count, const void* x, const void* dy, void* dx,
                   bool accumulate);

// ---- dropout ---------------------------------------------------------------------------------------------
// Keeps, times `scale`, the elements whose draw is at least `threshold`; the others become 0. A threshold of
// 0 drops nothing.
struct Dropout {
  Noise noise;
  std::uint32_t threshold = 0;
  float scale = 1;
};
// y = (accumulate ? y : 0) + what is kept of x.
void dropout(Pool& pool, Compute type, std::int64_t count, const Dropout& drop, const void* x, void* y,
             bool accumulate);

// ---- attention -------------------------------------------------------------------------------------------
// Causal self-attention with softmax(q k^T / sqrt(head_width)), after Dao et al. 2022: scores exist one tile
// at a time, forward and backward. Each head of each sequence is the work of one thread.
struct AttentionShape {
  int batch = 0, length = 0, heads = 0, head_width = 0;
  Compute type = Compute::kFp32;
  std::int64_t width() const { return std::int64_t{1} * heads * head_width; }
  std::int64_t rows() const { return std::int64_t{1} * batch * length; }
};
std::int64_t attention_scratch_bytes(const AttentionShape& shape, int threads);  // of either call
// qkv: (batch, length, 3, heads, head_width). y: (batch, length, heads, head_width). log_sums: (batch, heads,
// length), log of the sum of exp(score). `drop` is of the probabilities: that of (sequence, head, row,
// column) is element ((sequence * heads + head) * length + row) * P + column, P = length rounded up to
// kGroup.
void attention_forward(Pool& pool, const AttentionShape& shape, const void* qkv, const Dropout& drop, void* y,
                       float* log_sums, void* scratch);
std::int64_t attention_probabilities(const AttentionShape& shape);  // elements of that numbering
// The same for `shape.length` positions after `past` others of one sequence, whose keys and values are in
// `cache`, (past + length, 2, heads, head_width); theirs are added to it. Scratch as for a shape of past +
// length positions.
void attention_cached(Pool& pool, const AttentionShape& shape, std::int64_t past, const void* qkv,
                      void* cache, void* y, void* scratch);
void attention_backward(Pool& pool, const AttentionShape& shape, const void* qkv, const Dropout& drop,
                        const void* y, const float* log_sums, const void* dy, void* dqkv, bool accumulate,
                        void* scratch);

// ---- embedding -------------------------------------------------------------------------------------------
// y[i] = tokens[i] + positions[(first + i) % length], for `rows` rows of `width` values.
void embedding_forward(Pool& pool, Compute type, std::int64_t width, std::int64_t length, std::int64_t first,
                       std::int64_t rows, const float* tokens, const float* positions, void* y);
// out[i] = sum of rows[first[i]], ..., rows[first[i + 1] - 1] of x, in that order, for i < count.
void sum_rows(Pool& pool, Compute type, std::int64_t width, const void* x, const std::int32_t* rows,
              const std::int64_t* first, std::int64_t count, float* out);

// ---- loss ------------------------------------------------------------------------------------------------
// What is known of one row's softmax after some chunks of its logits.
struct SoftmaxRow {
  float maximum = -std::numeric_limits<float>::infinity();
  float target = 0;        // the label's logit
  double sum = 0;          // of exp(logit - maximum)
  std::int32_t best = -1;  // the first column that holds the maximum
};
// Takes in the logits of columns first, ..., first + columns - 1, (rows, columns).
void softmax_scan(Pool& pool, std::int64_t rows, std::int64_t first, std::int64_t columns,
                  const float* logits, const std::int32_t* labels, SoftmaxRow* state);
// gradient <- scale * (softmax - one-hot), of scale * the sum of losses, in `type`; in fp32 it may be
// `logits`, which are overwritten. `log_sums` is log of the sum of exp(logit) of each row.
void softmax_gradient(Pool& pool, Compute type, std::int64_t rows, std::int64_t first, std::int64_t columns,
                      float scale, const float* log_sums, const std::int32_t* labels, float* logits,
                      void* gradient);

}  // namespace lpmm::kernels
