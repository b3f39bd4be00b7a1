// One role in the part of a packing group that is one thread's: lanes 4c to 4c+3 of the group's 16, all 8
// rows. The thread then holds a word of every row of bytes, and all bits of its words are its own: element
// (j, i), which is number 16 j + 4 c + i of the group. Codes, steps and draws are those of
// kernels/formats/element.h.
#pragma once

#include <type_traits>

#include "kernels/cpu/packed/fused.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/packed/exact.h"
#include "kernels/formats/element.h"
#include "kernels/sums.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

inline constexpr int kRows = 8;     // of a thread
inline constexpr int kPairs = 4;    // of rows, 4 apart: they share words where codes are short
inline constexpr int kColumns = 4;  // threads of a group, elements of a row
inline constexpr std::uint32_t kEachByte = 0x01010101U;

static_assert(kUnitGroups * kColumns == kWarp);  // a warp takes a unit

inline constexpr int kFusedThreads = 128;

// Four neighbouring elements.
inline constexpr int kFour = 4;
struct alignas(16) FourFloats {
  float x[kFour];
};
struct alignas(8) FourHalves {  // bf16
  std::uint16_t x[kColumns];
};
// A gradient's values, aligned for it where four are read.
LPMM_DEVICE float widened(float x) {
  return x;
}
LPMM_DEVICE float widened(std::uint16_t x) {
  return bf16_to_float(x);
}
LPMM_DEVICE FourFloats four_of(const float* from) {
  return *reinterpret_cast<const FourFloats*>(from);
}
LPMM_DEVICE FourFloats four_of(const std::uint16_t* from) {
  const FourHalves halves = *reinterpret_cast<const FourHalves*>(from);
  FourFloats floats;
  LPMM_UNROLL for (int i = 0; i < kColumns; ++i) floats.x[i] = bf16_to_float(halves.x[i]);
  return floats;
}

// ---- codes -----------------------------------------------------------------------------------------------
// The codes of a thread as they lie in memory.
template <int kBits>
struct Words {
  std::uint32_t word[kBits] = {};

  // Loads the words that rows `pair` and pair + 4 take, where earlier pairs have not.
  LPMM_DEVICE void load(const std::uint8_t* codes, std::uint32_t group, int column, int pair) {
    const auto* from =
        global(reinterpret_cast<const std::uint32_t*>(codes + std::int64_t{group} * (16 * kBits)) + column);
    LPMM_UNROLL for (int plane = 0; plane < kBits; plane += plane_width(kBits - plane)) {
      const int width = plane_width(kBits - plane);
      LPMM_UNROLL for (int r = pair; r < width; r += kPairs) {
        word[plane + r] = from[kColumns * (plane + r)];
      }
    }
  }
  LPMM_DEVICE void store(std::uint8_t* codes, std::uint32_t group, int column) const {
    auto* to = global(reinterpret_cast<std::uint32_t*>(codes + std::int64_t{group} * (16 * kBits)) + column);
    LPMM_UNROLL for (int r = 0; r < kBits; ++r) to[kColumns * r] = word[r];
  }
  // The four codes of row j, their bits from kFrom on, at most 8 of them, as bytes.
  template <int kFrom = 0>
  LPMM_DEVICE std::uint32_t row(int j) const {
    std::uint32_t bytes = 0;
    LPMM_UNROLL for (int from = kFrom; from < kBits && from < kFrom + 8; from += plane_width(kBits - from)) {
      const int width = plane_width(kBits - from);
      const std::uint32_t mask = ((1U << width) - 1U) * kEachByte;
      bytes |= (word[from + j % width] >> (width * (j / width)) & mask) << (from - kFrom);
    }
    return bytes;
  }
  // The thread's codes must all be 0 in this row. Bits above a code in its byte are dropped.
  template <int kFrom = 0>
  LPMM_DEVICE void set_row(int j, std::uint32_t bytes) {
    LPMM_UNROLL for (int from = kFrom; from < kBits && from < kFrom + 8; from += plane_width(kBits - from)) {
      const int width = plane_width(kBits - from);
      const std::uint32_t mask = ((1U << width) - 1U) * kEachByte;
      word[from + j % width] |= (bytes >> (from - kFrom) & mask) << (width * (j / width));
      forget(word[from + j % width]);  // a row is finished before others are begun: registers are few
    }
  }
};

