// Packed codes to values.
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <type_traits>
#include <utility>

#include "kernels/cpu/tile.h"
#include "kernels/cpu/tile_pack-inl.h"
#include "kernels/cpu/tile_vectors-inl.h"
#include "kernels/formats/codec.h"
#include "kernels/sums.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

// ---- codes of a group from its planes ------------------------------------------------------------------
using DBytes = hn::Repartition<std::uint8_t, DF>;
using VBytes = hn::Vec<DBytes>;
constexpr int kByteLanes = 4 * static_cast<int>(kLanes);

// For each byte of a group, the lowest bit of its place in a plane of one or two bits per code.
template <int kWidth>
struct PlaneBits {
  alignas(64) std::uint8_t bits[kGroup] = {};
  constexpr PlaneBits() {
    for (int i = 0; i < kGroup; ++i) bits[i] = static_cast<std::uint8_t>(1U << (i / (16 * kWidth) * kWidth));
  }
};
template <int kWidth>
inline constexpr PlaneBits<kWidth> kPlaneBits;

// A plane's bits of the codes from `at` on, kDone places up, and 0 elsewhere.
template <int kWidth, int kDone>
HWY_INLINE VBytes plane_bits(const std::uint8_t* HWY_RESTRICT plane, int at) {
  const DBytes d;
  constexpr int kPlane = 16 * kWidth;  // bytes
  if constexpr (kPlane >= kByteLanes) {
    const VBytes bytes = hn::LoadU(d, plane + at % kPlane);
    const int below = kWidth * (at / kPlane);
    const VBytes moved = below > kDone ? shift_bytes_right(d, bytes, below - kDone)
                                       : shift_bytes_left(d, bytes, kDone - below);
    return hn::And(moved, hn::Set(d, static_cast<std::uint8_t>(((1 << kWidth) - 1) << kDone)));
  } else {
    // The vector goes over the plane several times, at another bit each.
    VBytes bytes;
    if constexpr (kPlane == 16) {
      bytes = hn::LoadDup128(d, plane);
    } else {
      const auto half = hn::LoadU(hn::Half<DBytes>(), plane);
      bytes = hn::Combine(d, half, half);
    }
    VBytes codes = hn::Zero(d);
    VBytes bit = hn::Load(d, kPlaneBits<kWidth>.bits + at);
    for (int i = 0; i < kWidth; ++i, bit = hn::Add(bit, bit)) {
      const VBytes one = hn::Set(DBytes(), static_cast<std::uint8_t>(1 << (kDone + i)));
      codes = hn::Or(codes, hn::IfThenElseZero(hn::TestBit(bytes, bit), one));
    }
    return codes;
  }
}
// The codes from `at` on, as bytes.
template <int kBits, int kDone = 0>
HWY_INLINE VBytes code_bytes(const std::uint8_t* HWY_RESTRICT planes, int at) {
  constexpr int kWidth = plane_width(kBits - kDone);
  const VBytes bits = plane_bits<kWidth, kDone>(planes, at);
  if constexpr (kDone + kWidth == kBits) {
    return bits;
  } else {
    return hn::Or(bits, code_bytes<kBits, kDone + kWidth>(planes + 16 * kWidth, at));
  }
}

// A vector of codes at a time, for decoding. Codes of several planes are made bytes first, all of a stretch,
// up to 8 bits; others are read where they lie.
template <int kBits, bool kSigned, bool kIsLookedUp>
class Codes {
  static constexpr bool kHasBytes = kBits == 8 || plane_width(kBits) == kBits;
  static constexpr bool kIsUnpacked = !kHasBytes && kBits < 8;
  using Byte = std::conditional_t<kSigned && (kBits == 8 || kIsUnpacked), std::int8_t, std::uint8_t>;

