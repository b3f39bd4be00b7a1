// Pieces of the workspace that an op runs in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/compute.h"

namespace lpmm {

// Hands out pieces of the workspace; with a null base it only counts them.
class Pieces {
 public:
  explicit Pieces(std::byte* base) : base_(base) {}
  std::byte* take(std::int64_t bytes) {
    std::byte* p = base_ == nullptr ? nullptr : base_ + used_;
    used_ += kernels::aligned(bytes);
    return p;
  }
  float* floats(std::int64_t count) { return reinterpret_cast<float*>(take(4 * count)); }
  std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

// Bytes of the largest of several ways to lay out one workspace.
template <class... Layouts>
std::int64_t largest_layout(const Layouts&... layouts) {
  const auto bytes_of = [](const auto& lay_out) {
    Pieces pieces(nullptr);
    lay_out(pieces);
    return pieces.used();
  };
  return std::max({bytes_of(layouts)...});
}

inline std::span<float> span_of(float* p, std::int64_t count) {
  return {p, static_cast<std::size_t>(count)};
}

}  // namespace lpmm
