// Plain loops over the values of a tile: maxima, sums, bf16.
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include "kernels/cpu/tile.h"
#include "kernels/cpu/tile_vectors-inl.h"
#include "kernels/sums.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

inline void largest(const float* HWY_RESTRICT values, std::int64_t count, std::int64_t block,
                    std::uint32_t* HWY_RESTRICT bits) {
  const DI di;
  const VI magnitude = set(0x7FFFFFFF);
  for (std::int64_t first = 0; first < count; first += block) {
    const std::int64_t end = first + block < count ? first + block : count;
    VI most[4] = {hn::Zero(di), hn::Zero(di), hn::Zero(di), hn::Zero(di)};
    for (std::int64_t i = first; i < end; i += 4 * kLanes) {
      for (int k = 0; k < 4; ++k) {
        const VI x = hn::BitCast(di, hn::LoadU(DF(), values + i + k * kLanes));
        most[k] = hn::Max(most[k], hn::And(x, magnitude));
      }
    }
    const VI all = hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]));
    bits[first / block] = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, all)));
  }
}

inline void smallest(const float* HWY_RESTRICT values, std::int64_t count, std::int64_t block,
                     std::uint32_t* HWY_RESTRICT bits) {
  const DU du;
  const VU magnitude = hn::Set(du, 0x7FFFFFFF);
  for (std::int64_t first = 0; first < count; first += block) {
    const std::int64_t end = first + block < count ? first + block : count;
    VU most[4] = {hn::Zero(du), hn::Zero(du), hn::Zero(du), hn::Zero(du)};
    for (std::int64_t i = first; i < end; i += 4 * kLanes) {
      for (int k = 0; k < 4; ++k) {
        const VU x = hn::BitCast(du, hn::LoadU(DF(), values + i + k * kLanes));
        most[k] = hn::Max(most[k], hn::Sub(hn::Zero(du), hn::And(x, magnitude)));
      }
    }
    const VU all = hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]));
    bits[first / block] = inverted(hn::GetLane(hn::MaxOfLanes(du, all)));
  }
}

// The codes of so many elements; kernels/peaks.h in vectors.
template <Peak kPeak>
HWY_INLINE VI peak_codes(const float* HWY_RESTRICT values, const float* HWY_RESTRICT beside) {
  const VF x = hn::Load(DF(), values), y = hn::Load(DF(), beside);
  VF size = hn::Mul(x, y);
  if (kPeak == Peak::kUpdate) size = hn::IfThenZeroElse(hn::Eq(x, hn::Zero(DF())), hn::Div(x, y));
  const VI exponent = hn::ShiftRight<23>(hn::BitCast(DI(), hn::Abs(size)));
  const VI code = hn::Sub(exponent, set(127 + peak_exponent(kPeak) - 1));
  return hn::Min(hn::Max(code, hn::Zero(DI())), set(kMostPeak));
}

template <Peak kPeak>
void raise_peaks_of(const float* values, const float* beside, std::int64_t count,
                    std::uint8_t* HWY_RESTRICT codes) {
  const hn::Rebind<std::uint8_t, DI> d8;
  for (std::int64_t group = 0; group < count; group += kGroup, codes += kPeakBytes) {
    for (std::int64_t i = 0; i < kPeakBytes; i += kLanes) {
      const VI held = hn::PromoteTo(DI(), hn::LoadU(d8, codes + i));
      const auto raised = [&](VI code, std::int64_t at) {
        return hn::Max(code, peak_codes<kPeak>(values + at, beside + at));
      };
      const VI low = raised(hn::And(held, set(kMostPeak)), group + i);
      const VI high = raised(hn::ShiftRight<4>(held), group + kPeakBytes + i);
      hn::StoreU(hn::DemoteTo(d8, hn::Or(low, hn::ShiftLeft<4>(high))), d8, codes + i);
    }
  }
}

inline void raise_peaks(Peak peak, const float* values, const float* beside, std::int64_t count,
                        std::uint8_t* codes) {
  peak == Peak::kUpdate ? raise_peaks_of<Peak::kUpdate>(values, beside, count, codes)
                        : raise_peaks_of<Peak::kRatio>(values, beside, count, codes);
}

