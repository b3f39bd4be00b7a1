// The steps of the rows and columns of a tensor that is about to be stored. They need all of its new values
// first: a pass over the tensor that only reads, and whose maxima are the same in any order. Until the tensor
// is stored, the steps in memory are those its codes have.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "kernels/cpu/packed/tile_view.h"

namespace lpmm::kernels {

class NextSteps {
 public:
  NextSteps() = default;
  explicit NextSteps(const RoleView& role)
      : role_(role), steps_(static_cast<std::size_t>(steps_of(role.codec, role.elements))) {}

  bool is_needed() const { return !steps_.empty(); }
  const float* data() const { return is_needed() ? steps_.data() : nullptr; }

  // Threads bring tiles, padded and storable, in any order.
  void raise(const TileView& t, const float* values) {
    const Codec& c = t.codec;
    std::int64_t row = t.first / c.block, column = t.first % c.block;
    for (std::int64_t done = 0; done < t.count; ++row, column = 0) {
      const std::int64_t n = std::min(t.count - done, c.block - column);
      float largest = 0.0F;
      for (std::int64_t i = done; i < done + n; ++i) largest = std::max(largest, std::abs(values[i]));
      raise(first_block_step(c) + row, largest);
      if (c.scaling == Scaling::kRank1) {
        for (std::int64_t i = 0; i < n; ++i) raise(column + i, std::abs(values[done + i]));
      }
      done += n;
    }
  }
  // Turns maxima into steps.
  void choose() {
    for (float& step : steps_) step = covering_step(role_.codec, step);
  }
  void store() const {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      store_step(role_.codec, role_.steps, static_cast<std::int64_t>(i), steps_[i]);
    }
  }

 private:
  void raise(std::int64_t place, float magnitude) {
    std::atomic_ref<float> largest(steps_[static_cast<std::size_t>(place)]);
    float held = largest.load(std::memory_order_relaxed);
    while (magnitude > held && !largest.compare_exchange_weak(held, magnitude, std::memory_order_relaxed)) {
    }
  }

  RoleView role_;
  std::vector<float> steps_;  // while the pass goes on, maxima
};

}  // namespace lpmm::kernels
