// What one thread knows of a role while it updates a unit: values that come, and values that wait.
#pragma once

#include <type_traits>

#include "kernels/cuda/packed/fused_roles.h"
#include "kernels/cuda/packed/fused_stage.h"
#include "kernels/cuda/packed/update_body.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// A role in one thread. Its values wait until their step is known, or are encoded at once.
template <class Of, bool kWaits>
struct RoleState {
  static constexpr int kWaiting = kWaits ? kRows * kColumns : 1;
  float step[Of::kParts] = {}, next[Of::kParts] = {};  // of what is there, and of what will be
  ThreadLine line = {};
  float most[Of::kParts] = {};  // magnitude
  float values[kWaiting];       // until their step is known
  Words<Of::kIsThere ? Of::kBits : 1> words;

  LPMM_DEVICE void begin(float first, float last) {
    step[0] = next[0] = first;
    if constexpr (Of::kParts == 2) step[1] = next[1] = last;
  }
  LPMM_DEVICE void restart() {
    words = {};
    LPMM_UNROLL for (float& part : most) part = 0.0F;
  }
  // Takes the new values of row j.
  LPMM_DEVICE void finish(const float (&x)[kColumns], int j) {
    float& largest = most[Of::part_of(j)];
    LPMM_UNROLL for (int i = 0; i < kColumns; ++i) {
      if constexpr (is_signed(Of::kCodec.format.map)) {
        largest = cuda::larger_magnitude(largest, x[i]);
      } else {  // of a negative value the bits are larger than any that is storable
        const std::uint32_t bits = float_bits(x[i]), before = float_bits(largest);
        largest = bits_float(bits > before ? bits : before);
      }
      if constexpr (kWaits) values[kColumns * j + i] = x[i];
    }
  }
  LPMM_DEVICE typename Of::Reader::Row encode(const typename Of::Writer& writer, const float (&x)[kColumns],
                                              int j) {
    std::uint32_t places[kColumns];
    LPMM_UNROLL for (int i = 0; i < kColumns; ++i) places[i] = writer.place(x[i], line(j, i));
    return set_row<Of::kCoding>(words, j, places, x);
  }
  LPMM_DEVICE void store(std::uint8_t* to, std::uint32_t group, int column, const Given& given) {
    if constexpr (kWaits) {
      const typename Of::Writer first(next[0], given), last(next[Of::kParts - 1], given);
      LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
        float x[kColumns];
        LPMM_UNROLL for (int i = 0; i < kColumns; ++i) x[i] = values[kColumns * j + i];
        encode(Of::part_of(j) == 0 ? first : last, x, j);
      }
    }
    words.store(to, group, column);
  }
};

// Row j of a thread in a plain role, fp32 or bf16: which of its fours it is.
LPMM_DEVICE std::int64_t plain_four(std::uint32_t group, int column, int j) {
  constexpr std::int64_t kFours = kGroup / kFour;
  return kFours * group + kColumns * j + column;
}
LPMM_DEVICE FourFloats read_plain(const cuda::Slot& slot, std::int64_t four) {
  if (slot.codec.format.map == Map::kBf16) {
    return four_of(global(reinterpret_cast<const std::uint16_t*>(slot.codes)) + kFour * four);
  }
  return four_of(global(reinterpret_cast<const float*>(slot.codes)) + kFour * four);
}
LPMM_DEVICE void write_plain(const cuda::Slot& slot, std::int64_t four, const FourFloats& row,
                             const ThreadLine& line, int j) {
  if (slot.codec.format.map != Map::kBf16) {
    global(reinterpret_cast<FourFloats*>(slot.codes))[four] = row;
    return;
  }
  FourHalves halves;
  LPMM_UNROLL for (int i = 0; i < kColumns; ++i) {
    halves.x[i] = takes_draws(slot.codec.rounding) ? float_to_bf16_stochastic(row.x[i], line(j, i) >> 16)
                                                   : cuda::nearest_bf16(row.x[i]);
  }
  global(reinterpret_cast<FourHalves*>(slot.codes))[four] = halves;
}

// Values of packed codes, which were staged.
template <class Of>
struct Input {
  Words<Of::kBits> words;
  LPMM_DEVICE void load(const cuda::Slot&, std::uint32_t, const std::byte* shared, std::uint32_t unit,
                        std::uint32_t at, int lane, int pair) {
    Staged<Of::kBits>::load(words, shared, unit, at, lane, pair);
  }
  template <class State>
  LPMM_DEVICE void read(const State& role, const Given& given, int j, float (&x)[kColumns]) const {
    const typename Of::Reader reader(role.step[Of::part_of(j)], given);
    const auto row = reader.read(words, j);
    LPMM_UNROLL for (int i = 0; i < kColumns; ++i) x[i] = reader.value(row, i);
  }
};
// Plain values, read where they lie.
struct PlainInput {
  FourFloats rows[2];
  LPMM_DEVICE void load(const cuda::Slot& slot, std::uint32_t group, const std::byte*, std::uint32_t,
                        std::uint32_t, int lane, int pair) {
    const int column = lane % kColumns;
    rows[0] = read_plain(slot, plain_four(group, column, pair));
    rows[1] = read_plain(slot, plain_four(group, column, pair + kPairs));
  }
  template <class State>
  LPMM_DEVICE void read(const State&, const Given&, int j, float (&x)[kColumns]) const {
    LPMM_UNROLL for (int i = 0; i < kColumns; ++i) x[i] = rows[j / kPairs].x[i];
  }
};
struct NoInput {
  LPMM_DEVICE void load(const cuda::Slot&, std::uint32_t, const std::byte*, std::uint32_t, std::uint32_t, int,
                        int) {}
  template <class State>
  LPMM_DEVICE void read(const State&, const Given&, int, float (&x)[kColumns]) const {
    LPMM_UNROLL for (int i = 0; i < kColumns; ++i) x[i] = 0.0F;
  }
};
template <class Of>
using InputOf =
    std::conditional_t<Of::kIsThere, Input<Of>, std::conditional_t<Of::kIsPlain, PlainInput, NoInput>>;

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
