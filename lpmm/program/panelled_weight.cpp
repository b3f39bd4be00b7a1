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
