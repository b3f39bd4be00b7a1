#include "models/gguf/types.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/formats/codec.h"
#include "lpmm/files/half.h"

namespace lpmm {
namespace {

constexpr int kShort = 32, kLong = 256;  // elements of a block of old types, and of the K types

unsigned byte_at(const std::byte* block, std::ptrdiff_t at) {
  return std::to_integer<unsigned>(block[at]);
}
unsigned low(const std::byte* block, std::ptrdiff_t at) {
  return byte_at(block, at) & 0xFU;
}
unsigned high(const std::byte* block, std::ptrdiff_t at) {
  return byte_at(block, at) >> 4;
}
float half_at(const std::byte* block, std::ptrdiff_t at) {
  return half_to_float(static_cast<std::uint16_t>(byte_at(block, at) | byte_at(block, at + 1) << 8));
}
void put16(std::byte* block, std::uint16_t value) {
  block[0] = static_cast<std::byte>(value & 0xFFU);
  block[1] = static_cast<std::byte>(value >> 8);
}

// ---- plain ---------------------------------------------------------------------------------------------------
void decode_f32(const std::byte* block, float* out) {
  std::memcpy(out, block, sizeof *out);
}
void encode_f32(const float* values, std::byte* block) {
  std::memcpy(block, values, sizeof *values);
}
void decode_f16(const std::byte* block, float* out) {
  *out = half_at(block, 0);
}
void encode_f16(const float* values, std::byte* block) {
  put16(block, float_to_half(*values));
}
void decode_bf16(const std::byte* block, float* out) {
  *out = bf16_to_float(static_cast<std::uint16_t>(byte_at(block, 0) | byte_at(block, 1) << 8));
}
void encode_bf16(const float* values, std::byte* block) {
  put16(block, float_to_bf16(*values));
}

// ---- blocks of 32 ----------------------------------------------------------------------------------------------
// Element j is in the low half of byte j, element j + 16 in the high half. A fifth bit of each lies in the
// four bytes before, where there is one. `offset` is taken from the code, `least` is added to the value.
void decode_short(const std::byte* codes, const std::byte* fifth, float scale, int offset, float least,
                  float* out) {
  for (int j = 0; j < kShort; ++j) {
    unsigned code = j < kShort / 2 ? low(codes, j) : high(codes, j - kShort / 2);
    if (fifth != nullptr) code |= (byte_at(fifth, j / 8) >> j % 8 & 1U) << 4;
    out[j] = scale * static_cast<float>(static_cast<int>(code) - offset) + least;
  }
}
void decode_q4_0(const std::byte* block, float* out) {
  decode_short(block + 2, nullptr, half_at(block, 0), 8, 0, out);
}
void decode_q4_1(const std::byte* block, float* out) {
  decode_short(block + 4, nullptr, half_at(block, 0), 0, half_at(block, 2), out);
}
void decode_q5_0(const std::byte* block, float* out) {
  decode_short(block + 6, block + 2, half_at(block, 0), 16, 0, out);
}
void decode_q5_1(const std::byte* block, float* out) {
  decode_short(block + 8, block + 4, half_at(block, 0), 0, half_at(block, 2), out);
}
void decode_q8_0(const std::byte* block, float* out) {
  const float scale = half_at(block, 0);
  for (int j = 0; j < kShort; ++j) {
    out[j] = scale * static_cast<float>(static_cast<std::int8_t>(byte_at(block, 2 + j)));
  }
}
// Rounds as ggml's reference does: codes use the scale before that is rounded to fp16.
void encode_q8_0(const float* values, std::byte* block) {
  float largest = 0;
  for (int j = 0; j < kShort; ++j) largest = std::max(largest, std::abs(values[j]));
  const float scale = largest / 127, inverse = scale == 0 ? 0 : 1 / scale;
  put16(block, float_to_half(scale));
  for (int j = 0; j < kShort; ++j) {
    block[2 + j] = static_cast<std::byte>(static_cast<std::int8_t>(std::round(values[j] * inverse)));
  }
}
// The value that is farthest from 0 becomes code 0, which stands for -8.
void encode_q4_0(const float* values, std::byte* block) {
  float farthest = 0;
  for (int j = 0; j < kShort; ++j) {
    if (std::abs(values[j]) > std::abs(farthest)) farthest = values[j];
  }
  const float scale = farthest / -8, inverse = scale == 0 ? 0 : 1 / scale;
  put16(block, float_to_half(scale));
  const auto code = [&](int j) {
    return static_cast<unsigned>(std::min(15, static_cast<int>(values[j] * inverse + 8.5F)));
  };
  for (int j = 0; j < kShort / 2; ++j) {
    block[2 + j] = static_cast<std::byte>(code(j) | code(j + kShort / 2) << 4);
  }
}

// ---- blocks of 256 ---------------------------------------------------------------------------------------------
// Scale and least value of one of eight parts of 32, 6 bits each in 12 bytes.
struct PartScale {
  float scale, least;
};
PartScale part_scale(const std::byte* packed, int part, float scale, float least) {
  unsigned s = 0, m = 0;
  if (part < 4) {
    s = byte_at(packed, part) & 63U;
    m = byte_at(packed, part + 4) & 63U;
  } else {
    s = low(packed, part + 4) | (byte_at(packed, part - 4) >> 6) << 4;
    m = high(packed, part + 4) | (byte_at(packed, part) >> 6) << 4;
  }
  return {scale * static_cast<float>(s), least * static_cast<float>(m)};
}
// 64 elements take the low and then the high halves of 32 bytes. `fifth`: bit i of byte j is that of element
// 32 i + j; null: codes have four bits.
void decode_long(const std::byte* block, const std::byte* fifth, const std::byte* codes, float* out) {
  for (int part = 0; part < kLong / kShort; ++part) {
    const PartScale of = part_scale(block + 4, part, half_at(block, 0), half_at(block, 2));
    const std::byte* from = codes + kShort * (part / 2);
    for (int j = 0; j < kShort; ++j) {
      unsigned code = part % 2 == 0 ? low(from, j) : high(from, j);
      if (fifth != nullptr) code += (byte_at(fifth, j) >> part & 1U) << 4;
      out[kShort * part + j] = of.scale * static_cast<float>(code) - of.least;
    }
  }
}
void decode_q4_k(const std::byte* block, float* out) {
  decode_long(block, nullptr, block + 16, out);
}
void decode_q5_k(const std::byte* block, float* out) {
  decode_long(block, block + 16, block + 48, out);
}
// 128 elements: four bits of each in 64 bytes, two more in 32 bytes; 16 share a scale of 8 bits.
void decode_q6_k(const std::byte* block, float* out) {
  constexpr int kHalf = kLong / 2;
  const std::byte *fours = block, *twos = block + kHalf, *scales = twos + kHalf / 2;
  const float scale = half_at(scales, 16);
  for (int i = 0; i < kLong; ++i) {
    const int part = i / kHalf, in = i % kHalf, quarter = in / kShort, j = in % kShort;
    const std::ptrdiff_t at = 64 * part + in % 64;
    const unsigned four = quarter < 2 ? low(fours, at) : high(fours, at);
    const unsigned two = byte_at(twos, kShort * part + j) >> 2 * quarter & 3U;
    const auto own = static_cast<std::int8_t>(byte_at(scales, i / 16));
    out[i] = scale * static_cast<float>(own) * static_cast<float>(static_cast<int>(four | two << 4) - 32);
  }
}

constexpr GgufType kGgufTypes[] = {
    {0, "f32", 1, 4, decode_f32, encode_f32, "F32", 0},
    {1, "f16", 1, 2, decode_f16, encode_f16, "F16", 1},
    {30, "bf16", 1, 2, decode_bf16, encode_bf16, "BF16", 32},
    {8, "q8_0", kShort, 34, decode_q8_0, encode_q8_0, {}, 7},
    {2, "q4_0", kShort, 18, decode_q4_0, encode_q4_0, {}, 2},
    {3, "q4_1", kShort, 20, decode_q4_1, nullptr},
    {6, "q5_0", kShort, 22, decode_q5_0, nullptr},
    {7, "q5_1", kShort, 24, decode_q5_1, nullptr},
    {12, "q4_k", kLong, 144, decode_q4_k, nullptr},
    {13, "q5_k", kLong, 176, decode_q5_k, nullptr},
    {14, "q6_k", kLong, 210, decode_q6_k, nullptr},
};

}  // namespace

const GgufType* find_gguf_type(std::uint32_t id) {
  const auto* at = std::ranges::find(kGgufTypes, id, &GgufType::id);
  return at == std::end(kGgufTypes) ? nullptr : at;
}

const GgufType* find_gguf_type(std::string_view name) {
  const auto* at = std::ranges::find(kGgufTypes, name, &GgufType::name);
  return at == std::end(kGgufTypes) ? nullptr : at;
}

std::string gguf_type_names() {
  std::vector<std::string_view> names;
  for (const GgufType& type : kGgufTypes) names.push_back(type.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace lpmm
