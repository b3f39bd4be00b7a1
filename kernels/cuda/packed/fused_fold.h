// Folds, square sums and reads of units, threads and registers as in kernels/cuda/packed/fused_update.h. A
// unit that ends early, or holds what is not usual, is folded once more, with care.
#pragma once

#include "kernels/cuda/packed/fused_roles.h"
#include "kernels/cuda/packed/sums_body.h"
#include "kernels/cuda/sum_tree.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// ---- folds and square sums -------------------------------------------------------------------------------
inline constexpr int kWarpsOfBlock = kFusedThreads / kWarp;
static_assert(kFusedThreads == kTreeThreads && kFusedThreads == kUnitGroups * kSumLanes);

inline constexpr std::int64_t kTableBytes = sizeof(SoftTable);
// Shared memory of a block: a format's table, then what its warps tell one another.
inline constexpr std::int64_t kFoldBytes = kTableBytes + kWarpsOfBlock * sizeof(double);
LPMM_DEVICE double* sums_of_warps() {
  return reinterpret_cast<double*>(static_cast<std::byte*>(dynamic_shared()) + kTableBytes);
}

template <class Of>
LPMM_DEVICE Given given_with_tables(Given given) {
  given.tables = dynamic_shared();
  if constexpr (Of::kCoding == Coding::kSoftsign) {
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread < kTableThreads)
      make_soft_table(*static_cast<SoftTable*>(dynamic_shared()), thread, Of::kBits);
    __syncthreads();
  }
  return given;
}

// Sums the squares of a warp's unit, four neighbours of 16 in a row, in the order of kernels/sums.h: rows,
// the tree of lanes, the tree of groups.
LPMM_DEVICE double sum_of_unit(const float (&values)[kRows * kColumns]) {
  double lanes[kColumns] = {};
  LPMM_UNROLL for (int e = 0; e < kRows * kColumns; ++e) {
    const auto x = static_cast<double>(values[e]);
    lanes[e % kColumns] = std::fma(x, x, lanes[e % kColumns]);  // the product is exact
  }
  LPMM_UNROLL for (int distance = kColumns / 2; distance > 0; distance /= 2) {
    LPMM_UNROLL for (double& lane : lanes) lane += __shfl_xor_sync(kAllLanes, lane, distance);
  }
  double sum = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
  LPMM_UNROLL for (int distance = kColumns; distance < kWarp; distance *= 2) sum +=
      __shfl_xor_sync(kAllLanes, sum, distance);
  return sum;
}
// The same of a unit that a block has: thread 16 g + l has element l of all rows of group g.
LPMM_DEVICE int first_of_thread() {
  return static_cast<int>(threadIdx.x / kSumLanes * kGroup + threadIdx.x % kSumLanes);
}
LPMM_DEVICE double sum_of_unit(const float (&values)[kRows], double* of_warps) {
  double sum = 0;
  LPMM_UNROLL for (const float value : values) {
    const auto x = static_cast<double>(value);
    sum += x * x;
  }
  LPMM_UNROLL for (int distance = kSumLanes / 2; distance > 0; distance /= 2) sum +=
      __shfl_xor_sync(kAllLanes, sum, distance);
  return sum_of_threads(sum, kSumLanes, of_warps);
}

struct FoldUnits {
  cuda::FoldJob job;
  BlockSums sums;
  Given given = {};
};

// The step of a part, made small where the values of codes would not be finite on the way (kMostStep), and
// what then makes those values what they are; powers of two change no bit.
struct ReadStep {
  float down = 0, up = 1;
  LPMM_DEVICE explicit ReadStep(float step)
      : down(step > kMostStep ? step * 0x1p-64F : step), up(step > kMostStep ? 0x1p64F : 1.0F) {}
};

// A unit of a warp, from a gradient of `From`. The usual one is whole, its steps are at most kMostStep and
// all it makes can be stored.
template <class Of, class From, bool kIsUsual>
class UnitFold {
 public:
  LPMM_DEVICE UnitFold(const FoldUnits& fold, std::uint32_t unit, int lane)
      : slot_(fold.job.slots[0]),
        group_(static_cast<std::uint32_t>(fold.job.first / kGroup) + unit * kUnitGroups +
               static_cast<std::uint32_t>(lane / kColumns)),
        column_(lane % kColumns) {}

