// The vectors of the tile loops, which hold kLanes neighbouring elements.
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>

#include "kernels/noise.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using DU64 = hn::Repartition<std::uint64_t, DU>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VU = hn::Vec<DU>;
using VU64 = hn::Vec<DU64>;
constexpr std::int64_t kLanes = HWY_MAX_BYTES / 4;

// Four vectors of neighbouring elements go through each operation side by side: alone, one would wait for its
// own results most of the time.
constexpr int kSide = 4;
constexpr std::int64_t kSideBySide = kSide * kLanes;  // elements
using RowsF = VF[kSide];
using RowsI = VI[kSide];

template <class Stage>
HWY_INLINE void each(const Stage& stage) {
#pragma GCC unroll 4
  for (int i = 0; i < kSide; ++i) stage(i);
}

HWY_INLINE VF set(float x) {
  return hn::Set(DF(), x);
}
HWY_INLINE VI set(std::int32_t x) {
  return hn::Set(DI(), x);
}
HWY_INLINE VF to_float(VI x) {
  return hn::ConvertTo(DF(), x);
}

// Nearest even and towards zero, for values that fit; the library's versions mend overflow too.
HWY_INLINE VI round_to_int(VF x) {
#if HWY_TARGET <= HWY_AVX3
  return VI{_mm512_cvtps_epi32(x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_cvtps_epi32(x.raw)};
#else
  return hn::NearestInt(x);
#endif
}
HWY_INLINE VI truncate_to_int(VF x) {
#if HWY_TARGET <= HWY_AVX3
  return VI{_mm512_cvttps_epi32(x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_cvttps_epi32(x.raw)};
#else
  return hn::ConvertTo(DI(), x);
#endif
}

// Entries of a column, from memory.
struct Gather {
  static HWY_INLINE VF of(const float* column, VI index) { return hn::GatherIndex(DF(), column, index); }
  static HWY_INLINE VI of(const std::int32_t* column, VI index) {
    return hn::GatherIndex(DI(), column, index);
  }
};
// Entries of a vector, those that the low bits of an index name; of 8 where vectors hold fewer, and an index
// is below 8 there.
#if HWY_TARGET <= HWY_AVX3
struct Lookup8 {
  static HWY_INLINE VF of(const float* column, VI index) {
    return VF{_mm512_permutexvar_ps(index.raw, hn::LoadU(DF(), column).raw)};
  }
  static HWY_INLINE VI of(const std::int32_t* column, VI index) {
    return VI{_mm512_permutexvar_epi32(index.raw, hn::LoadU(DI(), column).raw)};
  }
};
#elif HWY_TARGET == HWY_AVX2
struct Lookup8 {
  static HWY_INLINE VF of(const float* column, VI index) {
    return VF{_mm256_permutevar8x32_ps(hn::LoadU(DF(), column).raw, index.raw)};
  }
  static HWY_INLINE VI of(const std::int32_t* column, VI index) {
    return VI{_mm256_permutevar8x32_epi32(hn::LoadU(DI(), column).raw, index.raw)};
  }
};
#else
using Lookup8 = Gather;
#endif

// Rounds to the nearest bf16, in the upper halves; not for NaN.
HWY_INLINE VU rounded_to_bf16(VF x) {
  const VU u = hn::BitCast(DU(), x);
  const VU odd = hn::And(hn::ShiftRight<16>(u), hn::Set(DU(), 1));
  return hn::Add(hn::Add(u, hn::Set(DU(), 0x7FFF)), odd);
}

// The draws of a group, a vector of neighbouring lanes at a time.
class Draws {
 public:
  Draws() = default;
  HWY_INLINE explicit Draws(NoiseLine line)
      : next_(hn::Add(hn::Mul(hn::Set(DU(), line.slope), hn::Iota(DU(), 0)), hn::Set(DU(), line.start))),
        stride_(hn::Set(DU(), line.slope * static_cast<std::uint32_t>(kLanes))) {}
  // The next draws, of kBits bits; those of fewer than 16 bits are the upper bits of those of 16.
  template <int kBits>
  HWY_INLINE VU next() {
    const VU draws = hn::ShiftRight<32 - kBits>(next_);
    next_ = hn::Add(next_, stride_);
    return draws;
  }

 private:
  VU next_, stride_;
};

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
