// The elements of the tensors that rose furthest above their peaks (kernels/peaks.h) in some steps.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/peaks.h"
#include "lpmm/memory/model_memory.h"

namespace lpmm {

// The least that a code stands for: 0 for code 0.
double peak_size(Peak peak, int code);

struct ElementMove {
  std::int64_t element = 0;
  std::int64_t step = 0;  // the first in which it was that far
  Peak peak = Peak::kUpdate;
  int code = 0, before = 0;
  float parameter = 0;  // after that step

  int rise() const { return code - before; }  // a factor of 2 each
};

class ElementWatch {
 public:
  static constexpr std::size_t kKept = 5;  // of a tensor
  static constexpr int kLeastRise = 2;
  // A fraction of a tensor's root mean square: a smaller parameter passes near 0, and any update is large
  // relative to it.
  static constexpr double kLeastSize = 0.25;

  // The peaks are what they were before.
  explicit ElementWatch(const ModelMemory& memory);
  // Call this after each step that was watched.
  void measure(std::int64_t step);
  // For each tensor, the elements that rose furthest; ties: the earliest first. None where it keeps no peaks.
  const std::vector<std::vector<ElementMove>>& moves() const { return moves_; }

 private:
  std::vector<std::uint8_t> read(int tensor) const;
  void compare(int tensor, std::int64_t step);
  double least_size(int tensor) const;
  float parameter(int tensor, std::int64_t element) const;

  const ModelMemory& memory_;
  std::vector<std::vector<std::uint8_t>> before_;
  std::vector<std::vector<ElementMove>> moves_;
};

}  // namespace lpmm
