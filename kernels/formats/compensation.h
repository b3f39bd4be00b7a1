// A parameter in two terms, p = P + C: P, the role `parameter`, is all that forward and backward read; C, the
// role `compensation`, what rounding P left of p, which only the update reads and writes. An update applies
// the rule to the sum and splits what comes of it anew:
//
//   p = P + C,  p <- rule(p),  P <- round(p),  C <- round(p - P).
//
// This is Kahan's summation (1965; of weights: Zamirai et al. 2020, arXiv 2010.06192) with a packed
// compensation: its c <- c + u, P' = round(P + c), c <- c + (P - P') also leaves P + c + u in two terms. With
// C as `ulp8`, whose unit is that of the element's own bf16 parameter, it is the split into 16 + 8 bits of
// FlashOptim (arXiv 2602.23349).
#pragma once

#include <cmath>

#include "kernels/formats/codec.h"

namespace lpmm {

// `ulp8` is a share of a unit that the element's parameter gives, in 127ths; ties go away from 0.
LPMM_HD float ulp8_to_float(std::uint8_t code) {
  return static_cast<float>(static_cast<std::int8_t>(code)) / 127.0F;
}
LPMM_HD std::uint8_t float_to_ulp8(float x) {
  const float parts = 127.0F * (x > 1.0F ? 1.0F : x < -1.0F ? -1.0F : x);
  const float magnitude = fabsf(parts);
  const auto below = static_cast<std::int32_t>(magnitude);
  const std::int32_t code = below + (magnitude - static_cast<float>(below) >= 0.5F ? 1 : 0);
  return static_cast<std::uint8_t>(parts < 0.0F ? -code : code);
}
LPMM_HD std::uint8_t float_to_ulp8_stochastic(float x, std::uint32_t draw) {
  const float parts = 127.0F * (x > 1.0F ? 1.0F : x < -1.0F ? -1.0F : x);
  const auto fixed = static_cast<std::int32_t>(rintf(parts * 0x1p16F)) + static_cast<std::int32_t>(draw);
  return static_cast<std::uint8_t>(fixed >> 16);
}

// The value that a compensation of 1 stands for: 1; for `ulp8`, the most that rounding to `stored`, a bf16
// number, can take, half a unit in its last place to nearest and a whole one stochastically. It may be
// subnormal.
LPMM_HD float compensation_unit(const Codec& compensation, const Codec& parameter, float stored) {
  if (compensation.format.map != Map::kUlp) return 1.0F;
  constexpr std::uint32_t kExponent = 0x7F800000U, kLeast = 0x00800000U;  // of subnormal numbers
  const std::uint32_t exponent = float_bits(stored) & kExponent;
  const float share = takes_draws(parameter.rounding) ? 0x1p-7F : 0x1p-8F;
  return bits_float(exponent < kLeast ? kLeast : exponent) * share;
}

LPMM_HD float whole_parameter(float stored, float compensation, float unit) {
  return stored + compensation * unit;
}
// The compensation of a parameter that was to be `wanted`. A quotient, as the unit's inverse may overflow.
LPMM_HD float compensation_of(float wanted, float stored, float unit) {
  return (wanted - stored) / unit;
}

// The codecs of the two terms of a tensor's parameters.
struct TwoTerms {
  Codec parameter, compensation;

  LPMM_HD float sum(float stored, float rest) const {
    return whole_parameter(stored, rest, compensation_unit(compensation, parameter, stored));
  }
  LPMM_HD float rest(float wanted, float stored) const {
    return compensation_of(wanted, stored, compensation_unit(compensation, parameter, stored));
  }
};

}  // namespace lpmm
