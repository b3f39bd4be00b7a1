// The fast folds and reads. Compiled by nvcc, and by the host's compiler for the emulated device.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

#include "kernels/cuda/cuda_packed.h"
#include "kernels/cuda/packed/fused.h"
#include "kernels/cuda/packed/fused_fold.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE::fast {
namespace {

// The formats that presets fold into and read most, once each: parameters, accumulators, a momentum with
// gradients.
inline constexpr Codec kFolded[] = {fused::codec_of("int8:block128:sr"), fused::codec_of("soft4:block128:sr"),
                                    fused::codec_of("soft3:block128:sr"), fused::codec_of("int5:block64:sr")};
inline constexpr Codec kRead[] = {fused::codec_of("int12:block256:sr"),
                                  kFolded[0],
                                  fused::codec_of("int7:block128:sr"),
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

// Whatever the codec is: a block for a unit.
__global__ void __launch_bounds__(kFusedThreads) sum_stored(SumUnits args) {
  begin_kernel();
  const std::int64_t first = args.first + blockIdx.x * kUnit + first_of_thread();
  float x[kRows];
  LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
    const std::int64_t at = first + kSumLanes * j;
    x[j] = at < args.end ? load_value(args.slot, at) : 0.0F;
  }
  sum_blocks(args.sums, sum_of_unit(x, sums_of_warps()), sums_of_warps());
}

// Folds of fp32 that are small, and so take one launch: a block for each, unit after unit. They are
// parameters of the kernel, which may be 4 KB; a copy to the device would wait for it.
constexpr std::int64_t kMostUnitsOfSmall = 16;
constexpr std::int64_t kSmallFoldBytes = kFoldBytes + kMostUnitsOfSmall * std::int64_t{sizeof(double)};
struct SmallFolds {
  PlainFold<float> of[64];
};
static_assert(sizeof(SmallFolds) <= 4096);
__global__ void __launch_bounds__(kFusedThreads) fold_small(SmallFolds folds) {
  begin_kernel();
  const PlainFold<float>& fold = folds.of[blockIdx.x];
  const std::int64_t units = units_of(fold.count);
  const bool wants_sum = fold.sums.to != nullptr;
  double* const sums = sums_of_warps() + kWarpsOfBlock;  // the first thread's
  LPMM_ROLLED for (std::int64_t unit = 0; unit < units; ++unit) {
    const double sum = fold_plain_unit(fold, unit, wants_sum);
    if (threadIdx.x == 0) sums[unit] = sum;
  }
  if (wants_sum && threadIdx.x == 0) *fold.sums.to = sum_as_tree(sums, units);
}

using FoldKernel = void (*)(FoldUnits);
template <class From>
FoldKernel fold_kernel(const Codec& codec, bool wants_sum) {
  FoldKernel found = nullptr;
  each_number<static_cast<int>(std::size(kFolded))>([&](auto number) {
    using Of = Stored<kFolded[number]>;
    if (!fused::serves(Of::kCodec, codec)) return;
    found = wants_sum ? fold_units<Of, true, From> : fold_units<Of, false, From>;
  });
  return found;
}

using SumKernel = void (*)(SumUnits);
SumKernel sum_kernel(const Codec& codec) {
  SumKernel found = nullptr;
  each_number<static_cast<int>(std::size(kFolded))>([&](auto number) {
    using Of = Stored<kFolded[number]>;
    if (Of::kCodec.format != codec.format || Of::kBlock != codec.block || divides_first(codec)) return;
    found = sum_units<Of>;
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

// A launch of so many blocks, whose sums go to `to`; null: none is wanted.
template <class Kernel, class Args>
void launch_sums(Kernel kernel, std::int64_t blocks, Args args, double* to, Arrivals& arrivals,
                 Stream stream) {
  const StreamMemory room(to == nullptr || blocks == 1 ? 0 : 8 * blocks, stream);
  const Arrivals::Turn turn = to == nullptr ? Arrivals::Turn() : arrivals.take(1, stream);
  if (to != nullptr) args.sums = {static_cast<double*>(room.data()), turn.counters, to};
  launch(kernel, blocks, kFusedThreads, kFoldBytes, stream, args);
}
std::int64_t blocks_of(std::int64_t units) {
  return (units + kWarpsOfBlock - 1) / kWarpsOfBlock;
}

bool is_plain(const Fold& fold) {
  return fold.accumulator.codec.format.map == Map::kFp32;
}
bool is_small(const Fold& fold) {
  const kernels::Values& gradient = fold.gradient;
  return is_plain(fold) && gradient.type == ValueType::kFp32 && fold.args.stats == nullptr &&
         gradient.count > 0 && units_of(gradient.count) <= kMostUnitsOfSmall;
}
template <class From>
PlainFold<From> plain_of(const Fold& fold) {
  auto* const stored = reinterpret_cast<float*>(fold.accumulator.codes) + fold.first;
  return {stored,        static_cast<const From*>(fold.gradient.data), fold.gradient.count, fold.args.scale,
          fold.finite(), {nullptr, nullptr, fold.square_sum()}};
}

// Folds a gradient of type `From`.
template <class From>
bool fold_from(const Fold& of, Arrivals& arrivals, Stream stream) {
  const std::int64_t units = units_of(of.gradient.count);
  if (units == 0) return false;
  double* const to = of.square_sum();
  if (is_plain(of)) {
    launch_sums(to == nullptr ? fold_plain<From, false> : fold_plain<From, true>, units, plain_of<From>(of),
                to, arrivals, stream);
    return true;
  }
  const FoldKernel kernel = fold_kernel<From>(of.accumulator.codec, to != nullptr);
  if (kernel == nullptr || of.first % kGroup != 0 || !is_aligned(of.gradient.data, kColumns * sizeof(From))) {
    return false;
  }
  const FoldUnits of_units = {cuda::make_fold(of, device_table), {}};
  launch_sums(kernel, blocks_of(units), of_units, to, arrivals, stream);
  return true;
}

}  // namespace

bool fold(const Fold& of, Arrivals& arrivals, Stream stream) {
  return of.gradient.type == ValueType::kFp32 ? fold_from<float>(of, arrivals, stream)
                                              : fold_from<std::uint16_t>(of, arrivals, stream);
}

void square_sum(const RoleView& src, std::int64_t first, std::int64_t count, double* sum, Arrivals& arrivals,
                Stream stream) {
  const SumUnits args = {cuda::make_slot(src, device_table, {}), first, first + count, {}};
  const std::int64_t units = std::max<std::int64_t>(1, units_of(count));
  const SumKernel kernel = first % kGroup == 0 ? sum_kernel(src.codec) : nullptr;
  launch_sums(kernel == nullptr ? sum_stored : kernel, kernel == nullptr ? units : blocks_of(units), args,
              sum, arrivals, stream);
}

bool decode(const RoleView& src, std::int64_t first, std::int64_t count, float* dst, Stream stream) {
  return read(src, first, count, dst, stream);
}
bool decode_bf16(const RoleView& src, std::int64_t first, std::int64_t count, std::uint16_t* dst,
                 Stream stream) {
  return read(src, first, count, dst, stream);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE::fast

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

void PackedStream::fold(PackedDevice& device, std::span<const Fold> folds) {
  fast::SmallFolds small = {};
  std::size_t count = 0;
  const auto launch_small = [&] {
    launch(fast::fold_small, static_cast<std::int64_t>(std::exchange(count, 0)), kFusedThreads,
           fast::kSmallFoldBytes, stream, small);
  };
  for (const Fold& f : folds) {
    if (folds.size() == 1 || !fast::is_small(f)) {
      fold_alone(device, f);
      continue;
    }
    small.of[count++] = fast::plain_of<float>(f);
    if (count == std::size(small.of)) launch_small();
  }
  launch_small();
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