inline void add_scaled(float* HWY_RESTRICT sum, const float* HWY_RESTRICT addend, float scale,
                       std::int64_t count) {
  const DF df;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    hn::Store(hn::Add(hn::Load(df, sum + i), hn::Mul(set(scale), hn::LoadU(df, addend + i))), df, sum + i);
  }
}

// The sum of squares of a packing group, of any alignment; the products are exact.
HWY_INLINE double group_square_sum(const float* HWY_RESTRICT values) {
  const hn::Repartition<double, DF> dd;
  const hn::Rebind<float, decltype(dd)> df;
  constexpr int kHalf = static_cast<int>(kLanes / 2);
  constexpr int kVectors = kSumLanes / kHalf;
  hn::Vec<decltype(dd)> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(dd);
#pragma GCC unroll 8
  for (int i = 0; i < kGroup; i += kSumLanes) {
#pragma GCC unroll 8
    for (int k = 0; k < kVectors; ++k) {
      const auto x = hn::PromoteTo(dd, hn::LoadU(df, values + i + k * kHalf));
      sums[k] = hn::MulAdd(x, x, sums[k]);
    }
  }
#pragma GCC unroll 4
  for (int width = kVectors / 2; width > 0; width /= 2) {
    for (int k = 0; k < width; ++k) sums[k] = hn::Add(sums[k], sums[k + width]);
  }
  alignas(64) double lanes[kHalf];
  hn::Store(sums[0], dd, lanes);
  for (int width = kHalf / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

inline void square_sums(const float* HWY_RESTRICT values, std::int64_t count, double* HWY_RESTRICT sums) {
  for (std::int64_t first = 0; first < count; first += kUnit) {
    double groups[kUnitGroups];
    std::int64_t here = 0;
    for (; here < kUnitGroups && first + here * kGroup < count; ++here) {
      groups[here] = group_square_sum(values + first + here * kGroup);
    }
    sums[first / kUnit] = sum_as_tree(groups, here);
  }
}

template <bool kStochastic>
void to_bf16_loop(const float* HWY_RESTRICT values, const NoiseLine* HWY_RESTRICT lines, std::int64_t count,
                  std::uint16_t* HWY_RESTRICT out) {
  const DU du;
  const hn::Rebind<std::uint16_t, DF> d16;
  Draws draws;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    if constexpr (kStochastic) {
      if (i % kGroup == 0) draws = Draws(lines[i / kGroup]);
    }
    const VF x = hn::LoadU(DF(), values + i);
    const VU u = hn::BitCast(du, x);
    VU rounded = rounded_to_bf16(x);
    if constexpr (kStochastic) {
      const auto ordinary = hn::Lt(hn::Abs(x), hn::BitCast(DF(), hn::Set(du, 0x7F7F0000)));
      rounded = hn::IfThenElse(hn::RebindMask(du, ordinary), hn::Add(u, draws.next<16>()), rounded);
    }
    const VU quiet = hn::Or(hn::ShiftRight<16>(u), hn::Set(du, 0x40));
    const VU b = hn::IfThenElse(hn::RebindMask(du, hn::Ne(x, x)), quiet, hn::ShiftRight<16>(rounded));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(DI(), b)), d16, out + i);
  }
  for (; i < count; ++i) out[i] = round_to_bf16(values[i], kStochastic ? lines : nullptr, i);
}

inline void to_bf16(const float* values, const NoiseLine* lines, std::int64_t count, std::uint16_t* out) {
  lines == nullptr ? to_bf16_loop<false>(values, lines, count, out)
                   : to_bf16_loop<true>(values, lines, count, out);
}

inline void from_bf16(const std::uint16_t* HWY_RESTRICT values, std::int64_t count, float* HWY_RESTRICT out) {
  const DU du;
  const hn::Rebind<std::uint16_t, DF> d16;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const VU wide = hn::PromoteTo(du, hn::LoadU(d16, values + i));
    hn::StoreU(hn::BitCast(DF(), hn::ShiftLeft<16>(wide)), DF(), out + i);
  }
  for (; i < count; ++i) out[i] = bf16_to_float(values[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
