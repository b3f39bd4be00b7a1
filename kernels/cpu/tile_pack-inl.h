// The planes of a group from its codes in order.
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include <type_traits>

#include "kernels/cpu/tile_vectors-inl.h"
#include "kernels/formats/codec.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

// A group's 128 codes as bytes (up to 8 bits) or halfwords, in order of elements.
template <bool kWide>
using CodeOf = std::conditional_t<kWide, std::uint16_t, std::uint8_t>;

// Shifts bytes by less than 8 through halfwords; the caller masks what crosses over.
template <class D>
HWY_INLINE hn::Vec<D> shift_bytes_right(D d, hn::Vec<D> v, int by) {
  const hn::Repartition<std::uint16_t, D> d16;
  return hn::BitCast(d, hn::ShiftRightSame(hn::BitCast(d16, v), by));
}
template <class D>
HWY_INLINE hn::Vec<D> shift_bytes_left(D d, hn::Vec<D> v, int by) {
  const hn::Repartition<std::uint16_t, D> d16;
  return hn::BitCast(d, hn::ShiftLeftSame(hn::BitCast(d16, v), by));
}

template <class D>
HWY_INLINE void gather_plane(D d, const std::uint8_t* HWY_RESTRICT in, int w,
                             std::uint8_t* HWY_RESTRICT plane) {
  for (int at = 0; at < 16 * w; at += static_cast<int>(hn::Lanes(d))) {
    auto bytes = hn::Load(d, in + at);
    for (int k = 1; k < 8 / w; ++k) {
      bytes = hn::Or(bytes, shift_bytes_left(d, hn::Load(d, in + 16 * w * k + at), w * k));
    }
    hn::StoreU(bytes, d, plane + at);
  }
}

using D16Bytes = hn::CappedTag<std::uint8_t, 16>;
using D32Bytes = hn::CappedTag<std::uint8_t, 32>;
using D64Bytes = hn::CappedTag<std::uint8_t, 64>;

template <bool kWide>
HWY_INLINE void pack(const CodeOf<kWide>* HWY_RESTRICT in, int bits, std::uint8_t* HWY_RESTRICT planes) {
  const hn::ScalableTag<CodeOf<kWide>> d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  alignas(64) std::uint8_t part[kGroup];
  int shift = 0;
  for (int left = bits; left > 0;) {
    const int w = plane_width(left);
    left -= w;
    const auto mask = hn::Set(d, static_cast<CodeOf<kWide>>((1U << w) - 1U));
    std::uint8_t* bytes = w == 8 ? planes : part;
    for (int at = 0; at < kGroup; at += lanes) {
      const auto codes = hn::Load(d, in + at);
      if constexpr (kWide) {
        const hn::Rebind<std::uint8_t, decltype(d)> d8;
        const hn::RebindToSigned<decltype(d)> di;
        const auto bits_of = hn::And(hn::ShiftRightSame(codes, shift), mask);
        hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, bits_of)), d8, bytes + at);
      } else {
        hn::StoreU(hn::And(shift_bytes_right(d, codes, shift), mask), d, bytes + at);
      }
    }
    if (w == 4) gather_plane(D64Bytes(), part, 4, planes);
    if (w == 2) gather_plane(D32Bytes(), part, 2, planes);
    if (w == 1) gather_plane(D16Bytes(), part, 1, planes);
    shift += w;
    planes += 16 * w;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
