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

}  // namespace lpmm
