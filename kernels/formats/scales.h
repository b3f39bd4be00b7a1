// Steps that are not one bf16 number for a block, as states may have them: fp32, or of the rows and columns
// of a matrix (Codec::step_bits, Codec::scaling). Values are divided by their step first, and the quotients
// coded with a step of 1 (kernels/formats/element.h), as in the libraries that have such steps.
//
// A value that is read and written again unchanged is divided by its step once more; a quotient in fp32 may
// be off by its last bit, and stochastic rounding then moves a code: at 8 bits in one of 2^15 cases, of
// `int12` in one of 2^13, of `int16` in one of 2^9.
#pragma once

#include <cstdint>

#include "kernels/formats/element.h"

namespace lpmm {

// Step number i of an array in memory. fp32 steps lie there as two halves, the low one first.
LPMM_HD float load_step(const Codec& c, const std::uint16_t* steps, std::int64_t i) {
  if (c.step_bits == 16) return bf16_to_float(steps[i]);
  return bits_float(steps[2 * i] | static_cast<std::uint32_t>(steps[2 * i + 1]) << 16);
}
LPMM_HD void store_step(const Codec& c, std::uint16_t* steps, std::int64_t i, float step) {
  const std::uint32_t bits = float_bits(step);
  if (c.step_bits == 16) {
    steps[i] = static_cast<std::uint16_t>(bits >> 16);
    return;
  }
  steps[2 * i] = static_cast<std::uint16_t>(bits);
  steps[2 * i + 1] = static_cast<std::uint16_t>(bits >> 16);
}

// The step of an element; step_at(i) is number i of the tensor's.
template <class StepAt>
LPMM_HD float step_of_element(const Codec& c, const StepAt& step_at, std::int64_t element) {
  const float of_block = step_at(first_block_step(c) + element / c.block);
  if (c.scaling != Scaling::kRank1) return of_block;
  const float of_column = step_at(element % c.block);
  return of_column < of_block ? of_column : of_block;
}
LPMM_HD float stored_step(const Codec& c, const std::uint16_t* steps, std::int64_t element) {
  return step_of_element(
      c, [&](std::int64_t i) { return load_step(c, steps, i); }, element);
}

// The step that covers the largest magnitude of a block, row or column: bf16 rounded up, or the smallest fp32
// number, which is the magnitude itself where the map ends at 1.
LPMM_HD float covering_step(const Codec& c, float largest) {
  constexpr float kFloor = 1e-12F;  // torchao's
  if (c.step_mode == StepMode::kFloored && largest < kFloor) largest = kFloor;
  if (largest == 0.0F) return 0.0F;
  const float limit = map_limit(c.format);
  if (largest > kMaxMagnitude) largest = kMaxMagnitude;
  if (c.step_bits == 16) return bf16_to_float(covering_step(largest, limit));
  const float step = largest / limit < kMinStep ? kMinStep : largest / limit;
  const bool covers = static_cast<double>(step) * static_cast<double>(limit) >= static_cast<double>(largest);
  return covers ? step : bits_float(float_bits(step) + 1);
}

// Tells the steps of an element that it has this magnitude: raise(i, bits) for number i of the tensor's.
template <class Raise>
LPMM_HD void raise_steps(const Codec& c, const Raise& raise, std::int64_t element, std::uint32_t bits) {
  raise(first_block_step(c) + element / c.block, bits);
  if (c.scaling == Scaling::kRank1) raise(element % c.block, bits);
}

// A step of 0 has the code of 0.
LPMM_HD std::uint32_t encode_quotient(const Codec& c, MapTable table, float x, float step,
                                      std::uint32_t draw) {
  return encode_value(c.format, table, c.rounding, step > 0.0F ? x / step : 0.0F, 1.0F, draw);
}

}  // namespace lpmm
