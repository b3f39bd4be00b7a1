// The loops of kernels/sequence.h over one shard, serial. sequence.cpp cuts the work.
#pragma once

#include <cstdint>

#include "kernels/sequence.h"

namespace lpmm::kernels::loops {

// A tile of scores, (rows, columns) fp32, from row `row` and column `column` of a sequence's on. A row has
// what it sees of its columns.
struct ScoreTile {
  std::int64_t rows = 0, columns = 0, row = 0, column = 0;
  Seen seen;
  float* scores = nullptr;
};

struct SequenceLoops {
  void (*row_norm_forward)(const RowNormShape& shape, const RowNormForward& args);
  // Pointers of args are of these rows; weight_gradient and bias_gradient are added to.
  void (*row_norm_backward)(const RowNormShape& shape, const RowNormBackward& args);
  // kernels::dropout of fp32 values, whose draws are in `words` (kernels/cpu/tile.h).
  void (*drop)(std::int64_t count, const Dropout& drop, const std::uint32_t* words, float* values);
  // scores <- exp(score - maximum), 0 where not seen, with the row's maximum so far. What was summed under an
  // earlier maximum is scaled to the new one: sum and output (rows, width).
  void (*softmax_online)(const ScoreTile& tile, float* maximum, float* sum, float* output,
                         std::int64_t width);
  // scores <- exp(score - log_sum), 0 where not seen.
  void (*softmax_again)(const ScoreTile& tile, const float* log_sums);
  // gradient <- probability * (gradient - dots[row])
  void (*softmax_backward)(const ScoreTile& tile, const float* dots, float* gradient);
  float (*dot)(std::int64_t count, const float* a, const float* b);
  float (*sum)(std::int64_t count, const float* values);
  void (*scale)(std::int64_t count, float factor, float* values);
  // One row of kernels::softmax_scan and softmax_gradient.
  void (*softmax_scan)(std::int64_t first, std::int64_t columns, const float* logits, std::int32_t label,
                       SoftmaxRow* state);
  // For a row without a label: scale * softmax - spread.
  void (*softmax_gradient)(std::int64_t columns, float scale, float log_sum, float spread, float* logits);
};
const SequenceLoops& sequences();  // of the best instruction set

}  // namespace lpmm::kernels::loops
