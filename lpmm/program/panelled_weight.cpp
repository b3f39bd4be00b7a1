#include "lpmm/program/panelled_weight.h"

#include <algorithm>

#include "lpmm/program/workspace.h"

namespace lpmm {

using kernels::value_bytes;

// A panel is decoded from the tile its first row begins in to the tile its last row ends in.
const std::byte* PanelledWeight::decode(const RunState& run, std::int64_t row, std::int64_t rows,
                                        std::byte* panel) const {
  constexpr std::int64_t kTile = kernels::kTile;
  const std::int64_t first = row * width_ / kTile * kTile;
  const std::int64_t end = std::min(((row + rows) * width_ + kTile - 1) / kTile * kTile, rows_ * width_);
  if (compute_ == ValueType::kFp32) {
    run.memory.decode(tensor_, first, span_of(reinterpret_cast<float*>(panel), end - first));
  } else {
    run.memory.decode_bf16(tensor_, first,
                           {reinterpret_cast<std::uint16_t*>(panel), static_cast<std::size_t>(end - first)});
  }
  return panel + (row * width_ - first) * value_bytes(compute_);
}

void PanelledWeight::multiply(RunState& run, const WeightProduct& p) const {
  for_each_panel([&](std::int64_t row, std::int64_t rows) {
    run.device.matmul({.transpose_b = true,
                       .m = p.rows,
                       .n = rows,
                       .k = width_,
                       .type = compute_,
                       .a = p.x,
                       .a_stride = width_,
                       .b = decode(run, row, rows, p.panel),
                       .b_stride = width_,
                       .c = p.y + row * value_bytes(p.y_type),
                       .c_stride = p.y_stride,
                       .c_type = p.y_type,
                       .bias = p.bias == nullptr ? nullptr : p.bias + row},
                      p.matmul);
  });
}

void PanelledWeight::backward(RunState& run, const WeightGradient& p) const {
  Folder folder(*this, run, p.gradient);
  for_each_panel([&](std::int64_t row, std::int64_t rows) {
    const std::byte* g = p.g + row * value_bytes(compute_);
    if (p.dx != nullptr) {
      run.device.matmul({.m = p.rows,
                         .n = width_,
                         .k = rows,
                         .type = compute_,
                         .a = g,
                         .a_stride = p.g_stride,
                         .b = decode(run, row, rows, p.panel),
                         .b_stride = width_,
                         .c = p.dx,
                         .c_stride = width_,
                         .c_type = p.dx_type,
                         .accumulate = p.accumulate || row > 0},
                        p.matmul);
    }
    if (is_frozen(run)) return;
    run.device.matmul({.transpose_a = true,
                       .m = rows,
                       .n = width_,
                       .k = p.rows,
                       .type = compute_,
                       .a = g,
                       .a_stride = p.g_stride,
                       .b = p.x,
                       .b_stride = width_,
                       .c = folder.rows_at(row),
                       .c_stride = width_},
                      p.matmul);
    folder.fold(row, rows);
  });
}

void PanelledWeight::fold_zeros(RunState& run, float* gradient) const {
  if (!run.memory.applies_at_once(tensor_)) return;
  Folder folder(*this, run, gradient);
  for_each_panel([&](std::int64_t row, std::int64_t rows) {
    run.device.fill_with_zeros(folder.rows_at(row), 4 * rows * width_);
    folder.fold(row, rows);
  });
}

void PanelledWeight::Folder::fold(std::int64_t row, std::int64_t rows) {
  const std::int64_t done = (row + rows) * weight_.width_;
  const std::int64_t end = row + rows == weight_.rows_ ? done : done / kernels::kTile * kernels::kTile;
  if (end <= folded_) return;
  run_.step->fold(weight_.tensor_, folded_, span_of(room_, end - folded_), run_.microbatch, contribution_,
                  is_last_);
  run_.device.copy(room_, room_ + (end - folded_), 4 * (done - end));
  folded_ = end;
}

}  // namespace lpmm
