// The update of whole units whose roles are all fp32: no steps, no draws, and 16 bytes of a role at a time.
// Units that end early are left, as in kernels/cuda/packed/fused_units.h. The bits are those of the general
// bodies.
#pragma once

#include "kernels/cuda/packed/fused_units.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

inline constexpr int kPlainSet = 0;     // of fused::kCodecs
inline constexpr int kPlainBlocks = 6;  // on a multiprocessor: 80 registers for each thread
inline constexpr int kPlainAtOnce = 2;  // fours of neighbours that a thread loads before it computes
inline constexpr int kPlainFours = kUnit / kFour / kWarp;
static_assert(kPlainFours % kPlainAtOnce == 0);

template <class R>
struct PlainUpdate {
  static constexpr fused::Codecs kCodecs = fused::codecs_of<R, kPlainSet>();
  static constexpr std::uint32_t kThere = [] {
    std::uint32_t there = 0;
    for (int r = 0; r < kElementRoles; ++r) there |= fused::is_none(kCodecs.of[r]) ? 0U : 1U << r;
    return there;
  }();
  LPMM_DEVICE static bool is_there(int role) { return (kThere >> role & 1U) != 0; }
  static constexpr int kAccumulator = static_cast<int>(Role::kAccumulator);

  const cuda::UpdateJob<R>& job;
  const R& rule = job.complete();

  LPMM_DEVICE FourFloats* at(int role, std::int64_t four) const {
    return reinterpret_cast<FourFloats*>(global(job.roles.at.of[role].codes)) + four;
  }
  // The fours `first` and each kWarp after it.
  LPMM_DEVICE void run(std::int64_t first) const {
    FourFloats x[kPlainAtOnce][kElementRoles];
    LPMM_UNROLL for (int n = 0; n < kPlainAtOnce; ++n) {
      LPMM_UNROLL for (int r = 0; r < kElementRoles; ++r) {
        if (is_there(r)) x[n][r] = *at(r, first + n * kWarp);
      }
    }
    bool is_fine = true;
    LPMM_UNROLL for (int n = 0; n < kPlainAtOnce; ++n) {
      LPMM_UNROLL for (int i = 0; i < kFour; ++i) {
        Elements<float> e{};
        LPMM_UNROLL for (int r = 0; r < kElementRoles; ++r) {
          if (is_there(r)) e.of[r] = x[n][r].x[i];
        }
        rule(e);
        LPMM_UNROLL for (int r = 0; r < kElementRoles; ++r) {
          if (!is_there(r) || r == kAccumulator) continue;
          is_fine = make_storable(e.of[r]) && is_fine;
          x[n][r].x[i] = e.of[r];
        }
      }
      LPMM_UNROLL for (int r = 0; r < kElementRoles; ++r) {
        if (is_there(r) && r != kAccumulator) *at(r, first + n * kWarp) = x[n][r];
      }
      if (!job.keeps_gradient) *at(kAccumulator, first + n * kWarp) = FourFloats{};
    }
    if (!is_fine && job.storable != nullptr) *job.storable = false;
  }
};

template <class R>
__global__ void __launch_bounds__(kFusedThreads, kPlainBlocks)
    update_plain_units(UpdateTable<R> table, std::uint32_t first, std::uint32_t end) {
  begin_kernel();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::uint32_t warps = blockDim.x / kWarp;
  for (std::uint32_t unit = first + blockIdx.x * warps + threadIdx.x / kWarp; unit < end;
       unit += gridDim.x * warps) {
    const int tensor = tensor_of(table, unit, lane);
    const cuda::UpdateJob<R>& job = table.jobs[tensor];
    const std::int64_t of_tensor = unit - table.first_units[tensor];
    if ((of_tensor + 1) * kUnit > job.end) {
      if (lane == 0) table.left[1 + add_to(table.left, 1)] = unit;
      continue;
    }
    LPMM_ROLLED for (int turn = 0; turn < kPlainFours; turn += kPlainAtOnce) {
      PlainUpdate<R>{job}.run(of_tensor * (kUnit / kFour) + turn * kWarp + lane);
    }
  }
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