 public:
  // Takes the elements [first, first + count) of a group; count is a multiple of 64.
  HWY_INLINE Codes(const std::uint8_t* HWY_RESTRICT planes, int first, int count) : planes_(planes) {
    if constexpr (kIsUnpacked) {
      constexpr DBytes d;
      const VBytes top = hn::Set(d, static_cast<std::uint8_t>(1 << (kBits - 1)));
#pragma GCC unroll 4
      for (int at = first; at < first + count; at += kByteLanes) {
        VBytes codes = code_bytes<kBits>(planes, at);
        if constexpr (kSigned) codes = hn::Sub(hn::Xor(codes, top), top);
        hn::Store(codes, d, bytes_ + at);
      }
    }
  }
  // Elements e..e+N-1. For a lookup, which reads no more than their bits, anything may lie above the codes.
  HWY_INLINE VI operator()(int e) const {
    constexpr DI di;
    const hn::Rebind<Byte, DI> d8;
    if constexpr (kIsUnpacked) {
      return hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const Byte*>(bytes_) + e));
    } else if constexpr (kBits == 8) {
      return hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const Byte*>(planes_) + e));
    } else if constexpr (kIsLookedUp && kHasBytes) {
      const VI bytes = hn::PromoteTo(di, hn::LoadU(d8, planes_ + e % (16 * kBits)));
      return hn::ShiftRightSame(bytes, kBits * (e / (16 * kBits)));
    } else {
      const VI codes = at_top<kBits>(planes_, e);
      if constexpr (kSigned) return hn::ShiftRight<32 - kBits>(codes);
      return hn::BitCast(di, hn::ShiftRight<32 - kBits>(hn::BitCast(DU(), codes)));
    }
  }

 private:
  // Loads codes at the top of their lanes: each plane's bits go to their place, bits above the code drop out,
  // and those below it stay for the caller's shift. kLeft bits are not there yet.
  template <int kLeft>
  static HWY_INLINE VI at_top(const std::uint8_t* HWY_RESTRICT planes, int e) {
    constexpr DI di;
    if constexpr (kLeft == 0) {
      return hn::Zero(di);
    } else {
      constexpr int kWidth = plane_width(kLeft);
      const int below = kWidth * (e / (16 * kWidth));
      const hn::Rebind<std::uint8_t, DI> d8;
      VI part = hn::PromoteTo(di, hn::LoadU(d8, planes + e % (16 * kWidth)));
      const bool has_neighbours = (kLeft > kWidth && below + kWidth < 8) || (kLeft < kBits && below > 0);
      if (has_neighbours) part = hn::And(part, set(((1 << kWidth) - 1) << below));
      part = hn::ShiftLeftSame(part, 32 - kLeft - below);
      return hn::Or(part, at_top<kLeft - kWidth>(planes + 16 * kWidth, e));
    }
  }

  struct None {};
  const std::uint8_t* planes_;
  alignas(64) std::conditional_t<kIsUnpacked, std::uint8_t[kGroup], None> bytes_;
};

// The contents of a block's word, for a coding known to the compiler.
template <Coding kCoding>
HWY_INLINE Scale scale_at(Format f, MapTable table, std::uint16_t word) {
  if constexpr (has_range(kCoding)) return scale_of({Map::kLog, f.bits}, table, word);
  return {bf16_to_float(word), table};
}