// Byte kAt of each of four words.
template <int kAt>
LPMM_DEVICE std::uint32_t bytes_of(const std::uint32_t (&words)[kColumns]) {
  constexpr std::uint32_t kPair = kAt | (kAt + 4) << 4;
  return cuda::permute_bytes(cuda::permute_bytes(words[0], words[1], kPair),
                             cuda::permute_bytes(words[2], words[3], kPair), 0x5410);
}

// The draws of a thread, in the upper half of words.
struct ThreadLine {
  std::uint32_t slope, start;
  LPMM_DEVICE std::uint32_t operator()(int j, int i) const {
    return slope * static_cast<std::uint32_t>(16 * j + i) + start;
  }
};

// Steps above this one are left: what is added to codes below would not be finite.
inline constexpr float kMostStep = 0x1p96F;

// ---- values of codes -------------------------------------------------------------------------------------
// Constants in bytes, and a table where a format has one. They come as a kernel's parameters: registers hold
// what the compiler does not know, and instructions would load what it knows, each time.
struct Given {
  std::uint32_t at_2_15 = 0x47000000U, at_2_23 = 0x4B000000U;  // the bits of 2^15 and 2^23
  const void* tables = nullptr;                                // where shared memory begins
  std::uint32_t table = 0;                                     // bytes before the format's own
};

// read(words, j) makes a row, value(row, i) the value of its element i, given the step of the block. A code
// is put under the exponent of a power of two that is taken off again, exactly, in the product with the step.
template <Coding kCoding, int kBits>
struct Decoder {  // of a role that is not there
  using Row = std::uint32_t;
};

template <int kBits>
struct Decoder<Coding::kLinear, kBits> {
  static constexpr bool kIsWide = kBits > 8;
  static constexpr std::uint32_t kSign = (1U << ((kBits - 1) % 8)) * kEachByte;
  static constexpr float kAbove = kIsWide ? 0x1p23F : 0x1p15F;
  float step, above;
  std::uint32_t exponent;
  struct Row {
    std::uint32_t low, high;
  };

  LPMM_DEVICE Decoder(float s, const Given& given)
      : step(s),
        above(-(kAbove + (1 << (kBits - 1))) * s),
        exponent(kIsWide ? given.at_2_23 : given.at_2_15) {}
  LPMM_DEVICE static Row row_of(std::uint32_t low, std::uint32_t high) {
    if constexpr (!kIsWide) return {low ^ kSign, 0};
    high ^= kSign;
    return {cuda::permute_bytes(low, high, 0x5140),
            cuda::permute_bytes(low, high, 0x7362)};  // pairs of 16 bits
  }
  LPMM_DEVICE static Row read(const Words<kBits>& words, int j) {
    if constexpr (kIsWide) return row_of(words.row(j), words.template row<8>(j));
    return row_of(words.row(j), 0);
  }
  LPMM_DEVICE float value(const Row& row, int i) const {
    std::uint32_t bits = 0;
    if constexpr (kIsWide) {
      bits = cuda::permute_bytes(i < 2 ? row.low : row.high, exponent, i % 2 == 0 ? 0x7410 : 0x7432);
    } else {
      bits = cuda::permute_bytes(row.low, exponent, 0x7604U | static_cast<std::uint32_t>(i) << 4);
    }
    return cuda::multiply_add(bits_float(bits), step, above);
  }
};

template <int kBits>
struct Decoder<Coding::kSquareRoot, kBits> {
  float unit;
  std::uint32_t exponent;
  using Row = std::uint32_t;
  LPMM_DEVICE Decoder(float s, const Given& given)
      : unit(s * (1.0F / (1 << (2 * kBits)))), exponent(given.at_2_23) {}
  LPMM_DEVICE static Row read(const Words<kBits>& words, int j) { return words.row(j); }
  LPMM_DEVICE float value(Row row, int i) const {
    const std::uint32_t bits = cuda::permute_bytes(row, exponent, 0x7650U | static_cast<std::uint32_t>(i));
    const float k = bits_float(bits) - (0x1p23F - 1.0F);
    return k * k * unit;
  }
};

