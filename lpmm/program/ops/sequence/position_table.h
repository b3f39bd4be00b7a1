// The parts that ops with learned positions share: the table's rows decoded for forward, and their gradient.
#pragma once

#include <cstdint>

#include "lpmm/program/op.h"
#include "lpmm/program/ops/sequence/row_lists.h"

namespace lpmm {

// A tensor (context, width) whose row first + t is added to position t of sequences of `length`.
class PositionTable {
 public:
  PositionTable(int tensor, std::int64_t context, std::int64_t length, std::int64_t width,
                std::int64_t first = 0)
      : tensor_(tensor), context_(context), length_(length), width_(width), first_(first) {}

  std::int64_t row_floats() const { return length_ * width_; }
  // Rows up to the last position in use, to the end of a tile.
  std::int64_t gradient_floats() const;
  // The rows of this call: `ids` and `room` take `length` integers of the host and, apart from it, of the
  // device. Throws RunError where a text is longer than the context.
  void decode(const RunState& run, std::int32_t* ids, std::byte* room, float* out) const;
  // Folds the gradient of `rows` positions of all sequences, each by its place in its document.
  void fold(RunState& run, ValueType compute, const std::byte* gradient, std::int64_t rows,
            const RowLists& host, const RowCopies& copies, float* sums) const;

 private:
  int tensor_;
  std::int64_t context_, length_, width_, first_;
};

}  // namespace lpmm