// Formats of few bits are looked up: by one permutation where a vector holds all entries, by two where it
// holds half and the arithmetic is longer.
constexpr bool is_looked_up(Coding coding, int bits) {
  const bool is_computed =
      coding == Coding::kLinear || coding == Coding::kLinearNoZero || coding == Coding::kSquareRoot;
  return kLanes >= 8 && (1 << bits) <= kLanes * (is_computed ? 1 : 2);
}
// The entries of a coding without a map table, by the bits of the code, at least a vector of them.
template <Coding kCoding, int kBits>
struct Entries {
  static constexpr int kCount = kBits > 4 ? 1 << kBits : 16;
  alignas(64) float values[kCount];
  constexpr Entries() : values() {
    for (int i = 0; i < kCount; ++i) values[i] = value_of(i % (1 << kBits));
  }
  static constexpr float value_of(int code) {
    constexpr int kLevels = 1 << kBits, kLimit = kLevels / 2 - 1;
    const auto place = static_cast<float>(code + 1) / kLevels;
    if (kCoding == Coding::kLinearNoZero) return place;
    if (kCoding == Coding::kSquareRoot) return place * place;
    if (code > kLimit) code -= kLevels;
    if (kCoding == Coding::kLinear) return static_cast<float>(code);
    if (code < -kLimit) code = -kLimit;
    return static_cast<float>(code) / static_cast<float>(2 * kLimit - (code < 0 ? -code : code));
  }
};
template <Coding kCoding, int kBits>
inline constexpr Entries<kCoding, kBits> kEntries;

// The codes that a block's values are computed with. Tables of ranges lie close: there nothing may be above
// the codes.
template <Coding kCoding, int kBits>
using CodesOf = Codes<kBits, has_signed_codes(kCoding),
                      is_looked_up(kCoding, kBits) && !(has_range(kCoding) && 1 << kBits < kLanes)>;
template <Coding kCoding, int kBits>
struct Decoder {
  static constexpr bool kHasMapTable = kCoding == Coding::kDynamic || kCoding == Coding::kZones ||
                                       kCoding == Coding::kSquares || has_range(kCoding);
  static constexpr bool kIsLookedUp = is_looked_up(kCoding, kBits);
  static constexpr float kLevels = 1 << kBits;
  static constexpr float kStepFactor = kIsLookedUp                        ? 1.0F
                                       : kCoding == Coding::kLinearNoZero ? 1 / kLevels
                                       : kCoding == Coding::kSquareRoot   ? 1 / (kLevels * kLevels)
                                                                          : 1.0F;
  VF step;
  const float* values;

  HWY_INLINE Decoder(MapTable table, float block_step)
      : step(set(block_step * kStepFactor)), values(table.values) {}

  HWY_INLINE VF operator()(VI code) const {
    if constexpr (kIsLookedUp) {
      return hn::Mul(looked_up(code), step);
    } else if constexpr (kCoding == Coding::kLinear) {
      return hn::Mul(to_float(code), step);
    } else if constexpr (kCoding == Coding::kLinearNoZero) {
      return hn::Mul(to_float(hn::Add(code, set(1))), step);
    } else if constexpr (kCoding == Coding::kSquareRoot) {
      const VF k = to_float(hn::Add(code, set(1)));
      return hn::Mul(hn::Mul(k, k), step);
    } else if constexpr (kCoding == Coding::kSoftsign) {
      constexpr int kLimit = (1 << (kBits - 1)) - 1;
      const VI k = hn::Max(code, set(-kLimit));
      return hn::Mul(hn::Div(to_float(k), to_float(hn::Sub(set(2 * kLimit), hn::Abs(k)))), step);
    } else {
      static_assert(kHasMapTable);
      return hn::Mul(hn::GatherIndex(DF(), values, code), step);
    }
  }

 private:
  HWY_INLINE VF looked_up(VI code) const {
    const float* entries = values;
    if constexpr (!kHasMapTable) entries = kEntries<kCoding, kBits>.values;
    const VF low = Lookup8::of(entries, code);
    if constexpr (1 << kBits <= kLanes) {
      return low;
    } else {
      const VI top = hn::ShiftLeft<32 - kBits>(code);
      return hn::IfNegativeThenElse(hn::BitCast(DF(), top), Lookup8::of(entries + kLanes, code), low);
    }
  }
};

// A block whose step is 0 holds zeros, whatever its codes are: these are read in their place.
struct ZeroBlock {
  alignas(64) std::uint8_t codes[2 * kGroup] = {};
  alignas(64) float values[1 << 8] = {};
};
inline constexpr ZeroBlock kZeroBlock;

