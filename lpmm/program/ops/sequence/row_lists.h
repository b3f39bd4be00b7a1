// Rows of an activation by the row of a matrix that each belongs to: what gradients of tables are summed
// from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device.h"
#include "kernels/sequence.h"
#include "lpmm/program/workspace.h"

namespace lpmm {

// Room for lists of rows that belong together: the host's, and copies where a device has memory of its own.
struct RowLists {
  RowLists(Pieces& host, std::int64_t most);
  std::int64_t most;  // rows, and rows of the matrix that they belong to
  std::int32_t* rows;
  std::int64_t* first;
  std::int32_t* targets;
};
struct RowCopies {
  RowCopies(Pieces& pieces, const Device& device, std::int64_t most);
  std::byte *rows, *first, *targets;
};
// The lists where the device reads them; `count` targets.
kernels::RowGroups on_device(Device& device, const RowLists& host, std::int64_t count,
                             const RowCopies& copies);

// The rows of a batch that hold each token.
class TokenRows {
 public:
  // Takes the room of these lists, and fills their rows.
  TokenRows(Device& device, const std::vector<std::int32_t>& tokens, const RowLists& host,
            const RowCopies& copies);
  std::int64_t count() const { return groups_.count; }              // of different tokens
  std::int32_t token(std::int64_t i) const { return targets_[i]; }  // rising
  // out <- elements begin, ..., end - 1 of the gradient of an embedding (tokens, width) whose output has the
  // gradient `x`.
  void sum(Device& device, ValueType compute, std::int64_t width, const std::byte* x, std::int64_t begin,
           std::int64_t end, float* out) const;

 private:
  const std::int32_t* targets_;  // the host's
  kernels::RowGroups groups_;
};

}  // namespace lpmm
