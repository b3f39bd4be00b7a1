#include "lpmm/program/ops/sequence/position_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/ops/sequence/documents.h"

namespace lpmm {

std::int64_t PositionTable::gradient_floats() const {
  const std::int64_t tiles = (first_ * width_ + row_floats() + kernels::kTile - 1) / kernels::kTile;
  return std::min(tiles * kernels::kTile, context_ * width_);
}

void PositionTable::decode(const RunState& run, std::int32_t* ids, std::byte* room, float* out) const {
  const std::int64_t past = run.inference == nullptr ? 0 : run.inference->position;
  if (past + length_ > context_ - first_) {
    throw RunError(fmt::format("{} tokens after {} others: the model has {} positions", length_, past,
                               context_ - first_));
  }
  std::iota(ids, ids + length_, static_cast<std::int32_t>(first_ + past));
  Device& device = run.device;
  run.memory.decode_rows(tensor_, width_, on_device(device, ids, length_, room), length_, out);
}

// Place t: its rows in all sequences, in order.
void PositionTable::fold(RunState& run, ValueType compute, const std::byte* gradient, std::int64_t rows,
                         const RowLists& host, const RowCopies& copies, float* sums) const {
  const auto place = [&](std::int64_t row) { return place_in_document(run.batch, row, length_); };
  std::fill_n(host.first, length_ + 1, 0);
  for (std::int64_t row = 0; row < rows; ++row) ++host.first[place(row)];
  std::exclusive_scan(host.first, host.first + length_ + 1, host.first, std::int64_t{0});
  for (std::int64_t row = 0; row < rows; ++row) {
    host.rows[host.first[place(row)]++] =
        static_cast<std::int32_t>(row);  // which becomes the next one's first
  }
  std::copy_backward(host.first, host.first + length_, host.first + length_ + 1);
  host.first[0] = 0;
  std::iota(host.targets, host.targets + length_, static_cast<std::int32_t>(first_));
  Device& device = run.device;
  device.sum_rows(
      {compute, width_, gradient, on_device(device, host, length_, copies), 0, gradient_floats(), sums});
  const std::int64_t all = context_ * width_;
  run.step->fold(tensor_, 0, span_of(sums, gradient_floats()), run.microbatch);
  if (!run.memory.applies_at_once(tensor_)) return;
  // The rows beyond have a gradient of zero, which moves them where there is decay or momentum.
  for (std::int64_t begin = gradient_floats(), end = 0; begin < all; begin = end) {
    end = std::min(all, begin + gradient_floats());
    device.sum_rows({compute, width_, gradient, {}, begin, end, sums});
    run.step->fold(tensor_, begin, span_of(sums, end - begin), run.microbatch);
  }
}

}  // namespace lpmm
