// The tile loops in vectors, compiled once per set of instructions (Highway): AVX2 and AVX-512.
#include "kernels/cpu/instruction_sets.h"
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
  static constexpr const char* kName = HWY_TARGET == HWY_AVX3 ? "avx512" : "avx2";
  static constexpr TileKernels kKernels = {kName,       lines,   draw,      decode,      decode_bf16,
                                           encode,      largest, smallest,  raise_peaks, add_scaled,
                                           square_sums, to_bf16, from_bf16, fused_fold};
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
#if HWY_TARGETS & HWY_AVX3
  if (has_avx512()) sets.push_back(N_AVX3::tile_kernels());
#endif
#if HWY_TARGETS & HWY_AVX2
  if (has_avx2()) sets.push_back(N_AVX2::tile_kernels());
#endif
  return sets;
}

}  // namespace lpmm::kernels
#endif
