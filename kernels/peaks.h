// Peaks: two codes of 4 bits for each element of a tensor, which hold for a while how far its updates went
// and how far its gradients were from what its variance expects. A code stands for a power of 2 and rises at
// once; from time to time all fall by one. They lie as the codes of a 4-bit format do.
#pragma once

#include <cstdint>

#include "kernels/formats/codec.h"
#include "kernels/rules/watched.h"

namespace lpmm {

enum class Peak : std::uint8_t {
  kUpdate,  // |update| / |parameter|
  kRatio    // g^2 / v; a rule without a variance has none
};
inline constexpr int kPeaks = static_cast<int>(Peak::kRatio) + 1;
inline constexpr Format kPeakFormat = {Map::kLinear, 4};
inline constexpr int kMostPeak = 15;
inline constexpr std::int64_t kStepsPerFall = 16;

// Code c above 0 stands for 2^(c - 1 + peak_exponent) to twice that, the last one for all above too; code 0
// for less.
LPMM_HD constexpr int peak_exponent(Peak peak) {
  return peak == Peak::kUpdate ? -11 : -1;
}
LPMM_HD std::uint32_t peak_code(Peak peak, float size) {
  const int exponent = static_cast<int>(abs_bits(size) >> 23) - 127;  // infinite and NaN: 128
  const int code = exponent - peak_exponent(peak) + 1;
  return static_cast<std::uint32_t>(code < 0 ? 0 : code > kMostPeak ? kMostPeak : code);
}
// The codes of what measure_element() found.
LPMM_HD std::uint32_t update_peak(float update, float parameter) {
  return update == 0.0F ? 0U : peak_code(Peak::kUpdate, update / parameter);
}
LPMM_HD std::uint32_t ratio_peak(float ratio) {
  return peak_code(Peak::kRatio, ratio * ratio);
}

// A byte holds the codes of two elements, half a packing group apart.
inline constexpr int kPeakBytes = static_cast<int>(kGroup) / 2;  // of a group
LPMM_HD std::uint8_t raised_peaks(std::uint8_t held, bool fall, std::uint32_t first, std::uint32_t second) {
  std::uint32_t low = held & 15U, high = held >> 4U;
  if (fall) {
    low -= low > 0U ? 1U : 0U;
    high -= high > 0U ? 1U : 0U;
  }
  low = first > low ? first : low;
  high = second > high ? second : high;
  return static_cast<std::uint8_t>(low | high << 4U);
}

// The memory of the peaks; null where they are not kept.
struct PeakView {
  std::uint8_t* update = nullptr;
  std::uint8_t* ratio = nullptr;
  bool fall = false;  // in this step
};

}  // namespace lpmm
