// The tile loops in vectors, compiled once per x86 instruction set (Highway).
#include "kernels/cpu/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tile_simd.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "kernels/cpu/tile_decode-inl.h"
#include "kernels/cpu/tile_encode-inl.h"
#include "kernels/cpu/tile_loops-inl.h"
#include "kernels/cpu/tile_noise-inl.h"
#include "kernels/cpu/tile_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

// ---- rules -----------------------------------------------------------------------------------------------
// What a rule needs of a number. Not forced inline: rules are compiled for the baseline until they are
// inlined.
struct Number {
  VF v;
  inline explicit Number(float x) : v(set(x)) {}
  inline explicit Number(const VF& x) : v(x) {}
};
inline Number operator+(const Number& a, const Number& b) {
  return Number(hn::Add(a.v, b.v));
}
inline Number operator-(const Number& a, const Number& b) {
  return Number(hn::Sub(a.v, b.v));
}
inline Number operator*(const Number& a, const Number& b) {
  return Number(hn::Mul(a.v, b.v));
}
inline Number operator/(const Number& a, const Number& b) {
  return Number(hn::Div(a.v, b.v));
}
inline Number square_root(const Number& a) {
  return Number(hn::Sqrt(a.v));
}

void apply_sgd(const Sgd& rule, float* HWY_RESTRICT p, const float* HWY_RESTRICT g, float* HWY_RESTRICT m,
               std::int64_t count) {
  const DF df;
  const Sgd constants = rule;  // a copy that no store can touch
  Number none(0.0F);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    Number pi(hn::Load(df, p + i));
    Number mi(hn::Load(df, m + i));
    constants(pi, Number(hn::Load(df, g + i)), mi, none);
    hn::Store(pi.v, df, p + i);
    hn::Store(mi.v, df, m + i);
  }
}

void apply_adam(const Adam& rule, float* HWY_RESTRICT p, const float* HWY_RESTRICT g, float* HWY_RESTRICT m,
                float* HWY_RESTRICT v, std::int64_t count) {
  const DF df;
  const Adam constants = rule;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    Number pi(hn::Load(df, p + i));
    Number mi(hn::Load(df, m + i));
    Number vi(hn::Load(df, v + i));
    constants(pi, Number(hn::Load(df, g + i)), mi, vi);
    hn::Store(pi.v, df, p + i);
    hn::Store(mi.v, df, m + i);
    hn::Store(vi.v, df, v + i);
  }
}

void feed_back_sgd(const Sgd& rule, const float* HWY_RESTRICT wanted, const float* HWY_RESTRICT stored,
                   float* HWY_RESTRICT m, std::int64_t count) {
  const DF df;
  const Sgd constants = rule;
  const Number none(0.0F);
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const Number error = Number(hn::Load(df, wanted + i)) - Number(hn::Load(df, stored + i));
    hn::Store(constants.feed_back(error, Number(hn::Load(df, m + i)), none).v, df, m + i);
  }
}

void feed_back_adam(const Adam& rule, const float* HWY_RESTRICT wanted, const float* HWY_RESTRICT stored,
                    float* HWY_RESTRICT m, const float* HWY_RESTRICT v, std::int64_t count) {
  const DF df;
  const Adam constants = rule;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const Number error = Number(hn::Load(df, wanted + i)) - Number(hn::Load(df, stored + i));
    hn::Store(constants.feed_back(error, Number(hn::Load(df, m + i)), Number(hn::Load(df, v + i))).v, df,
              m + i);
  }
}

const TileKernels* tile_kernels() {
  static constexpr const char* kName = HWY_TARGET == HWY_AVX3   ? "avx512"
                                       : HWY_TARGET == HWY_AVX2 ? "avx2"
                                       : HWY_TARGET == HWY_SSE4 ? "sse4"
                                                                : "ssse3";
  static constexpr TileKernels kKernels = {kName,      draw,          decode,        encode,    largest,
                                           add_scaled, square_sum,    to_bf16,       from_bf16, apply_sgd,
                                           apply_adam, feed_back_sgd, feed_back_adam};
  return &kKernels;
}

#else
// Everything else takes kernels/cpu/tile_scalar.cpp.
const TileKernels* tile_kernels() {
  return nullptr;
}
#endif
}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lpmm::kernels {

std::vector<const TileKernels*> simd_tile_kernels() {
  std::vector<const TileKernels*> sets;
  const std::int64_t supported = hwy::SupportedTargets();
#if HWY_TARGETS & HWY_AVX3
  if ((supported & HWY_AVX3) != 0) sets.push_back(N_AVX3::tile_kernels());
#endif
#if HWY_TARGETS & HWY_AVX2
  if ((supported & HWY_AVX2) != 0) sets.push_back(N_AVX2::tile_kernels());
#endif
#if HWY_TARGETS & HWY_SSE4
  if ((supported & HWY_SSE4) != 0) sets.push_back(N_SSE4::tile_kernels());
#endif
#if HWY_TARGETS & HWY_SSSE3
  if ((supported & HWY_SSSE3) != 0) sets.push_back(N_SSSE3::tile_kernels());
#endif
  return sets;
}

}  // namespace lpmm::kernels
#endif
