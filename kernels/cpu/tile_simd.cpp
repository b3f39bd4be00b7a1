// The tile loops in vectors, compiled once per x86 instruction set (Highway).
#include "kernels/cpu/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tile_simd.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include "kernels/cpu/packed/fused_fold-inl.h"
#include "kernels/cpu/tile_decode-inl.h"
#include "kernels/cpu/tile_encode-inl.h"
#include "kernels/cpu/tile_loops-inl.h"
#include "kernels/cpu/tile_noise-inl.h"
#include "kernels/cpu/tile_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

const TileKernels* tile_kernels() {
  static constexpr const char* kName = HWY_TARGET == HWY_AVX3   ? "avx512"
                                       : HWY_TARGET == HWY_AVX2 ? "avx2"
                                       : HWY_TARGET == HWY_SSE4 ? "sse4"
                                                                : "ssse3";
#if HWY_TARGET <= HWY_AVX2
  constexpr auto kFusedFold = fused_fold;
#else
  constexpr auto kFusedFold = nullptr;
#endif
  static constexpr TileKernels kKernels = {kName,       lines,   draw,      decode,      decode_bf16,
                                           encode,      largest, smallest,  raise_peaks, add_scaled,
                                           square_sums, to_bf16, from_bf16, kFusedFold};
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
