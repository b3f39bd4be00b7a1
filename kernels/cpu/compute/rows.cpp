// Rows that move: those that lie apart, and images cut into patches.
#include "kernels/cpu.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"

namespace lpmm::kernels {

void CpuDevice::copy_or_add_rows(ValueType type, const Rows& rows, const void* src, void* dst) {
  const std::int64_t b = value_bytes(type);
  for_shards(pool(), rows.count, std::max<std::int64_t>(1, kShard / rows.columns),
             [&](std::int64_t first, std::int64_t n) {
               for (std::int64_t row = first; row < first + n; ++row) {
                 const void* from = bytes_at(src, row * rows.in_stride * b);
                 void* to = bytes_at(dst, row * rows.out_stride * b);
                 if (rows.accumulate) {
                   loops::elements().add(type, rows.columns, to, from, to);
                 } else {
                   std::memcpy(to, from, static_cast<std::size_t>(rows.columns * b));
                 }
               }
             });
}

void CpuDevice::patches(const PatchShape& s, ValueType type, const void* x, void* y) {
  const std::int64_t down = s.height / s.side, across = s.width / s.side;
  pool().for_each(s.batch * down, [&](std::int64_t item, int) {
    const std::int64_t image = item / down, top = item % down * s.side;
    std::int64_t out = item * across * s.values();
    for (std::int64_t left = 0; left < s.width; left += s.side) {
      for (int c = 0; c < s.channels; ++c) {
        for (int line = 0; line < s.side; ++line) {
          const std::int64_t in = ((image * s.height + top + line) * s.width + left) * s.channels + c;
          for (int i = 0; i < s.side; ++i)
            put(type, y, out++, get(type, x, in + std::int64_t{1} * i * s.channels));
        }
      }
    }
  });
}

}  // namespace lpmm::kernels
