// The units of the tensors of one launch: warps go through them, and what they cannot do is left, in a list,
// to the bodies of kernels/cuda/packed/update_body.h.
#pragma once

#include "kernels/cuda/packed/fused_update.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// The tensors of one launch, units counted through all of them.
template <class R>
struct UpdateTable {
  const cuda::UpdateJob<R>* jobs;
  const std::uint32_t* first_units;  // of each tensor
  std::int32_t tensors, stride;      // a power of 32; 32 of it are all tensors
  std::uint32_t* left;               // how many units are left, then which
  Given given = {};
};

// The tensor of a unit, found by all lanes at once.
template <class R>
LPMM_DEVICE int tensor_of(const UpdateTable<R>& table, std::uint32_t unit, int lane) {
  int at = 0;
  for (int stride = table.stride; stride > 0; stride /= kWarp) {
    const int tensor = at + lane * stride;
    const bool begins = tensor < table.tensors && table.first_units[tensor] <= unit;
    at += (number_of(lanes_where(begins)) - 1) * stride;
  }
  return at;
}

// Values that follow from it are computed each time: kept, they would take all registers.
LPMM_DEVICE int lane_here() {
  std::uint32_t thread = threadIdx.x;
  forget(thread);
  return static_cast<int>(thread % kWarp);
}

inline constexpr std::uint32_t kNotWhole = ~0U;  // a group: the unit ends early
template <class Unit>
inline constexpr std::uint32_t shared_bytes_of = behind_stages(Unit::kStagedBytes) + Unit::kParkedBytes;

template <class R, int kSet, bool kFeedback, bool kUsual>
__global__ void __launch_bounds__(kFusedThreads, UnitUpdate<R, kSet, kFeedback, kUsual>::kBlocks)
    update_units(UpdateTable<R> table, std::uint32_t first, std::uint32_t end) {
  begin_kernel();
  using Update = UnitUpdate<R, kSet, kFeedback, kUsual>;
  auto* const shared = static_cast<std::byte*>(dynamic_shared());
  Given given = table.given;
  given.tables = shared;
  Update::make_tables(reinterpret_cast<SoftTable*>(shared), static_cast<int>(threadIdx.x));
  const std::uint32_t warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const std::uint32_t mine = first + blockIdx.x * warps + warp;
  const std::uint32_t both = 2 * kStagesAt + (4 * warp + 1) * Update::kStagedBytes;  // places, added
  std::uint32_t room = kStagesAt + 2 * warp * Update::kStagedBytes;
  std::uint16_t next_step = 0;
  for (std::uint32_t unit = mine;; unit += gridDim.x * warps) {
    NextUnit& next = reinterpret_cast<NextUnit*>(shared + kNextAt)[threadIdx.x];
    const NextUnit now = next;
    const std::uint16_t step = next_step;
    if (unit < end) {
      const int lane = lane_here();
      next.tensor = tensor_of(table, unit, lane);
      const cuda::UpdateJob<R>& job = table.jobs[next.tensor];
      const std::uint32_t of_tensor = unit - table.first_units[next.tensor];
      const bool is_whole = (std::int64_t{of_tensor} + 1) * kUnit <= job.end;
      next.group = is_whole ? of_tensor * std::uint32_t{kUnitGroups} : kNotWhole;
      if (is_whole) next_step = Update::stage(job, next.group, lane, shared + room);
    }
    commit();
    room = both - room;
    if (unit != mine) {
      wait<1>();
      __syncwarp();
      const int lane = lane_here();
      const cuda::UpdateJob<R>& job = table.jobs[now.tensor];
      const bool is_done =
          now.group != kNotWhole && Update(job, now.group, lane, given, shared, room).run(step);
      if (!is_done && lane == 0) table.left[1 + add_to(table.left, 1)] = unit - gridDim.x * warps;
      __syncwarp();  // all have read what is written over next
    }
    if (unit >= end) return;
  }
}

// The units that are left, by all threads of a block.
template <class R>
__global__ void update_left(UpdateTable<R> table, std::uint32_t blocks) {
  begin_kernel();
  auto* const shared = static_cast<std::uint32_t*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (std::uint32_t i = blockIdx.x; i < table.left[0]; i += blocks) {
    const std::uint32_t unit = table.left[1 + i];
    const int tensor = tensor_of(table, unit, thread % kWarp);
    for (int phase = 0; phase < cuda::kPhases; ++phase) {
      run_phase(phase, table.jobs[tensor], unit - table.first_units[tensor], thread, threads, shared);
      __syncthreads();
    }
  }
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