  // False: the unit is not a usual one, and nothing was written. `sum`: null where none is wanted.
  LPMM_DEVICE bool run(const FoldUnits& fold, const Given& given, double* sum) {
    bool is_fine = true;
    if (is_there(fold, 0)) {
      add(fold, given);
      if constexpr (!kIsUsual) make_all_storable(fold);
    }
    std::uint16_t next[Of::kParts];
    LPMM_UNROLL for (int part = 0; part < Of::kParts; ++part) {
      const float most = largest_of_block<Of::kGroups>(most_[part]);
      const float limit = map_limit(Of::kCodec.format);
      constexpr Codec kCodec = Of::kCodec;
      next[part] = slot_.is_accumulator ? next_accumulator_step(kCodec, most, step_[part])
                                        : next_step(limit, kCodec.step_mode, most, step_[part]);
      is_fine = is_fine && is_storable(float_bits(most)) && bf16_to_float(step_[part]) <= kMostStep;
    }
    if (kIsUsual && lanes_where(!is_fine) != 0) return false;
    if (is_there(fold, 0)) store(fold, next, given);
    if (sum == nullptr) return true;
    const double found = sum_of_unit(values_);
    if (threadIdx.x % kWarp == 0) *sum = found;
    return true;
  }

 private:
  // True if the part has elements, and so a step.
  LPMM_DEVICE bool is_there(const FoldUnits& fold, int part) const {
    return kIsUsual || std::int64_t{group_} * kGroup + part * (kGroup / Of::kParts) < fold.job.end;
  }
  LPMM_DEVICE std::uint16_t* step_of(int part) const {
    return global(slot_.steps) + (group_ * Of::kParts / Of::kGroups + static_cast<unsigned>(part));
  }

  LPMM_DEVICE void add(const FoldUnits& fold, const Given& given) {
    const std::int64_t first = std::int64_t{group_} * kGroup + kColumns * column_ - fold.job.first;
    const auto* gradient = global(static_cast<const From*>(fold.job.gradient)) + first;
    const std::int64_t rest = fold.job.end - fold.job.first - first;
    Words<Of::kBits> words;
    LPMM_UNROLL for (int pair = 0; pair < kPairs; ++pair) words.load(slot_.codes, group_, column_, pair);
    LPMM_UNROLL for (int part = 0; part < Of::kParts; ++part) {
      if (is_there(fold, part)) step_[part] = *step_of(part);
    }
    LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
      const ReadStep step(bf16_to_float(step_[Of::part_of(j)]));
      const typename Of::Reader reader(kIsUsual ? bf16_to_float(step_[Of::part_of(j)]) : step.down, given);
      const auto row = reader.read(words, j);
      FourFloats addend = {};
      if constexpr (kIsUsual) addend = four_of(gradient + kSumLanes * j);
      LPMM_UNROLL for (int i = 0; i < kColumns; ++i) {
        float held = reader.value(row, i);
        if constexpr (!kIsUsual) {
          const bool is_here = rest > kSumLanes * j + i;
          held = is_here ? held * step.up : 0.0F;
          addend.x[i] = is_here ? widened(gradient[kSumLanes * j + i]) : 0.0F;
        }
        const float x = held + fold.job.scale * addend.x[i];
        values_[kColumns * j + i] = x;
        float& most = most_[Of::part_of(j)];
        most = cuda::larger_magnitude(most, x);
      }
    }
  }

  LPMM_DEVICE void make_all_storable(const FoldUnits& fold) {
    bool is_fine = true;
    LPMM_UNROLL for (float& most : most_) most = 0;
    LPMM_UNROLL for (int e = 0; e < kRows * kColumns; ++e) {
      is_fine = make_storable(values_[e]) && is_fine;
      float& most = most_[Of::part_of(e / kColumns)];
      most = cuda::larger_magnitude(most, values_[e]);
    }
    if (!is_fine && fold.job.storable != nullptr) *fold.job.storable = false;
  }

  LPMM_DEVICE void store(const FoldUnits& fold, const std::uint16_t (&next)[Of::kParts], const Given& given) {
    const NoiseLine line = noise_line(slot_.noise, group_);
    const ThreadLine draws = {line.slope,
                              line.start + line.slope * static_cast<std::uint32_t>(kColumns * column_)};
    const typename Of::Writer first(bf16_to_float(next[0]), given),
        last(bf16_to_float(next[Of::kParts - 1]), given);
    Words<Of::kBits> words;
    LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
      std::uint32_t places[kColumns];
      float x[kColumns];
      LPMM_UNROLL for (int i = 0; i < kColumns; ++i) {
        x[i] = values_[kColumns * j + i];
        places[i] = (Of::part_of(j) == 0 ? first : last).place(x[i], draws(j, i));
      }
      set_row<Of::kCoding>(words, j, places, x);
    }
    words.store(slot_.codes, group_, column_);
    if (column_ != 0 || group_ % Of::kGroups != 0) return;
    LPMM_UNROLL for (int part = 0; part < Of::kParts; ++part) {
      if (is_there(fold, part)) *step_of(part) = next[part];
    }
  }

  const cuda::Slot& slot_;
  const std::uint32_t group_;
  const int column_;
  std::uint16_t step_[Of::kParts] = {};
  float most_[Of::kParts] = {};
  float values_[kRows * kColumns] = {};
};

