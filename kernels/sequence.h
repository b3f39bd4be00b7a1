// Kernels of transformers: norms of rows, rotary positions, attention, embedding gradients, softmax
// cross-entropy over a vocabulary seen by chunks.
//
// Conventions as in kernels/compute.h. A row is one position of one sequence; rows of all sequences lie one
// after another. Sums over rows are cut by shapes alone: the same bits for any number of threads.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/compute.h"

namespace lpmm::kernels {

// ---- documents -------------------------------------------------------------------------------------------
// Several documents in a sequence, one after the other, which do not see each other: where the document of
// each row, of all sequences, begins in its sequence, where it ends (one past it), and the row's place in it.
// Null: a sequence is one document.
struct Documents {
  const std::int32_t *starts = nullptr, *ends = nullptr, *places = nullptr;
  // Those of the rows from `row` on.
  LPMM_HD Documents from(std::int64_t row) const {
    if (starts == nullptr) return {};
    return {starts + row, ends + row, places + row};
  }
};

// ---- norms of rows ---------------------------------------------------------------------------------------
// Over the values of each row. Layer norm (Ba et al. 2016) is centred; its variance is biased. RMS norm
// (Zhang & Sennrich 2019) divides by the root of the mean square and has no bias.
struct RowNormShape {
  std::int64_t rows = 0, width = 0;
  ValueType type = ValueType::kFp32;
  double epsilon = 1e-5;
  bool is_centred = true;
  // Heads of positions: `beside` rows side by side, the next ones `stride` values on. 0: rows without gaps.
  std::int64_t beside = 1, stride = 0;
  bool adds_one = false;  // to the weights, which are then what is above 1: Gemma's
  LPMM_HD std::int64_t at(std::int64_t row) const {
    return stride == 0 ? row * width : row / beside * stride + row % beside * width;
  }
};

// y = (x - mean) * inverse_deviation * weight + bias; mean and inverse_deviation of each row are kept. A norm
// that is not centred has no mean and no bias: those are null, and so is the gradient of the bias.
struct RowNormForward {
  const void* x = nullptr;
  const float *weight = nullptr, *bias = nullptr;
  void* y = nullptr;
  float *mean = nullptr, *inverse_deviation = nullptr;
};
struct RowNormBackward {
  const void *x = nullptr, *dy = nullptr;
  const float *weight = nullptr, *mean = nullptr, *inverse_deviation = nullptr;
  void* dx = nullptr;
  bool accumulate = false;  // dx += instead of dx =
  float *weight_gradient = nullptr, *bias_gradient = nullptr;
};

// ---- rotary positions ------------------------------------------------------------------------------------
// Su et al. 2021, in the layout of published Llamas: of a head, value i and value i + head_width / 2 are
// rotated together. Rows have `heads` heads, of which the first `rotated` are rotated and the others stay.
struct RotaryShape {
  std::int64_t rows = 0, length = 0;  // of all sequences, of one
  int heads = 0, rotated = 0, head_width = 0;
  ValueType type = ValueType::kFp32;
  int part = 0;  // so many channels of a head are rotated, the first, as a head of that width; 0: all
  LPMM_HD std::int64_t turned() const { return part > 0 ? part : head_width; }
  LPMM_HD std::int64_t width() const { return std::int64_t{1} * heads * head_width; }
};
// y = (accumulate ? y : 0) + x with its heads rotated by the angles of their positions, or rotated back: with
// `inverse`, which backward is.
struct RotaryArgs {
  RotaryShape shape;
  const float* angles = nullptr;  // (length, 2, turned() / 2), cosines and sines
  bool inverse = false;
  const void* x = nullptr;
  void* y = nullptr;
  bool accumulate = false;
  const std::int32_t* places = nullptr;  // the position of each row; null: row modulo length
};

// ---- attention -------------------------------------------------------------------------------------------
// The keys that the queries of one sequence see: row r those from first(r) to end(r) - 1.
struct Seen {
  int keys = 0;              // of the sequence; none beyond them is seen
  bool is_causal = false;    // row r, which is position past + r, sees itself and positions before
  int past = 0, window = 0;  // so many positions to each side that it sees, itself among them; 0: all
  Documents documents = {};  // causal: of the sequence's positions
  template <class Row>
  LPMM_HD Row first(Row row) const {
    const Row at = is_causal ? past + row : within(past + row);
    const Row begin = window > 0 && at >= window ? at + 1 - window : 0;
    if (documents.starts == nullptr) return begin;
    const Row start = documents.starts[within(past + row)];
    return start > begin ? start : begin;
  }
  template <class Row>
  LPMM_HD Row end(Row row) const {
    if (!is_causal && window > 0) return keys - past - row > window ? past + row + window : keys;
    return is_causal && past + row < keys ? past + row + 1 : keys;
  }
  // The other way round: the rows from first_row(k) to end_row(k, rows) - 1, of `rows`, see key k.
  template <class Key>
  LPMM_HD Key first_row(Key key) const {
    if (!is_causal) return window > 0 && key - past >= window ? key - past + 1 - window : 0;
    return key > past ? key - past : 0;
  }
  template <class Key>
  LPMM_HD Key end_row(Key key, Key rows) const {
    const bool is_before_end = window > 0 && key - past + window < rows && key + window < keys;
    const Key end = is_before_end ? key - past + window : rows;
    if (documents.ends == nullptr) return end;
    const Key last = documents.ends[within(key)] - past;
    return last < end ? last : end;
  }

