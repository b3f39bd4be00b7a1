#include "lpmm/program/ops/sequence/row_lists.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "lpmm/memory/device_memory.h"

namespace lpmm {

RowLists::RowLists(Pieces& host, std::int64_t n)
    : most(n),
      rows(reinterpret_cast<std::int32_t*>(host.take(4 * n))),
      first(reinterpret_cast<std::int64_t*>(host.take(8 * (n + 1)))),
      targets(reinterpret_cast<std::int32_t*>(host.take(4 * n))) {}

RowCopies::RowCopies(Pieces& pieces, const Device& device, std::int64_t n)
    : rows(pieces.take(room_on(device, 4 * n))),
      first(pieces.take(room_on(device, 8 * (n + 1)))),
      targets(pieces.take(room_on(device, 4 * n))) {}

kernels::RowGroups on_device(Device& device, const RowLists& host, std::int64_t count,
                             const RowCopies& copies) {
  return {on_device(device, host.rows, host.most, copies.rows),
          on_device(device, host.first, count + 1, copies.first),
          on_device(device, host.targets, count, copies.targets), count};
}

TokenRows::TokenRows(Device& device, const std::vector<std::int32_t>& tokens, const RowLists& host,
                     const RowCopies& copies)
    : targets_(host.targets) {
  if (std::ssize(tokens) < host.most) throw std::logic_error("a batch has too few tokens");
  const auto token = [&](std::int32_t row) { return tokens[static_cast<std::size_t>(row)]; };
  std::iota(host.rows, host.rows + host.most, 0);
  std::sort(host.rows, host.rows + host.most, [&](std::int32_t i, std::int32_t j) {
    return token(i) != token(j) ? token(i) < token(j) : i < j;
  });
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < host.most; ++i) {
    if (i > 0 && token(host.rows[i]) == token(host.rows[i - 1])) continue;
    host.targets[count] = token(host.rows[i]);
    host.first[count++] = i;
  }
  host.first[count] = host.most;
  groups_ = on_device(device, host, count, copies);
}

void TokenRows::sum(Device& device, ValueType compute, std::int64_t width, const std::byte* x,
                    std::int64_t begin, std::int64_t end, float* out) const {
  const auto first_from = [&](std::int64_t row) {
    return std::lower_bound(targets_, targets_ + groups_.count, row) - targets_;
  };
  const std::int64_t first = first_from(begin / width), last = first_from((end + width - 1) / width);
  device.sum_rows({compute,
                   width,
                   x,
                   {groups_.rows, groups_.first + first, groups_.targets + first, last - first},
                   begin,
                   end,
                   out});
}

}  // namespace lpmm