// The sum of units that warps have, each its own, by all threads of the block.
LPMM_DEVICE void sum_warps(const BlockSums& to) {
  const double* const of = sums_of_warps();
  __syncthreads();
  const double sum = (of[0] + of[1]) + (of[2] + of[3]);
  __syncthreads();
  sum_blocks(to, sum, sums_of_warps());
}

template <class Of, bool kWantsSum, class From>
__global__ void __launch_bounds__(kFusedThreads) fold_units(FoldUnits fold) {
  begin_kernel();
  const Given given = given_with_tables<Of>(fold.given);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const std::uint32_t warp = threadIdx.x / kWarp, unit = blockIdx.x * kWarpsOfBlock + warp;
  const std::int64_t rest = fold.job.end - fold.job.first - unit * kUnit;
  double* const sum = kWantsSum ? sums_of_warps() + warp : nullptr;
  const bool is_done = rest >= kUnit && UnitFold<Of, From, true>(fold, unit, lane).run(fold, given, sum);
  if (!is_done) UnitFold<Of, From, false>(fold, unit, lane).run(fold, given, sum);
  if constexpr (kWantsSum) sum_warps(fold.sums);
}

// The fold of an fp32 accumulator.
template <class From>
struct PlainFold {
  float* stored;
  const From* gradient;
  std::int64_t count;
  float scale;
  bool* finite;
  BlockSums sums;
};
// A unit by a block; it need not be whole. Returns its sum, where that is wanted.
template <class From>
LPMM_DEVICE double fold_plain_unit(const PlainFold<From>& fold, std::int64_t unit, bool wants_sum) {
  const std::int64_t first = unit * kUnit + first_of_thread();
  float x[kRows];
  LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
    const std::int64_t at = first + kSumLanes * j;
    x[j] = at < fold.count ? global(fold.stored)[at] + fold.scale * widened(global(fold.gradient)[at]) : 0.0F;
  }
  bool is_fine = true;
  LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
    const std::int64_t at = first + kSumLanes * j;
    is_fine = make_storable(x[j]) && is_fine;
    if (at < fold.count) global(fold.stored)[at] = x[j];
  }
  if (!is_fine && fold.finite != nullptr) *fold.finite = false;
  return wants_sum ? sum_of_unit(x, sums_of_warps()) : 0;
}
// A block for a unit.
template <class From, bool kWantsSum>
__global__ void __launch_bounds__(kFusedThreads) fold_plain(PlainFold<From> fold) {
  begin_kernel();
  const double sum = fold_plain_unit(fold, blockIdx.x, kWantsSum);
  if constexpr (kWantsSum) sum_blocks(fold.sums, sum, sums_of_warps());
}

