// Half precision, as files hold it.
#pragma once

#include <cstdint>

#include "kernels/formats/codec.h"

namespace lpmm {

// IEEE 754 binary16; every one is a float.
inline float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = (h & 0x8000U) << 16, exponent = h >> 10 & 0x1FU, fraction = h & 0x3FFU;
  if (exponent == 0x1F) return bits_float(sign | 0x7F800000U | fraction << 13);
  const float magnitude = exponent == 0 ? static_cast<float>(fraction) * 0x1p-24F
                                        : bits_float((exponent + 112) << 23 | fraction << 13);
  return bits_float(sign | float_bits(magnitude));
}

// Rounded to the nearest, of two as near to the even one; what is too large becomes infinite.
inline std::uint16_t float_to_half(float x) {
  const std::uint32_t bits = float_bits(x), sign = bits >> 16 & 0x8000U, size = bits & 0x7FFFFFFFU;
  constexpr std::uint32_t kSmallestNormal = 113U << 23, kTooLarge = 0x477FF000;  // 2^-14, 65520
  std::uint32_t half = 0;
  if (size > 0x7F800000U) {
    half = 0x7E00;  // no number
  } else if (size >= kTooLarge) {
    half = 0x7C00;
  } else if (size >= kSmallestNormal) {
    half = (size + 0xFFFU + (size >> 13 & 1U) - (112U << 23)) >> 13;
  } else {  // adding 0.5 leaves as many bits as a subnormal half has
    half = float_bits(bits_float(size) + 0.5F) - float_bits(0.5F);
  }
  return static_cast<std::uint16_t>(sign | half);
}

}  // namespace lpmm
