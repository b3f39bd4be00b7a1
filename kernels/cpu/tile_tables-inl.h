// Tables that encoders look up: the lines of a softsign, the zones of a map by column.
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include <cmath>

#include "kernels/cpu/tile_vectors-inl.h"
#include "kernels/formats/element.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

// Entries of a column of 32.
#if HWY_TARGET <= HWY_AVX3
struct Lookup32 {
  static HWY_INLINE VF of(const float* column, VI index) {
    return VF{_mm512_permutex2var_ps(hn::Load(DF(), column).raw, index.raw, hn::Load(DF(), column + 16).raw)};
  }
  static HWY_INLINE VI of(const std::int32_t* column, VI index) {
    return VI{
        _mm512_permutex2var_epi32(hn::Load(DI(), column).raw, index.raw, hn::Load(DI(), column + 16).raw)};
  }
};
#else
using Lookup32 = Gather;
#endif

// Softsign of few bits: [0, 1] in 8 cells with at most one entry k / (2L - k) inside each, so that the
// position is on the lower of two lines. Twice over, for 16 lanes.
struct SoftsignCells {
  static constexpr float kPerUnit = 7.99F;  // 1 lies in the last cell, whatever rounding does
  alignas(64) float slope[16] = {}, start[16] = {}, next_slope[16] = {}, next_start[16] = {};

  constexpr explicit SoftsignCells(int limit) {
    for (int i = 0; i < 16; ++i) {
      const float begin = static_cast<float>(i % 8) / kPerUnit;
      int k = 0;
      while (entry_of(k + 1, limit) <= begin) ++k;
      const SoftsignLine line = softsign_line(k, limit), next = softsign_line(k + 1, limit);
      slope[i] = line.slope;
      start[i] = line.start;
      next_slope[i] = next.slope;
      next_start[i] = next.start;
    }
  }
  static constexpr float entry_of(int k, int limit) {
    return static_cast<float>(k) / static_cast<float>(2 * limit - k);
  }
};
inline constexpr SoftsignCells kSoft3Cells(3), kSoft4Cells(7);

// The zones of a map by column, in parts, where the coding has any.
template <Coding kCoding>
struct ZoneColumns {
  HWY_INLINE explicit ZoneColumns(MapTable) {}
};
template <int kColumn, int kRepeat>
struct Columns {
  alignas(64) float first[kColumn], scale[kColumn], last[kColumn], stretch[kColumn];
  alignas(64) std::int32_t number[kColumn];
  explicit Columns(MapTable table) {
    for (int i = 0; i < kColumn; ++i) {
      const Zone& zone = table.zones[i % kRepeat];
      first[i] = zone.first;
      scale[i] = zone.scale * static_cast<float>(1 << kCurvedBits);
      last[i] = zone.last * static_cast<float>(1 << kCurvedBits);
      stretch[i] = zone.stretch;
      number[i] = zone.number;
    }
  }
};
constexpr int kDynamicZones = 8;
// The 8 of a dynamic map twice over, for 16 lanes; all of both sides else. Zones are decades, nearly: half a
// zone below a line through the bits of a magnitude, which are nearly its logarithm, lies the magnitude's
// zone or the one before.
template <>
struct ZoneColumns<Coding::kDynamic> : Columns<2 * kDynamicZones, kDynamicZones> {
  alignas(64) float next[2 * kDynamicZones];  // where the next zone begins
  float slope, start;
  explicit ZoneColumns(MapTable table) : Columns(table) {
    int zones = 1;
    while (zones + 1 < kDynamicZones && std::isfinite(first[zones + 1])) ++zones;
    const auto begin = static_cast<float>(float_bits(first[1]));
    slope = static_cast<float>(zones - 1) / (static_cast<float>(float_bits(first[zones])) - begin);
    start = 0.5F - slope * begin;
    for (int i = 0; i < 2 * kDynamicZones; ++i) {
      const int zone = i % kDynamicZones + 1;
      next[i] = zone < kDynamicZones ? first[zone] : HUGE_VALF;
    }
  }
};
template <>
struct ZoneColumns<Coding::kZones> : Columns<2 * kZones, 2 * kZones> {
  using Columns::Columns;
};

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