// The tables of a softsign format, in shared memory: values by the patterns of codes, and the lines between
// them.
inline constexpr int kSoftEntries = 16, kSoftLines = 8;
struct SoftTable {
  float values[kSoftEntries];
  SoftsignLine lines[kSoftLines];
};
inline constexpr int kSoftTables = 2;  // of accumulator and momentum
LPMM_DEVICE float softsign_value(int pattern, int bits) {
  const int limit = code_limit(bits), code = sign_extend(static_cast<std::uint32_t>(pattern), bits);
  const int held = code < -limit ? -limit : code;
  return static_cast<float>(held) / static_cast<float>(2 * limit - (held < 0 ? -held : held));
}
// The threads that make the tables, an entry each.
inline constexpr int kTableThreads = kSoftEntries + kSoftLines;
LPMM_DEVICE void make_soft_table(SoftTable& table, int thread, int bits) {
  if (thread < kSoftEntries) {
    table.values[thread] = softsign_value(thread, bits);
  } else {
    table.lines[thread - kSoftEntries] = softsign_line(thread - kSoftEntries, code_limit(bits));
  }
}
// The address where shared memory begins, whose lowest byte is 0. The host counts from there.
LPMM_DEVICE std::uint32_t shared_address([[maybe_unused]] const void* shared) {
#if defined(__CUDACC__)
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
#else
  return 0;
#endif
}
template <class Entry>
LPMM_DEVICE const Entry& shared_at([[maybe_unused]] const void* shared, std::uint32_t address) {
#if defined(__CUDACC__)
  return *static_cast<const Entry*>(__cvta_shared_to_generic(address));
#else
  return *reinterpret_cast<const Entry*>(static_cast<const std::byte*>(shared) + address);
#endif
}
// Decodes by a SoftTable.
template <int kBits>
struct Decoder<Coding::kSoftsign, kBits> {
  static_assert(kBits <= 4);
  float step;
  const void* tables;
  std::uint32_t table;
  using Row = std::uint32_t;
  LPMM_DEVICE Decoder(float s, const Given& given) : step(s), tables(given.tables), table(given.table) {}
  LPMM_DEVICE static Row read(const Words<kBits>& words, int j) { return words.row(j) << 2; }
  LPMM_DEVICE float value(Row places, int i) const {
    const std::uint32_t digits = 0x7650U | static_cast<std::uint32_t>(i);
    const std::uint32_t at = cuda::permute_bytes(places, shared_address(tables), digits);
    // A step of 0 makes -0 of negative codes: adding 0 turns it into 0.
    return cuda::multiply_add(shared_at<float>(tables, at + table), step, 0.0F);
  }
};

// ---- codes of values -------------------------------------------------------------------------------------
// A step that may be divided by: where it is 0, so are all values.
LPMM_DEVICE float divisor(float step) {
  return fmaxf(step, kMinStep);
}

// place(x, draw) makes a word whose byte kAt (and, of wide codes, the next) is the code, given the step of
// the block, 0 included: of zeros that makes codes of 0. The bits above a code in the byte are not defined.
template <Coding kCoding, int kBits, Rounding kLaw = Rounding::kStochastic>
struct Encoder {
  LPMM_DEVICE Encoder(float, const Given&) {}
};

template <int kBits>
struct Encoder<Coding::kLinear, kBits> {
  static constexpr int kAt = 2;
  float part, inverse;  // 2^-16 of a step
  LPMM_DEVICE Encoder(float step, const Given&)
      : part(step * 0x1p-16F), inverse(cuda::exact_reciprocal(divisor(step) * 0x1p-16F)) {}
  LPMM_DEVICE std::uint32_t place(float x, std::uint32_t draw) const {
    const float q = x * inverse;
    const float parts = cuda::multiply_add(cuda::multiply_add(-q, part, x), inverse, q);
    return static_cast<std::uint32_t>(cuda::round_to_int(parts)) + (draw >> 16);
  }
};

