// The fast folds and reads. Compiled by nvcc, and by the host's compiler for the emulated device.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

#include "kernels/cuda/packed/fused.h"
#include "kernels/cuda/packed/fused_fold.h"
#include "kernels/cuda/sum_tree.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE::fast {
namespace {

// What presets fold into and read most, once each: parameters, accumulators, a momentum with gradients.
inline constexpr Codec kFolded[] = {fused::packed(Map::kLinear, 8), fused::packed(Map::kSoftsign, 4),
                                    fused::packed(Map::kSoftsign, 3), fused::packed(Map::kLinear, 5, 64)};
inline constexpr Codec kRead[] = {fused::packed(Map::kLinear, 12, 256),
                                  kFolded[0],
                                  fused::packed(Map::kLinear, 7),
                                  kFolded[1],
                                  kFolded[2],
                                  kFolded[3]};

template <int kN, class Body>
void each_number(const Body& body) {
  [&]<int... kI>(std::integer_sequence<int, kI...>) {
    (body(std::integral_constant<int, kI>()), ...);
  }
  (std::make_integer_sequence<int, kN>());
}

bool is_aligned(const void* pointer, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

__global__ void begin_fold(std::uint32_t* left, bool* finite) {
  *left = 0;
  if (finite != nullptr) *finite = true;
}

// The units that are left, by all threads of a block.
__global__ void fold_left(FoldUnits fold, std::uint32_t blocks) {
  auto* const shared = static_cast<std::uint32_t*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const cuda::SumsJob<cuda::FoldedTerms> sums = {{fold.job}, fold.job.first, fold.job.end, fold.sums};
  for (std::uint32_t i = blockIdx.x; i < fold.left[0]; i += blocks) {
    const std::uint32_t unit = fold.left[1 + i];
    for (int phase = 0; fold.sums != nullptr && phase < cuda::kSumPhases; ++phase) {
      run_phase(phase, sums, unit, thread, threads, shared);
      __syncthreads();
    }
    for (int phase = 0; phase < cuda::kPhases; ++phase) {
      run_phase(phase, fold.job, unit, thread, threads, shared);
      __syncthreads();
    }
  }
}

using FoldKernel = void (*)(FoldUnits, std::uint32_t);
FoldKernel fold_kernel(const Codec& codec, bool wants_sum) {
  FoldKernel found = nullptr;
  each_number<static_cast<int>(std::size(kFolded))>([&](auto number) {
    using Of = Stored<kFolded[number]>;
    if (!fused::serves(Of::kCodec, codec)) return;
    found = wants_sum ? fold_units<Of, true> : fold_units<Of, false>;
  });
  return found;
}

template <class To>
using ReadKernel = void (*)(ReadArgs, To*);
template <class To>
ReadKernel<To> read_kernel(const Codec& codec) {
  ReadKernel<To> found = nullptr;
  each_number<static_cast<int>(std::size(kRead))>([&](auto number) {
    using Of = Stored<kRead[number]>;
    if (Of::kCodec.format != codec.format || Of::kBlock != codec.block || divides_first(codec)) return;
    found = read_groups<Of, To>;
  });
  return found;
}

constexpr std::int64_t kTableBytes = kSoftEntries * sizeof(float);

template <class To>
bool read(const RoleView& src, std::int64_t first, std::int64_t count, To* dst, Stream stream) {
  const ReadKernel<To> kernel = read_kernel<To>(src.codec);
  if (kernel == nullptr || first % kGroup != 0 || !is_aligned(dst, kColumns * sizeof(To))) return false;
  constexpr std::int64_t kGroupsOfBlock = kFusedThreads / kColumns;
  const ReadArgs args = {cuda::make_slot(src, device_table, {}), first, first + count};
  launch(kernel, (groups_of(count) + kGroupsOfBlock - 1) / kGroupsOfBlock, kFusedThreads, kTableBytes, stream,
         args, dst);
  return true;
}

}  // namespace

bool fold(const RoleView& accumulator, std::int64_t first, std::int64_t count, const float* contribution,
          const FoldArgs& args, FoldResult* result, Stream stream) {
  const bool wants_sum = args.want_square_sum && result != nullptr;
  const FoldKernel kernel = fold_kernel(accumulator.codec, wants_sum);
  const std::int64_t units = pieces_of(count);
  const bool is_served =
      kernel != nullptr && units != 0 && first % kGroup == 0 && is_aligned(contribution, sizeof(FourFloats));
  if (!is_served) return false;
  bool* const finite = result == nullptr ? nullptr : &result->finite;
  // Sums of pieces, of the levels above them, and the list of what is left.
  const std::int64_t sums = wants_sum ? units + sum_room(units) : 0;
  StreamMemory room(8 * sums + 4 * (1 + units), stream);
  auto* const of_pieces = static_cast<double*>(room.data());
  const FoldUnits fold = {
      cuda::make_fold(accumulator, first, count, contribution, args.scale, args.noise, finite, device_table),
      wants_sum ? of_pieces : nullptr, reinterpret_cast<std::uint32_t*>(of_pieces + sums)};
  launch(begin_fold, 1, 1, 0, stream, fold.left, finite);
  constexpr std::int64_t kUnitsOfBlock = kFusedThreads / kWarp;
  launch(kernel, (units + kUnitsOfBlock - 1) / kUnitsOfBlock, kFusedThreads, kTableBytes, stream, fold,
         static_cast<std::uint32_t>(units));
  constexpr std::int64_t kMostBlocksOfLeft = 256;
  const auto blocks = static_cast<std::uint32_t>(std::min(units, kMostBlocksOfLeft));
  const std::int64_t shared =
      4 * std::max(cuda::shared_words(fold.job), cuda::shared_words(cuda::make_folded_sum(fold.job)));
  launch(fold_left, blocks, kThreads, shared, stream, fold, blocks);
  if (wants_sum) sum_pieces(of_pieces, units, of_pieces + units, &result->square_sum, stream);
  return true;
}

bool decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst, Stream stream) {
  return read(src, first, count, dst, stream);
}
bool decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count, std::uint16_t* dst,
                 Stream stream) {
  return read(src, first, count, dst, stream);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE::fast
