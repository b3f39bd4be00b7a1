// The noise generator, N calls side by side. It needs no transposition: lane i of a row of 16 elements takes
// its draw from the call of counter i (kernels/noise.h).
// Compiled once for each instruction set, with the file that includes it.
#if defined(LPMM_KERNELS_CPU_TILE_NOISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LPMM_KERNELS_CPU_TILE_NOISE_INL_H_
#undef LPMM_KERNELS_CPU_TILE_NOISE_INL_H_
#else
#define LPMM_KERNELS_CPU_TILE_NOISE_INL_H_
#endif

#include "kernels/cpu/tile_vectors-inl.h"
#include "kernels/noise.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

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

void draw(const Noise& noise, std::int64_t first_group, std::int64_t groups,
          std::uint32_t* HWY_RESTRICT words) {
  const DU du;
  const VU m0 = hn::Set(du, 0xD2511F53U);
  const VU m1 = hn::Set(du, 0xCD9E8D57U);
  VU k0[10];
  VU k1[10];
  auto key0 = static_cast<std::uint32_t>(noise.seed);
  auto key1 = static_cast<std::uint32_t>(noise.seed >> 32);
  for (int r = 0; r < 10; ++r) {
    k0[r] = hn::Set(du, key0);
    k1[r] = hn::Set(du, key1);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  const VU c1 = hn::Set(du, noise.tensor);
  const VU c2 = hn::Set(du, noise.step);
  const VU c3 = hn::Set(du, noise.stream);
  const hn::Repartition<std::uint16_t, DU> d16;
  const auto shift = hn::Set(d16, static_cast<std::uint16_t>(noise.shift));
  // All 16 calls of a group side by side: the multiplications' latency hides behind the other calls.
  constexpr std::int64_t kVectors = 2 * kRow / kLanes;
  auto call = (noise.first_group + static_cast<std::uint32_t>(first_group)) * 16U;
  for (std::int64_t g = 0; g < groups; ++g, call += 16) {
    VU x[kVectors][4];
    for (std::int64_t i = 0; i < kVectors; i += 2) {
      const VU calls = hn::Iota(du, call + static_cast<std::uint32_t>(i / 2 * kLanes));
      x[i][0] = calls;
      x[i + 1][0] = hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(DU64(), calls)));
      for (std::int64_t k = i; k < i + 2; ++k) {
        x[k][1] = c1;
        x[k][2] = c2;
        x[k][3] = c3;
      }
    }
#pragma GCC unroll 10
    for (int r = 0; r < 10; ++r) {
      for (auto& state : x) philox_round(state, m0, m1, k0[r], k1[r]);
    }
    for (std::int64_t i = 0; i < kVectors; i += 2) {
      for (int w = 0; w < 4; ++w) {
        const VU odd = hn::BitCast(du, hn::ShiftLeft<32>(hn::BitCast(DU64(), x[i + 1][w])));
        const VU both = hn::OddEven(odd, x[i][w]);
        hn::Store(hn::BitCast(du, hn::Add(hn::BitCast(d16, both), shift)), du,
                  words + 64 * g + 16 * w + i / 2 * kLanes);
      }
    }
  }
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();

#endif
