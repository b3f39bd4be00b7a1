// Kernels of transformers: norms of rows, GELU, SwiGLU, rotary positions, attention, embedding gradients,
// softmax cross-entropy over a vocabulary seen by chunks.
//
// Conventions as in kernels/compute.h. A row is one position of one sequence; rows of all sequences lie one
// after another. Sums over rows are cut by shapes alone: the same bits for any number of threads.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/compute.h"
#include "kernels/noise.h"

namespace lpmm::kernels {

// ---- norms of rows
// ----------------------------------------------------------------------------------------- Over the values
// of each row. Layer norm (Ba et al. 2016) is centred; its variance is biased. RMS norm (Zhang & Sennrich
// 2019) divides by the root of the mean square and has no bias.
struct RowNormShape {
  std::int64_t rows = 0, width = 0;
  Compute type = Compute::kFp32;
  double epsilon = 1e-5;
  bool is_centred = true;
  // Heads of positions: `beside` rows side by side, the next ones `stride` values on. 0: rows without gaps.
  std::int64_t beside = 1, stride = 0;
  LPMM_HD std::int64_t at(std::int64_t row) const {
    return stride == 0 ? row * width : row / beside * stride + row % beside * width;
  }
};

// A norm that is not centred has null `mean` and `bias_gradient`.
struct RowNormBackward {
  const void *x = nullptr, *dy = nullptr;
  const float *weight = nullptr, *mean = nullptr, *inverse_deviation = nullptr;
  void* dx = nullptr;
  bool accumulate = false;  // dx += instead of dx =
  float *weight_gradient = nullptr, *bias_gradient = nullptr;
};

// ---- dropout ---------------------------------------------------------------------------------------------
// Keeps, times `scale`, the elements whose draw is at least `threshold`; the others become 0. A threshold of
// 0 drops nothing.
struct Dropout {
  Noise noise;
  std::uint32_t threshold = 0;
  float scale = 1;
};

// ---- GELU
// --------------------------------------------------------------------------------------------------
// Hendrycks & Gimpel 2016: x times the normal distribution's share below x, or its approximation by a tanh,
// x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 x^3)). Swish (Ramachandran et al. 2017), x * sigmoid(x), has
// the same shape.
enum class GeluForm : std::uint8_t { kExact, kTanh, kSwish };

// ---- rotary positions
// -------------------------------------------------------------------------------------- Su et al. 2021, in
// the layout of published Llamas: of a head, value i and value i + head_width / 2 are turned together. Rows
// have `heads` heads, of which the first `turned` are turned and the others stay.
struct RotaryShape {
  std::int64_t rows = 0, length = 0;  // of all sequences, of one
  int heads = 0, turned = 0, head_width = 0;
  Compute type = Compute::kFp32;
  LPMM_HD std::int64_t width() const { return std::int64_t{1} * heads * head_width; }
};

// ---- attention
// ---------------------------------------------------------------------------------------------
// Attention with softmax(q k^T / sqrt(head_width)), after Dao et al. 2022: scores exist one tile at a time,
// forward and backward. Each run of heads / key_heads() heads shares a head of keys and values (Ainslie et
// al. 2023). Self-attention has queries, keys and values in one value; where `key_length` is given, keys and
// values are those of another one.
struct AttentionShape {
  int batch = 0, length = 0, heads = 0, head_width = 0;
  Compute type = Compute::kFp32;
  int kv_heads = 0;       // of keys and values; a divisor of heads, 0: as many
  bool is_causal = true;  // a position sees itself and those before; otherwise all
  // Where attention is not causal: for each sequence, how many of its first positions are seen, at least 1.
  // Null: all.
  const std::int32_t* lengths = nullptr;
  int key_length = 0;  // positions of the other value; 0: self-attention. Not causal
  LPMM_HD bool is_self() const { return key_length == 0; }
  LPMM_HD int key_rows() const { return is_self() ? length : key_length; }  // of one sequence
  LPMM_HD int key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  LPMM_HD int shared_by() const { return heads / key_heads(); }
  LPMM_HD std::int64_t width() const { return std::int64_t{1} * heads * head_width; }
  LPMM_HD std::int64_t key_width() const { return std::int64_t{1} * key_heads() * head_width; }
  LPMM_HD std::int64_t row_width() const { return width() + 2 * key_width(); }  // of queries, keys and values
  LPMM_HD std::int64_t rows() const { return std::int64_t{1} * batch * length; }
  // Heads in a row of queries, and in one of keys; where the keys begin there.
  LPMM_HD int query_row_heads() const { return is_self() ? heads + 2 * key_heads() : heads; }
  LPMM_HD int key_row_heads() const { return is_self() ? query_row_heads() : 2 * key_heads(); }
  LPMM_HD int first_key_head() const { return is_self() ? heads : 0; }
};
// The arguments of the backward pass. For self-attention, kv and dkv are null.
struct AttentionBackward {
  const void *q = nullptr, *kv = nullptr, *y = nullptr, *dy = nullptr;
  const float* log_sums = nullptr;
  void *dq = nullptr, *dkv = nullptr;
  bool accumulate = false, accumulate_kv = false;  // dq += and dkv += instead of =
};
std::int64_t attention_probabilities(const AttentionShape& shape);  // elements of that numbering

// ---- means of sequences -----------------------------------------------------------------------------------
struct MeanShape {
  std::int64_t batch = 0, length = 0, width = 0;
  Compute type = Compute::kFp32;
  const std::int32_t* lengths = nullptr;  // of each sequence, its first positions that count; null: all
  LPMM_HD std::int64_t count(std::int64_t sequence) const {
    return lengths == nullptr ? length : lengths[sequence];
  }
};

// ---- embedding -------------------------------------------------------------------------------------------
// Rows of some x that belong to the same row of a matrix, for `count` rows of the matrix.
struct RowGroups {
  const std::int32_t* rows = nullptr;     // of x: rows[first[i]], ..., rows[first[i + 1] - 1] are group i
  const std::int64_t* first = nullptr;    // count + 1
  const std::int32_t* targets = nullptr;  // the matrix's row of each group, rising
  std::int64_t count = 0;
};

// ---- loss ------------------------------------------------------------------------------------------------
// The state of one row's softmax after some chunks of its logits.
struct SoftmaxRow {
  float maximum = -std::numeric_limits<float>::infinity();
  float target = 0;        // the label's logit
  double sum = 0;          // of exp(logit - maximum)
  std::int32_t best = -1;  // the first column that holds the maximum
  double total = 0;        // of the logits, where labels are smoothed
};

// The operations of a device (kernels/device.h) for transformers.
class SequenceKernels {
 public:
  // ---- norms of rows -------------------------------------------------------------------------------------
  // y = (x - mean) * inverse_deviation * weight + bias; mean and inverse_deviation of each row are kept. A
  // norm that is not centred has no mean and no bias: both are null.
  virtual void row_norm_forward(const RowNormShape& shape, const void* x, const float* weight,
                                const float* bias, void* y, float* mean, float* inverse_deviation) = 0;
  virtual std::int64_t row_norm_scratch_bytes(const RowNormShape& shape) const = 0;  // of the backward
  virtual void row_norm_backward(const RowNormShape& shape, const RowNormBackward& args, void* scratch) = 0;

