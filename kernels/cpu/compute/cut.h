// The division of work in the compute layer: shards that depend on sizes alone, and partial sums added in a
// fixed order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/compute.h"
#include "kernels/cpu/compute/loops.h"
#include "kernels/cpu/values.h"
#include "kernels/formats/codec.h"
#include "kernels/threads/pool.h"

namespace lpmm::kernels {

// Elements of one shard of an element loop: fits the second-level cache with its companions.
inline constexpr std::int64_t kShard = std::int64_t{1} << 15;

inline std::byte* bytes_at(void* p, std::int64_t offset) {
  return static_cast<std::byte*>(p) + offset;
}
inline const std::byte* bytes_at(const void* p, std::int64_t offset) {
  return static_cast<const std::byte*>(p) + offset;
}
// Moves pointers on; null ones stay.
template <class... P>
void advance(std::int64_t bytes, P*&... pointers) {
  ((pointers = pointers == nullptr ? nullptr : reinterpret_cast<P*>(bytes_at(pointers, bytes))), ...);
}
inline float* floats_at(void* p, std::int64_t offset) {
  return reinterpret_cast<float*>(bytes_at(p, offset));
}

// Calls body(first, count) for the shards of `total`.
template <class Body>
void for_shards(Pool& pool, std::int64_t total, std::int64_t shard, const Body& body) {
  pool.for_each((total + shard - 1) / shard, [&](std::int64_t item, int) {
    const std::int64_t first = item * shard;
    body(first, std::min(shard, total - first));
  });
}

// The same of `count` activations: body(n, at) for n of them, where at(p) is their place in p.
template <class Body>
void for_values(Pool& pool, ValueType type, std::int64_t count, const Body& body) {
  for_shards(pool, count, kShard, [&](std::int64_t first, std::int64_t n) {
    body(n, [&](auto* p) { return bytes_at(p, first * value_bytes(type)); });
  });
}

// partials[0] += all others, pairwise in a fixed tree; element ranges in parallel.
inline void sum_tree(Pool& pool, std::int64_t partials, std::int64_t count, float* values) {
  for_shards(pool, count, 1024, [&](std::int64_t first, std::int64_t n) {
    for (std::int64_t gap = 1; gap < partials; gap *= 2) {
      for (std::int64_t p = 0; p + gap < partials; p += 2 * gap) {
        loops::elements().add_row(ValueType::kFp32, n, values + (p + gap) * count + first,
                                  values + p * count + first);
      }
    }
  });
}

}  // namespace lpmm::kernels