// The square sum of what is stored.
struct SumUnits {
  cuda::Slot slot;
  std::int64_t first, end;
  BlockSums sums;
  Given given = {};
};
template <class Of>
__global__ void __launch_bounds__(kFusedThreads) sum_units(SumUnits args) {
  begin_kernel();
  const Given given = given_with_tables<Of>(args.given);
  const int column = static_cast<int>(threadIdx.x % kColumns);
  const std::uint32_t group = static_cast<std::uint32_t>(args.first / kGroup) +
                              blockIdx.x * (kFusedThreads / kColumns) + threadIdx.x / kColumns;
  const std::int64_t rest = args.end - std::int64_t{group} * kGroup;
  float values[kRows * kColumns] = {};
  if (rest > 0) {
    Words<Of::kBits> words;
    LPMM_UNROLL for (int pair = 0; pair < kPairs; ++pair) words.load(args.slot.codes, group, column, pair);
    LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
      const int part = Of::part_of(j);
      const std::uint32_t place = group * Of::kParts / Of::kGroups + static_cast<unsigned>(part);
      const bool is_there = rest > part * (kGroup / Of::kParts);
      const ReadStep step(is_there ? bf16_to_float(global(args.slot.steps)[place]) : 0.0F);
      const typename Of::Reader reader(step.down, given);
      const auto row = reader.read(words, j);
      LPMM_UNROLL for (int i = 0; i < kColumns; ++i) {
        const bool is_here = rest > kSumLanes * j + kColumns * column + i;
        values[kColumns * j + i] = is_here ? reader.value(row, i) * step.up : 0.0F;
      }
    }
  }
  const double sum = sum_of_unit(values);
  if (threadIdx.x % kWarp == 0) sums_of_warps()[threadIdx.x / kWarp] = sum;
  sum_warps(args.sums);
}

// ---- reads -----------------------------------------------------------------------------------------------
LPMM_DEVICE void write_four(const float (&x)[kColumns], float* to) {
  *reinterpret_cast<FourFloats*>(to) = {x[0], x[1], x[2], x[3]};
}
LPMM_DEVICE void write_four(const float (&x)[kColumns], std::uint16_t* to) {
  FourHalves halves;
  LPMM_UNROLL for (int i = 0; i < kColumns; ++i) halves.x[i] = cuda::nearest_bf16(x[i]);
  *reinterpret_cast<FourHalves*>(to) = halves;
}
LPMM_DEVICE void write_one(float x, float* to) {
  *to = x;
}
LPMM_DEVICE void write_one(float x, std::uint16_t* to) {
  *to = float_to_bf16(x);
}

struct ReadArgs {
  cuda::Slot slot;
  std::int64_t first, end;
  Given given = {};
};

// Four elements of every 16, `rest` of all.
template <class To>
LPMM_DEVICE void read_slowly(const ReadArgs& args, std::int64_t from, std::int64_t rest, To* to) {
  LPMM_ROLLED for (int e = 0; e < kRows * kColumns; ++e) {
    const int at = kSumLanes * (e / kColumns) + e % kColumns;
    if (at < rest) write_one(load_value(args.slot, args.first + from + at), to + at);
  }
}

// A thread for each column of a group from `first` on, which is a group's first.
template <class Of, class To>
__global__ void __launch_bounds__(kFusedThreads) read_groups(ReadArgs args, To* dst) {
  begin_kernel();
  const Given given = given_with_tables<Of>(args.given);
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  const std::int64_t from =
      std::int64_t{blockIdx.x * (blockDim.x / kColumns) + threadIdx.x / kColumns} * kGroup;
  const std::int64_t rest = args.end - args.first - from;
  if (rest <= 0) return;
  const std::int64_t at = from + kColumns * column;
  // The steps of a group that ends early may not all be there.
  if (rest < kGroup) return read_slowly(args, at, rest - kColumns * column, dst + at);
  const auto group = static_cast<std::uint32_t>((args.first + from) / kGroup);
  Words<Of::kBits> words;
  LPMM_UNROLL for (int pair = 0; pair < kPairs; ++pair) words.load(args.slot.codes, group, column, pair);
  float step[Of::kParts];
  float most_step = 0;
  LPMM_UNROLL for (int part = 0; part < Of::kParts; ++part) {
    step[part] = bf16_to_float(
        global(args.slot.steps)[group * Of::kParts / Of::kGroups + static_cast<unsigned>(part)]);
    most_step = fmaxf(most_step, step[part]);
  }
  LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
    const typename Of::Reader reader(step[Of::part_of(j)], given);
    const auto row = reader.read(words, j);
    float x[kColumns];
    LPMM_UNROLL for (int i = 0; i < kColumns; ++i) x[i] = reader.value(row, i);
    write_four(x, global(dst) + (at + kSumLanes * j));
  }
  // Asked last, so that codes are loaded before steps are there.
  if (most_step > kMostStep) read_slowly(args, at, kGroup, dst + at);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