// The draw's share of a gap is compared in units, times 2^16: no step changes a bit by that.
template <int kBits>
struct Encoder<Coding::kSquareRoot, kBits> {
  static constexpr int kAt = 0;
  static constexpr float kStepFactor = 1.0F / (1 << (2 * kBits));
  float unit, inverse_root;
  std::uint32_t exponent;
  LPMM_DEVICE Encoder(float step, const Given& given)
      : unit(step * kStepFactor),
        inverse_root(cuda::exact_quotient(1.0F, cuda::exact_root(divisor(step) * kStepFactor))),
        exponent(given.at_2_23) {}
  LPMM_DEVICE std::uint32_t place(float x, std::uint32_t draw) const {
    const float above = cuda::floor_above_2_23(cuda::exact_root(x) * inverse_root);
    const float upper = above - (0x1p23F - 1.0F);
    const float rest = cuda::multiply_add(upper * upper, unit, -x);
    // draw + 1/2
    const float drawn = bits_float(cuda::permute_bytes(draw, exponent, 0x7432)) - (0x1p23F - 0.5F);
    const float u = drawn * unit;
    const float gap = cuda::multiply_add(above, 0x1p-15F, 0x1p-16F - 0x1p8F);  // (2k + 1) 2^-16
    std::uint32_t code = float_bits(above);
    if (u * gap < rest) code = cuda::add_then_max(code, ~0U, exponent);
    return code;
  }
};

template <int kBits>
struct Encoder<Coding::kSquareRoot, kBits, Rounding::kAverage> {
  static constexpr int kAt = 0;
  static constexpr float kStepFactor = 1.0F / (1 << (2 * kBits));
  // A draw comes under the exponent of 2^23.
  static constexpr AverageDraw kDraw = average_draw(kBits);
  static constexpr double kLeast = kDraw.least - 0x1p23 * double{kDraw.scale};
  static constexpr float kLeastDraw = static_cast<float>(kLeast);
  static_assert(double{kLeastDraw} == kLeast);
  float inverse_root;
  std::uint32_t exponent;
  LPMM_DEVICE Encoder(float step, const Given& given)
      : inverse_root(cuda::exact_quotient(1.0F, cuda::exact_root(divisor(step) * kStepFactor))),
        exponent(given.at_2_23) {}
  LPMM_DEVICE std::uint32_t place(float x, std::uint32_t draw) const {
    const float y = cuda::exact_root(x) * inverse_root;
    const float above = cuda::floor_above_2_23(y);
    const float middle = above - (0x1p23F - 0.5F);
    const float bend = bits_float(kBendBits - float_bits(middle));
    const float drawn = bits_float(cuda::permute_bytes(draw, exponent, 0x7432));
    const float w = cuda::multiply_add(drawn, kDraw.scale, kLeastDraw);
    const float least = cuda::multiply_add(bend, cuda::multiply_add(w, w, -0.25F), w);
    std::uint32_t code = float_bits(above);
    if (y - middle < least) code = cuda::add_then_max(code, ~0U, exponent);
    return code;
  }
};