  // ---- activations ---------------------------------------------------------------------------------------
  virtual void gelu_forward(Compute type, GeluForm form, std::int64_t count, const void* x, void* y) = 0;
  virtual void gelu_backward(Compute type, GeluForm form, std::int64_t count, const void* x, const void* dy,
                             void* dx, bool accumulate) = 0;
  // SwiGLU (Shazeer 2020): y (rows, width) = a * sigmoid(a) * b of rows (a, b) of x, (rows, 2, width).
  virtual void swiglu_forward(Compute type, std::int64_t rows, std::int64_t width, const void* x,
                              void* y) = 0;
  virtual void swiglu_backward(Compute type, std::int64_t rows, std::int64_t width, const void* x,
                               const void* dy, void* dx, bool accumulate) = 0;

  virtual void tanh_forward(Compute type, std::int64_t count, const void* x, void* y) = 0;
  virtual void tanh_backward(Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                             bool accumulate) = 0;

  // ---- means of sequences --------------------------------------------------------------------------------
  // y (batch, width): the mean of the positions of each sequence of x, (batch, length, width).
  virtual void mean_forward(const MeanShape& shape, const void* x, void* y) = 0;
  virtual void mean_backward(const MeanShape& shape, const void* dy, void* dx, bool accumulate) = 0;

