// The noise generator, 16 calls side by side (kernels/noise.h).
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include "kernels/cpu/tile_vectors-inl.h"
#include "kernels/noise.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

// One round of Philox on N/2 counters, each in the low half of a 64-bit lane. High halves hold leftovers that
// no multiplication reads.
HWY_INLINE void philox_round(VU (&x)[4], VU m0, VU m1, VU k0, VU k1) {
  const DU du;
  const VU64 a = hn::MulEven(m0, x[0]);
  const VU64 b = hn::MulEven(m1, x[2]);
  x[0] = hn::Xor(hn::Xor(x[1], k0), hn::BitCast(du, hn::ShiftRight<32>(b)));
  x[1] = hn::BitCast(du, b);
  x[2] = hn::Xor(hn::Xor(x[3], k1), hn::BitCast(du, hn::ShiftRight<32>(a)));
  x[3] = hn::BitCast(du, a);
  // Four states fill all registers. This word is wanted last, so it is the one that waits in memory.
  asm("" : "+m"(x[3]));
}

// Calls side by side: the multiplications' latency of one hides behind the others.
constexpr int kCalls = 16;
using CallWords = VU[kCalls / kLanes];

// Philox of neighbouring counters, their key and constant words spread over vectors. The counters of even
// lanes lie in one vector, those of odd lanes, shifted down, in the next.
class Philox {
 public:
  HWY_INLINE explicit Philox(const Noise& noise)
      : tensor_(hn::Set(DU(), noise.tensor)),
        step_(hn::Set(DU(), noise.step)),
        stream_(hn::Set(DU(), noise.stream)) {
    auto key0 = static_cast<std::uint32_t>(noise.seed);
    auto key1 = static_cast<std::uint32_t>(noise.seed >> 32);
    for (int r = 0; r < 10; ++r) {
      k0_[r] = hn::Set(DU(), key0);
      k1_[r] = hn::Set(DU(), key1);
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
  }

  // Words 0 to kWords - 1 of the calls `call` to call + kCalls - 1: words[w][i] of call + i * kLanes on.
  template <int kWords>
  HWY_INLINE void words(std::uint32_t call, CallWords (&words)[kWords]) const {
    const VU m0 = hn::Set(DU(), 0xD2511F53U), m1 = hn::Set(DU(), 0xCD9E8D57U);
    constexpr int kVectors = static_cast<int>(2 * kCalls / kLanes);
    VU x[kVectors][4];
    for (int i = 0; i < kVectors; i += 2) {
      const VU calls = hn::Iota(DU(), call + static_cast<std::uint32_t>(i / 2 * kLanes));
      x[i][0] = calls;
      x[i + 1][0] = hn::BitCast(DU(), hn::ShiftRight<32>(hn::BitCast(DU64(), calls)));
      for (int k = i; k < i + 2; ++k) {
        x[k][1] = tensor_;
        x[k][2] = step_;
        x[k][3] = stream_;
      }
    }
#pragma GCC unroll 10
    for (int r = 0; r < 10; ++r) {
      for (auto& state : x) philox_round(state, m0, m1, k0_[r], k1_[r]);
    }
    for (int i = 0; i < kVectors; i += 2) {
      for (int w = 0; w < kWords; ++w) {
        const VU odd = hn::BitCast(DU(), hn::ShiftLeft<32>(hn::BitCast(DU64(), x[i + 1][w])));
        words[w][i / 2] = hn::OddEven(odd, x[i][w]);
      }
    }
  }

 private:
  VU tensor_, step_, stream_;
  VU k0_[10], k1_[10];
};

HWY_NOINLINE inline void lines(const Noise& noise, std::int64_t first_group, std::int64_t groups,
                               NoiseLine* HWY_RESTRICT lines) {
  const Philox philox(noise);
  const VU shift = hn::Set(DU(), noise.shift << 16);
  for (std::int64_t g = 0; g < groups; g += kCalls) {
    CallWords words[2];
    philox.words(noise.first_group + static_cast<std::uint32_t>(first_group + g), words);
    alignas(64) std::uint32_t slopes[kCalls], starts[kCalls];
    for (int i = 0; i < kCalls / kLanes; ++i) {
      hn::Store(words[0][i], DU(), slopes + i * kLanes);
      hn::Store(hn::Add(words[1][i], shift), DU(), starts + i * kLanes);
    }
    const std::int64_t here = groups - g < kCalls ? groups - g : kCalls;
    for (std::int64_t i = 0; i < here; ++i) lines[g + i] = {slopes[i], starts[i]};
  }
}

HWY_NOINLINE inline void draw(const Noise& noise, std::int64_t first_group, std::int64_t groups,
                              std::uint32_t* HWY_RESTRICT out) {
  const Philox philox(noise);
  auto call = (noise.first_group + static_cast<std::uint32_t>(first_group)) * 16U;
  for (std::int64_t g = 0; g < groups; ++g, call += 16) {
    CallWords words[4];
    philox.words(call, words);
    for (int w = 0; w < 4; ++w) {
      for (int i = 0; i < kCalls / kLanes; ++i) {
        hn::Store(words[w][i], DU(), out + 64 * g + 16 * w + i * kLanes);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