// Code k begins at y = k / (2L - k), so 2L - 2L / (1 + y) tells which it is; beside an entry either line
// leads to its code. place() is of the magnitude, with the code from bit kCurvedBits on: a negative value is
// rounded down by what a positive one is rounded up by.
template <int kBits>
struct Encoder<Coding::kSoftsign, kBits> {
  static constexpr int kLimit = (1 << (kBits - 1)) - 1;
  static constexpr float kToInt = 0x1.8p23F;  // a sum with it is an integer in the low bits
  static constexpr float kCodes = 2.0F * kLimit * sizeof(SoftsignLine);  // so that a code is its line's place
  static_assert(kLimit < kSoftLines && kCurvedBits >= 8 && kCurvedBits + kBits - 1 <= 16);
  float inverse;
  const void* tables;
  std::uint32_t table;
  LPMM_DEVICE Encoder(float step, const Given& given)
      : inverse(cuda::exact_reciprocal(divisor(step))),
        tables(given.tables),
        table(given.table + static_cast<std::uint32_t>(offsetof(SoftTable, lines))) {}
  LPMM_DEVICE std::uint32_t place(float x, std::uint32_t draw) const {
    constexpr std::uint32_t kPlaces = (kSoftLines - 1) * sizeof(SoftsignLine);
    const float y = fabsf(x) * inverse;
    const float code =
        cuda::multiply_add_truncated(cuda::approximate_reciprocal(1.0F + y), -kCodes, kCodes + 0x1p23F);
    const std::uint32_t at = (float_bits(code) & kPlaces) | shared_address(tables);
    const SoftsignLine line = shared_at<SoftsignLine>(tables, at + table);
    const float position = cuda::multiply_add(line.slope, y, line.start) + kToInt;
    return float_bits(position) + (draw >> (32 - kCurvedBits));
  }
  LPMM_DEVICE static std::uint32_t row(const std::uint32_t (&places)[kColumns], const float (&x)[kColumns]) {
    const std::uint32_t codes = bytes_of<1>(places) >> (kCurvedBits - 8) & (kLimit * kEachByte);
    const std::uint32_t signs =
        cuda::permute_bytes(cuda::sign_bytes(x[0], x[1]), cuda::sign_bytes(x[2], x[3]), 0x5410) &
        (0xFU * kEachByte);
    return (codes + signs) ^ signs;  // of a negative value 16 less the code
  }
};

// Four values with their places as a row, into the words; what it will be read as.
template <Coding kCoding, int kBits>
LPMM_DEVICE typename Decoder<kCoding, kBits>::Row set_row(Words<kBits>& words, int j,
                                                          const std::uint32_t (&places)[kColumns],
                                                          const float (&x)[kColumns]) {
  using To = Encoder<kCoding, kBits>;
  if constexpr (kBits > 8) {
    const std::uint32_t low = cuda::permute_bytes(places[0], places[1], 0x7632);
    const std::uint32_t high = cuda::permute_bytes(places[2], places[3], 0x7632);
    words.set_row(j, cuda::permute_bytes(low, high, 0x6420));
    words.template set_row<8>(j, cuda::permute_bytes(low, high, 0x7531));
  } else if constexpr (kCoding == Coding::kSoftsign) {
    words.set_row(j, To::row(places, x));
  } else {
    words.set_row(j, bytes_of<To::kAt>(places));
  }
  return Decoder<kCoding, kBits>::read(words, j);
}

// ---- a role ----------------------------------------------------------------------------------------------
template <Codec kOf>
struct Stored {
  static constexpr Codec kCodec = kOf;
  static constexpr int kBits = kCodec.format.bits;
  static constexpr Coding kCoding = coding_of(kCodec.format.map);
  static constexpr bool kIsPlain =
      kCodec.format.map == Map::kFp32 && !fused::is_none(kCodec);         // fp32, or bf16
  static constexpr bool kIsThere = !kIsPlain && !fused::is_none(kCodec);  // packed
  static constexpr int kBlock = kCodec.block;
  // Blocks smaller than a group share it.
  static constexpr int kParts = kBlock != 0 && kBlock < kGroup ? kGroup / kBlock : 1;
  static constexpr std::uint32_t kGroups = kBlock > kGroup ? kBlock / kGroup : 1;  // of a block
  // A sticky step is known before the largest value is: its codes are made at once, and once more where it
  // turns out that the step moves.
  static constexpr bool kIsAtOnce = kCodec.step_mode == StepMode::kSticky;
  using Reader = Decoder<kCoding, kBits>;
  using Writer = Encoder<kCoding, kBits, law_of(kCodec.rounding)>;
  LPMM_DEVICE static constexpr int part_of(int j) { return j / (kRows / kParts); }
};

// The largest magnitude of a block, whose groups are neighbours in the warp.
template <std::uint32_t kGroups>
LPMM_DEVICE float largest_of_block(float most) {
  std::uint32_t bits = float_bits(most);
  LPMM_UNROLL for (int distance = 1; distance < kColumns * static_cast<int>(kGroups); distance *= 2) {
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, bits, distance);
    bits = other > bits ? other : bits;
  }
  return bits_float(bits);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