// Decodes the elements [first, first + count) of a group, which have one step.
template <Coding kCoding, int kBits>
class PartOfGroup {
 public:
  HWY_INLINE PartOfGroup(const std::uint8_t* group, int first, int count, const Scale& scale)
      : codes_(scale.step == 0.0F ? kZeroBlock.codes : group, first, count),
        decoder_(scale.step == 0.0F ? MapTable{kZeroBlock.values} : scale.table, scale.step) {}
  HWY_INLINE VF operator()(int e) const { return decoder_(codes_(e)); }
  // The same added to something. Where products are exact, fused or not, the bits are the same.
  HWY_INLINE VF add(int e, VF to) const {
    if constexpr (kCoding == Coding::kLinear && !is_looked_up(kCoding, kBits)) {
      return hn::MulAdd(to_float(codes_(e)), decoder_.step, to);
    } else {
      return hn::Add(to, (*this)(e));
    }
  }

 private:
  CodesOf<kCoding, kBits> codes_;
  Decoder<kCoding, kBits> decoder_;
};

// Two vectors of neighbouring values.
HWY_INLINE void store_pair(VF low, VF high, float* HWY_RESTRICT to) {
  hn::StoreU(low, DF(), to);
  hn::StoreU(high, DF(), to + kLanes);
}
// Stored values are never NaN, and never too large.
HWY_INLINE void store_pair(VF low, VF high, std::uint16_t* HWY_RESTRICT to) {
  const hn::Repartition<std::uint16_t, DU> d16;
  const auto halves =
      hn::ConcatOdd(d16, hn::BitCast(d16, rounded_to_bf16(high)), hn::BitCast(d16, rounded_to_bf16(low)));
  hn::StoreU(halves, d16, to);
}

// A sum that decoded values are added to.
struct Sum {
  float value;
};
HWY_INLINE void store_pair(VF low, VF high, Sum* HWY_RESTRICT to) {
  float* const sums = &to->value;
  store_pair(hn::Add(hn::LoadU(DF(), sums), low), hn::Add(hn::LoadU(DF(), sums + kLanes), high), sums);
}

// Writes the values of one version, or the sum of several.
template <class T, int kVersions, Coding kCoding, int kBits>
void decode_loop(const Codec& codec, MapTable table, const PackedVersion* of, std::int64_t count,
                 T* HWY_RESTRICT values) {
  constexpr int kHalf = kGroup / 2;
  PackedVersion versions[kVersions];
  std::copy_n(of, kVersions, versions);
  const int block_shift = std::countr_zero(static_cast<unsigned>(codec.block));
  // Tiles of many tensors may be read in turn, each too short for the processor to see that more follows.
  constexpr std::int64_t kAhead = kUnit / kGroup * (16 * kBits);  // bytes
  for (std::int64_t first = 0; first < count; first += kGroup) {
    for (const PackedVersion& version : versions) {
      for (int line = 0; line < 16 * kBits; line += 64) __builtin_prefetch(version.codes + kAhead + line);
    }
#pragma GCC unroll 2
    for (int half = 0; half < kGroup; half += kHalf) {
      const auto scale = [&](int k) __attribute__((always_inline)) {
        const std::uint16_t word = versions[k].steps[(first + half) >> block_shift];
        return scale_at<kCoding>({codec.format.map, kBits}, table, word);
      };
      const auto part = [&](int k, const Scale& its) __attribute__((always_inline)) {
        return PartOfGroup<kCoding, kBits>(versions[k].codes, half, kHalf, its);
      };
      const auto store = [&](const auto& value) __attribute__((always_inline)) {
#pragma GCC unroll 16
        for (int e = half; e < half + kHalf; e += static_cast<int>(2 * kLanes)) {
          const VF low = value(e), high = value(e + static_cast<int>(kLanes));
          store_pair(low, high, values + first + e);
        }
      };
      if constexpr (kVersions == 1) {
        const Scale only = scale(0);
        if (only.step == 0.0F) [[unlikely]] {
          store([](int) { return hn::Zero(DF()); });
        } else {
          store(part(0, only));
        }
      } else {
        static_assert(kVersions == 4);
        const auto a = part(0, scale(0)), b = part(1, scale(1)), c = part(2, scale(2)), d = part(3, scale(3));
        store([&](int e) __attribute__((always_inline)) { return hn::Add(b.add(e, a(e)), d.add(e, c(e))); });
      }
    }
    for (PackedVersion& version : versions) version.codes += 16 * kBits;
  }
}