 private:
  // Tiles go beyond the sequence, and a position behind its end sees what the last one does.
  template <class Position>
  LPMM_HD Position within(Position position) const {
    return position < keys ? position : keys - 1;
  }
};

// Attention with softmax(q k^T / sqrt(head_width)), after Dao et al. 2022: scores exist one tile at a time,
// forward and backward, and tiles that no query sees are left out. Each run of heads / key_heads() heads
// shares a head of keys and values (Ainslie et al. 2023). Self-attention has queries, keys and values in one
// value; where `key_length` is given, keys and values are those of another one.
struct AttentionShape {
  int batch = 0, length = 0, heads = 0, head_width = 0;
  ValueType type = ValueType::kFp32;
  int kv_heads = 0;       // of keys and values; a divisor of heads, 0: as many
  bool is_causal = true;  // a position sees itself and those before; otherwise all
  // Where attention is not causal: for each sequence, how many of its first positions are seen, at least 1.
  // Null: all.
  const std::int32_t* lengths = nullptr;
  int key_length = 0;        // positions of the other value; 0: self-attention. Not causal
  int window = 0;            // of Seen
  Documents documents = {};  // causal, without a cache
  bool has_bias = false;     // AttentionForward::bias; self-attention, without a cache
  LPMM_HD Seen seen(std::int64_t sequence, int past = 0) const {
    return {is_causal || lengths == nullptr ? past + key_rows() : lengths[sequence], is_causal, past, window,
            documents.from(sequence * length)};
  }
  LPMM_HD bool is_self() const { return key_length == 0; }
  LPMM_HD int key_rows() const { return is_self() ? length : key_length; }  // of one sequence
  LPMM_HD int key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  LPMM_HD int shared_by() const { return heads / key_heads(); }
  LPMM_HD std::int64_t width() const { return std::int64_t{1} * heads * head_width; }
  LPMM_HD std::int64_t key_width() const { return std::int64_t{1} * key_heads() * head_width; }
  LPMM_HD std::int64_t row_width() const { return width() + 2 * key_width(); }  // of queries, keys and values
  LPMM_HD std::int64_t rows() const { return std::int64_t{1} * batch * length; }
  // For a bias: how many distances there are from a row to a key, and the place of one among them.
  LPMM_HD std::int64_t distances() const { return std::int64_t{2} * length - 1; }
  LPMM_HD std::int64_t distance(std::int64_t row, std::int64_t key) const { return key - row + length - 1; }
  // Heads in a row of queries, and in one of keys; where the keys begin there.
  LPMM_HD int query_row_heads() const { return is_self() ? heads + 2 * key_heads() : heads; }
  LPMM_HD int key_row_heads() const { return is_self() ? query_row_heads() : 2 * key_heads(); }
  LPMM_HD int first_key_head() const { return is_self() ? heads : 0; }
};
// q: (batch, length, heads + 2 key_heads(), head_width), queries, keys, values, and kv is null; or (batch,
// length, heads, head_width) and kv (batch, key_length, 2 key_heads(), head_width). y: (batch, length, heads,
// head_width). log_sums: (batch, heads, length), log of the sum of exp(score). `drop` is of the
// probabilities: that of (sequence, head, row, column) is element ((sequence * heads + head) * length + row)
// * P + column, P = key_rows() rounded up to kGroup.
struct AttentionForward {
  AttentionShape shape;
  const void *q = nullptr, *kv = nullptr;
  Dropout drop = {};
  void* y = nullptr;
  float* log_sums = nullptr;
  void* scratch = nullptr;
  // With a cache, (batch, room, 2, key_heads(), head_width), the positions of `shape` come after `past`
  // others of each sequence, whose keys and values are there; theirs are added to it, past + length <= room.
  // Causal, without dropout and log_sums; scratch as for a shape of past + length positions.
  void* cache = nullptr;
  std::int64_t room = 0;
  int past = 0;
  const float* bias = nullptr;  // (distances(), heads), added to scores
};
struct AttentionBackward {
  AttentionShape shape;
  const void *q = nullptr, *kv = nullptr;
  Dropout drop = {};
  const void *y = nullptr, *dy = nullptr;
  const float* log_sums = nullptr;
  void *dq = nullptr, *dkv = nullptr;              // dkv is null as kv is
  bool accumulate = false, accumulate_kv = false;  // dq += and dkv += instead of =
  void* scratch = nullptr;
  const float* bias = nullptr;
  float* bias_gradient = nullptr;
  bool accumulate_bias = false;
};
std::int64_t attention_probabilities(const AttentionShape& shape);  // elements of that numbering

// ---- means of sequences -----------------------------------------------------------------------------------
struct MeanShape {
  std::int64_t batch = 0, length = 0, width = 0;
  ValueType type = ValueType::kFp32;
  const std::int32_t* lengths = nullptr;  // of each sequence, its first positions that count; null: all
  bool is_weighted = false;               // the first position counts once, the second twice, and so on
  LPMM_HD std::int64_t count(std::int64_t sequence) const {
    return lengths == nullptr ? length : lengths[sequence];
  }
  LPMM_HD float weight(std::int64_t position) const {
    return is_weighted ? static_cast<float>(position + 1) : 1.0F;
  }
  // The sum of weight() over the positions of a sequence.
  LPMM_HD float weights(std::int64_t sequence) const {
    const std::int64_t n = count(sequence);
    return static_cast<float>(is_weighted ? n * (n + 1) / 2 : n);
  }
};

// ---- embedding -------------------------------------------------------------------------------------------
// y[i] = tokens[i] + positions[p], for `rows` rows of `width` values; p is (first + i) % length or, where
// there are `places`, of all rows, places[first + i].
struct EmbeddingArgs {
  ValueType type = ValueType::kFp32;
  std::int64_t width = 0, length = 0, first = 0, rows = 0;
  const float *tokens = nullptr, *positions = nullptr;
  void* y = nullptr;
  const std::int32_t* places = nullptr;
};
// Rows of some x that belong to the same row of a matrix, for `count` rows of the matrix.
struct RowGroups {
  const std::int32_t* rows = nullptr;     // of x: rows[first[i]], ..., rows[first[i + 1] - 1] are group i
  const std::int64_t* first = nullptr;    // count + 1
  const std::int32_t* targets = nullptr;  // the matrix's row of each group, rising
  std::int64_t count = 0;
};
// out[e - begin] for the elements begin, ..., end - 1 of a matrix of rows of `width`: the sum of the rows of
// x that `groups` has for its row, in that order; 0 where it has none.
struct SumRowsArgs {
  ValueType type = ValueType::kFp32;
  std::int64_t width = 0;
  const void* x = nullptr;
  RowGroups groups;
  std::int64_t begin = 0, end = 0;
  float* out = nullptr;
};

// ---- experts ---------------------------------------------------------------------------------------------
// Each row chooses the `chosen` most probable experts, of equal ones the first (Shazeer et al. 2017). In
// order: the choices of the first expert by row, then those of the second, and so on.
struct ChoiceShape {
  std::int64_t rows = 0;
  int experts = 0, chosen = 0;  // chosen <= experts
  bool is_normed = false;       // the weights of a row's choices sum to 1; else they are probabilities
  LPMM_HD std::int64_t choices() const { return rows * chosen; }
};
struct Choices {
  float* probabilities = nullptr;   // (rows, experts), the softmax of logits
  std::int32_t* experts = nullptr;  // (rows, chosen), the most probable first
};
struct ChoiceOrder {
  float* weights = nullptr;                         // of the choices in order
  std::int32_t *rows = nullptr, *places = nullptr;  // of the choices in order; (rows, chosen) in the order
  std::int64_t* first = nullptr;                    // (experts + 1), where each expert's choices begin
};
struct ChoiceArgs {
  ChoiceShape shape;
  ValueType type = ValueType::kFp32;
  const void* logits = nullptr;  // (rows, experts)
  Choices choices;
  ChoiceOrder order;
  const float* weight_gradient = nullptr;  // of the backward passes, of weights in order
  float* probability_gradient = nullptr;
  void* logit_gradient = nullptr;
  bool accumulate = false;  // to the gradient that is made
  // What the probabilities of a row's choices are divided by.
  LPMM_HD float weight_sum(std::int64_t row) const {
    if (!shape.is_normed) return 1;
    float sum = 0;
    for (std::int64_t i = row * shape.chosen; i < (row + 1) * shape.chosen; ++i)
      sum += choices.probabilities[row * shape.experts + choices.experts[i]];
    return sum;
  }
  // Adds the gradient of a row's weights to that of its probabilities.
  LPMM_HD void add_row_gradient(std::int64_t row) const {
    const std::int64_t first = row * shape.chosen, end = first + shape.chosen;
    float mean = 0, sum = weight_sum(row);
    if (shape.is_normed)
      for (std::int64_t i = first; i < end; ++i)
        mean += order.weights[order.places[i]] * weight_gradient[order.places[i]];
    for (std::int64_t i = first; i < end; ++i)
      probability_gradient[row * shape.experts + choices.experts[i]] +=
          (weight_gradient[order.places[i]] - mean) / sum;
  }
};
// y[i] = x[rows[i]], for `count` rows of `width`; rows of y from there to `padded` are zeros.
struct TakeRowsArgs {
  ValueType type = ValueType::kFp32;
  std::int64_t width = 0, count = 0, padded = 0;
  const std::int32_t* rows = nullptr;
  const void* x = nullptr;
  void* y = nullptr;
};
// y[rows[i]] += x[i], for `count` rows of `width` in fp32; no row is there twice.
struct AddRowsArgs {
  std::int64_t width = 0, count = 0;
  const std::int32_t* rows = nullptr;
  const float* x = nullptr;
  float* y = nullptr;
};
// x[i] *= weights[i]; before that, where they are wanted, dots[i] = the sum of x[i] * other[i].
struct WeighRowsArgs {
  ValueType type = ValueType::kFp32;
  std::int64_t width = 0, count = 0;
  const float* weights = nullptr;
  void* x = nullptr;
  const void* other = nullptr;
  float* dots = nullptr;  // null: they are not wanted
};
// The loss that balances experts (Fedus et al. 2021): factor * experts * the sum over experts of the share
// of choices and the mean probability, both over `rows`. `sums`: choices of each, then probabilities.
struct BalanceArgs {
  ChoiceShape shape;  // of one layer
  Choices choices;
  std::int64_t rows = 0;  // of all layers
  double factor = 1;
  double* sums = nullptr;                 // (2, experts)
  LossResult* result = nullptr;           // of the forward pass: added to
  float* probability_gradient = nullptr;  // of the backward pass
  bool accumulate = false;
  LPMM_HD double slope(double choices_of_expert) const {
    return factor * shape.experts * choices_of_expert / static_cast<double>(rows) / static_cast<double>(rows);
  }
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

// The logits of columns first, ..., first + columns - 1 of all, (rows, columns), for three operations in
// turn. A row whose label is negative counts for nothing: no loss, no gradient.
struct SoftmaxArgs {
  LossShape shape;
  const std::int32_t* labels = nullptr;
  std::int64_t first = 0, columns = 0;
  float* logits = nullptr;
  SoftmaxRow* state = nullptr;  // scan takes in logits, `first` 0 starts anew; finish reads it
  float* log_sums = nullptr;  // of the sums of exp(logit) of each row: finish makes them, gradient reads them
  LossResult* result = nullptr;  // of finish
  // gradient <- scale * (softmax - what is wanted), of scale * the sum of losses, in `type`; in fp32 it may
  // be `logits`, which are overwritten.
  float scale = 1;
  ValueType type = ValueType::kFp32;
  void* gradient = nullptr;
  const float* factors = nullptr;  // on the gradient of each row; null: 1
};

// Two answers, of which the first is preferred: the rows of each, and by how much more probable a reference
// has the first, as a difference of logarithms.
struct PreferencePair {
  std::int64_t chosen = 0, chosen_end = 0, rejected = 0, rejected_end = 0;
  double reference = 0;
};
// Direct preference optimization: Rafailov et al. 2023. The margin m of a pair is beta * (log-probability of
// the chosen answer - that of the rejected one - reference), its loss -(1 - smoothing) log sigmoid(m) -
// smoothing log sigmoid(-m). A log-probability is the sum over an answer's rows with a label or, with
// `is_mean`, their mean.
struct PreferenceArgs {
  std::int64_t count = 0;  // of pairs
  const PreferencePair* pairs = nullptr;
  double beta = 0.1, smoothing = 0;
  bool is_mean = false;
  const std::int32_t* labels = nullptr;
  const SoftmaxRow* state = nullptr;  // as softmax_scan has left it
  float* factors = nullptr;  // of rows of answers with a label: of softmax_gradient, for the gradient of the
                             // sum of losses
  double* differences = nullptr;  // of each pair's two log-probabilities; null: they are not wanted
  LossResult* result = nullptr;   // sums over pairs; correct are those whose margin is above 0
};
// The log-probability of the labels of some rows.
struct AnswerSum {
  double sum = 0;
  std::int64_t labels = 0;
  LPMM_HD void add(std::int32_t label, const SoftmaxRow& row) {
    if (label < 0) return;
    sum += row.target - (row.maximum + std::log(row.sum));
    ++labels;
  }
};
// What a pair comes to: its loss and margin, and the factor of each answer's rows.
struct PreferenceTerms {
  double difference, margin, loss;
  float chosen, rejected;
  LPMM_HD PreferenceTerms(const PreferenceArgs& args, double reference, const AnswerSum& of_chosen,
                          const AnswerSum& of_rejected) {
    const double first = args.is_mean ? 1.0 / static_cast<double>(of_chosen.labels) : 1.0,
                 second = args.is_mean ? 1.0 / static_cast<double>(of_rejected.labels) : 1.0;
    difference = first * of_chosen.sum - second * of_rejected.sum;
    margin = args.beta * (difference - reference);
    // log(1 + exp(-|m|)) cannot overflow. First -log sigmoid(m), then of -m, then sigmoid(-m).
    const double rest = std::log1p(std::exp(-std::abs(margin))),
                 if_right = (margin < 0 ? -margin : 0.0) + rest,
                 if_wrong = (margin > 0 ? margin : 0.0) + rest, wrong = 1 / (1 + std::exp(margin));
    loss = (1 - args.smoothing) * if_right + args.smoothing * if_wrong;
    const double slope = args.beta * ((1 - args.smoothing) * wrong - args.smoothing * (1 - wrong));
    chosen = static_cast<float>(slope * first);
    rejected = static_cast<float>(-slope * second);
  }
};

// The operations of a device (kernels/device.h) for transformers.
class SequenceKernels {
 public:
  virtual void row_norm_forward(const RowNormShape& shape, const RowNormForward& args) = 0;
  virtual std::int64_t row_norm_scratch_bytes(const RowNormShape& shape) const = 0;  // of the backward
  virtual void row_norm_backward(const RowNormShape& shape, const RowNormBackward& args, void* scratch) = 0;
  // y (batch, width): the mean, weighted or not, of the positions of each sequence of x, (batch, length,
  // width).
  virtual void mean_forward(const MeanShape& shape, const void* x, void* y) = 0;
  virtual void mean_backward(const MeanShape& shape, const void* dy, void* dx, bool accumulate) = 0;
  virtual void rotary(const RotaryArgs& args) = 0;
  virtual std::int64_t attention_scratch_bytes(const AttentionShape& shape) const = 0;  // of either call
  virtual void attention_forward(const AttentionForward& args) = 0;
  virtual void attention_backward(const AttentionBackward& args) = 0;
  virtual void embedding_forward(const EmbeddingArgs& args) = 0;
  virtual void sum_rows(const SumRowsArgs& args) = 0;
  virtual void choose(const ChoiceArgs& args) = 0;  // probabilities and experts
  virtual void choose_backward(const ChoiceArgs& args) = 0;
  virtual void order_choices(const ChoiceArgs& args) = 0;
  virtual void order_choices_backward(const ChoiceArgs& args) = 0;
  virtual void take_rows(const TakeRowsArgs& args) = 0;
  virtual void add_rows(const AddRowsArgs& args) = 0;
  virtual void weigh_rows(const WeighRowsArgs& args) = 0;
  virtual void balance_sums(const BalanceArgs& args) = 0;  // one layer's are added
  virtual void balance_loss(const BalanceArgs& args) = 0;
  virtual void balance_backward(const BalanceArgs& args) = 0;
  virtual void softmax_scan(const SoftmaxArgs& args) = 0;
  virtual void softmax_finish(const SoftmaxArgs& args) = 0;
  virtual void softmax_gradient(const SoftmaxArgs& args) = 0;
  virtual void preference_loss(const PreferenceArgs& args) = 0;

 protected:
  SequenceKernels() = default;
  ~SequenceKernels() = default;
};

}  // namespace lpmm::kernels