  // ---- rotary positions ----------------------------------------------------------------------------------
  // y = x with its heads turned by the angles of their positions, or turned back: with `inverse`, which
  // backward is. angles: (length, 2, head_width / 2), cosines and sines.
  virtual void rotary(const RotaryShape& shape, const float* angles, bool inverse, const void* x, void* y,
                      bool accumulate) = 0;

  // ---- dropout -------------------------------------------------------------------------------------------
  // y = (accumulate ? y : 0) + what is kept of x.
  virtual void dropout(Compute type, std::int64_t count, const Dropout& drop, const void* x, void* y,
                       bool accumulate) = 0;

  // ---- attention -----------------------------------------------------------------------------------------
  virtual std::int64_t attention_scratch_bytes(const AttentionShape& shape) const = 0;  // of either call
  // q: (batch, length, heads + 2 key_heads(), head_width), queries, keys, values, and kv is null; or (batch,
  // length, heads, head_width) and kv (batch, key_length, 2 key_heads(), head_width). y: (batch, length,
  // heads, head_width). log_sums: (batch, heads, length), log of the sum of exp(score). `drop` is of the
  // probabilities: that of (sequence, head, row, column) is element ((sequence * heads + head) * length +
  // row) * P + column, P = key_rows() rounded up to kGroup.
  virtual void attention_forward(const AttentionShape& shape, const void* q, const void* kv,
                                 const Dropout& drop, void* y, float* log_sums, void* scratch) = 0;
  // The same for `shape.length` positions after `past` others of each sequence, whose keys and values are in
  // `cache`, (batch, room, 2, key_heads(), head_width); theirs are added to it, past + length <= room.
  // Causal; scratch as for a shape of past + length positions.
  virtual void attention_cached(const AttentionShape& shape, std::int64_t past, const void* qkv, void* cache,
                                std::int64_t room, void* y, void* scratch) = 0;
  virtual void attention_backward(const AttentionShape& shape, const Dropout& drop,
                                  const AttentionBackward& args, void* scratch) = 0;

  // ---- embedding -----------------------------------------------------------------------------------------
  // y[i] = tokens[i] + positions[(first + i) % length], for `rows` rows of `width` values.
  virtual void embedding_forward(Compute type, std::int64_t width, std::int64_t length, std::int64_t first,
                                 std::int64_t rows, const float* tokens, const float* positions, void* y) = 0;
  // out[e - begin] for the elements begin, ..., end - 1 of a matrix of rows of `width`: the sum of what
  // `groups` has of its row, in that order; 0 where it has none.
  virtual void sum_rows(Compute type, std::int64_t width, const void* x, const RowGroups& groups,
                        std::int64_t begin, std::int64_t end, float* out) = 0;

  // ---- loss ----------------------------------------------------------------------------------------------
  // A row whose label is negative counts for nothing: no loss, no gradient.
  //
  // Takes in the logits of columns first, ..., first + columns - 1, (rows, columns); `first` 0 starts anew.
  virtual void softmax_scan(const LossShape& shape, std::int64_t first, std::int64_t columns,
                            const float* logits, const std::int32_t* labels, SoftmaxRow* state) = 0;
  // After all columns: log of the sum of exp(logit) of each row, and the loss of all.
  virtual void softmax_finish(const LossShape& shape, const SoftmaxRow* state, const std::int32_t* labels,
                              float* log_sums, LossResult* result) = 0;
  // gradient <- scale * (softmax - what is wanted), of scale * the sum of losses, in `type`; in fp32 it may
  // be `logits`, which are overwritten. `log_sums` are those of softmax_finish.
  virtual void softmax_gradient(Compute type, const LossShape& shape, std::int64_t first,
                                std::int64_t columns, float scale, const float* log_sums,
                                const std::int32_t* labels, float* logits, void* gradient) = 0;

 protected:
  SequenceKernels() = default;
  ~SequenceKernels() = default;
};

}  // namespace lpmm::kernels