template <class T>
using DecodeLoop = decltype(&decode_loop<T, 1, Coding::kLinear, 8>);

// The loop of a width, compiled where the table has a format of it.
template <class T, int kVersions, Coding kCoding, int kBits>
constexpr DecodeLoop<T> decode_loop_if() {
  if constexpr (has_width(kCoding, kBits)) return decode_loop<T, kVersions, kCoding, kBits>;
  return nullptr;
}
template <class T, int kVersions, Coding kCoding, int... kBits>
DecodeLoop<T> decode_loop_of(int bits, std::integer_sequence<int, kBits...>) {
  static constexpr DecodeLoop<T> kLoops[] = {decode_loop_if<T, kVersions, kCoding, kBits>()...};
  return kLoops[bits];
}

template <class T, int kVersions = 1>
DecodeLoop<T> decode_loop_of(Format f) {
  constexpr auto kWidths = std::make_integer_sequence<int, 17>();
  switch (coding_of(f.map)) {
    case Coding::kLinear:
      return decode_loop_of<T, kVersions, Coding::kLinear>(f.bits, kWidths);
    case Coding::kSoftsign:
      return decode_loop_of<T, kVersions, Coding::kSoftsign>(f.bits, kWidths);
    case Coding::kLinearNoZero:
      return decode_loop_of<T, kVersions, Coding::kLinearNoZero>(f.bits, kWidths);
    case Coding::kSquareRoot:
      return decode_loop_of<T, kVersions, Coding::kSquareRoot>(f.bits, kWidths);
    case Coding::kSquares:
      return decode_loop_of<T, kVersions, Coding::kSquares>(f.bits, kWidths);
    case Coding::kDynamic:
      return decode_loop_of<T, kVersions, Coding::kDynamic>(f.bits, kWidths);
    case Coding::kZones:
      return decode_loop_of<T, kVersions, Coding::kZones>(f.bits, kWidths);
    case Coding::kLog:
      return decode_loop_of<T, kVersions, Coding::kLog>(f.bits, kWidths);
    case Coding::kNumber:
      break;  // no codes
  }
  return nullptr;
}

inline void decode(const Codec& codec, MapTable table, const std::uint8_t* codes, const std::uint16_t* steps,
                   std::int64_t count, float* values) {
  const PackedVersion one = {codes, steps};
  decode_loop_of<float>(codec.format)(codec, table, &one, count, values);
}
inline void decode_bf16(const Codec& codec, MapTable table, const std::uint8_t* codes,
                        const std::uint16_t* steps, std::int64_t count, std::uint16_t* values) {
  const PackedVersion one = {codes, steps};
  decode_loop_of<std::uint16_t>(codec.format)(codec, table, &one, count, values);
}
inline void decode_versions(const Codec& codec, MapTable table, std::span<const PackedVersion> versions,
                            std::int64_t count, bool adds, float* sum) {
  const auto decode_to = [&]<class T>(T* to) {
    const DecodeLoop<T> loop = versions.size() == 1 ? decode_loop_of<T>(codec.format)
                                                    : decode_loop_of<T, kVersionsAtOnce>(codec.format);
    loop(codec, table, versions.data(), count, to);
  };
  if (adds) return decode_to(reinterpret_cast<Sum*>(sum));
  decode_to(sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
