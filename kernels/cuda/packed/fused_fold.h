// Folds and reads of whole units, threads and registers as in kernels/cuda/packed/fused_update.h.
#pragma once

#include "kernels/cuda/packed/fused_roles.h"
#include "kernels/cuda/packed/sums_body.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// Four neighbouring halves of a float.
struct alignas(8) FourHalves {
  std::uint16_t x[kColumns];
};

// ---- folds -----------------------------------------------------------------------------------------------
struct FoldUnits {
  cuda::FoldJob job;
  double* sums;         // of each piece; null: not wanted
  std::uint32_t* left;  // how many units are left, then which
  Given given = {};
};

template <class Of, bool kWantsSum>
class UnitFold {
 public:
  LPMM_DEVICE UnitFold(const FoldUnits& fold, std::uint32_t unit, int lane)
      : slot_(fold.job.slots[0]),
        group_(static_cast<std::uint32_t>(fold.job.first / kGroup) + unit * kUnitGroups +
               static_cast<std::uint32_t>(lane / kColumns)),
        column_(lane % kColumns) {}

  // False: nothing was written.
  LPMM_DEVICE bool run(const FoldUnits& fold, std::uint32_t unit, const Given& given) {
    add(fold, given);
    bool is_fine = true;
    std::uint16_t next[Of::kParts];
    LPMM_UNROLL for (int part = 0; part < Of::kParts; ++part) {
      const float most = largest_of_block<Of::kGroups>(most_[part]);
      const float limit = map_limit(Of::kCodec.format);
      constexpr Codec kCodec = Of::kCodec;
      next[part] = slot_.is_accumulator ? next_accumulator_step(kCodec, most, step_[part])
                                        : next_step(limit, kCodec.step_mode, most, step_[part]);
      is_fine = is_fine && is_storable(float_bits(most)) && bf16_to_float(step_[part]) <= kMostStep;
    }
    if (lanes_where(!is_fine) != 0) return false;
    store(next, given);
    if constexpr (kWantsSum) {
      const double sum = sum_of_unit();
      if (column_ == 0 && group_ % kUnitGroups == 0) fold.sums[unit] = sum;
    }
    return true;
  }

 private:
  LPMM_DEVICE std::uint16_t* step_of(int part) const {
    return global(slot_.steps) + (group_ * Of::kParts / Of::kGroups + static_cast<unsigned>(part));
  }

  LPMM_DEVICE void add(const FoldUnits& fold, const Given& given) {
    const std::int64_t first = std::int64_t{group_} * kGroup + kColumns * column_ - fold.job.first;
    const auto* contribution = global(fold.job.contribution) + first;
    Words<Of::kBits> words;
    LPMM_UNROLL for (int pair = 0; pair < kPairs; ++pair) words.load(slot_.codes, group_, column_, pair);
    LPMM_UNROLL for (int part = 0; part < Of::kParts; ++part) step_[part] = *step_of(part);
    LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
      const typename Of::Reader reader(bf16_to_float(step_[Of::part_of(j)]), given);
      const auto row = reader.read(words, j);
      const auto addend = *reinterpret_cast<const FourFloats*>(contribution + kSumLanes * j);
      LPMM_UNROLL for (int i = 0; i < kColumns; ++i) {
        const float x = reader.value(row, i) + fold.job.scale * addend.x[i];
        values_[kColumns * j + i] = x;
        float& most = most_[Of::part_of(j)];
        most = cuda::larger_magnitude(most, x);
      }
    }
  }

  LPMM_DEVICE void store(const std::uint16_t (&next)[Of::kParts], const Given& given) {
    const NoiseLine line = noise_line(slot_.noise, group_);
    const ThreadLine draws = {line.slope,
                              line.start + line.slope * static_cast<std::uint32_t>(kColumns * column_)};
    const typename Of::Writer first(bf16_to_float(next[0]), given),
        last(bf16_to_float(next[Of::kParts - 1]), given);
    Words<Of::kBits> words;
    LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
      std::uint32_t places[kColumns];
      LPMM_UNROLL for (int i = 0; i < kColumns; ++i) {
        places[i] = (Of::part_of(j) == 0 ? first : last).place(values_[kColumns * j + i], draws(j, i));
      }
      set_row<Of::kCoding>(words, j, places);
    }
    words.store(slot_.codes, group_, column_);
    if (column_ != 0 || group_ % Of::kGroups != 0) return;
    LPMM_UNROLL for (int part = 0; part < Of::kParts; ++part) * step_of(part) = next[part];
  }

  // In the order of kernels/sums.h: rows, the tree of lanes, the tree of groups.
  LPMM_DEVICE double sum_of_unit() const {
    double lanes[kColumns] = {};
    LPMM_UNROLL for (int e = 0; e < kRows * kColumns; ++e) {
      const auto x = static_cast<double>(values_[e]);
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

  const cuda::Slot& slot_;
  const std::uint32_t group_;
  const int column_;
  std::uint16_t step_[Of::kParts] = {};
  float most_[Of::kParts] = {};
  float values_[kRows * kColumns];
};

template <class Of, bool kWantsSum>
__global__ void __launch_bounds__(kFusedThreads) fold_units(FoldUnits fold, std::uint32_t units) {
  auto* const table = static_cast<float*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  if constexpr (Of::kCoding == Coding::kSoftsign) {
    if (thread < kSoftEntries) table[thread] = softsign_value(thread, Of::kBits);
    __syncthreads();
  }
  const std::uint32_t unit = blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  if (unit >= units) return;  // all lanes
  Given given = fold.given;
  given.tables = table;
  const bool is_whole = fold.job.first + (std::int64_t{unit} + 1) * kUnit <= fold.job.end;
  if (is_whole && UnitFold<Of, kWantsSum>(fold, unit, lane).run(fold, unit, given)) return;
  if (lane == 0) fold.left[1 + add_to(fold.left, 1)] = unit;
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
  auto* const table = static_cast<float*>(dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x), column = thread % kColumns;
  if constexpr (Of::kCoding == Coding::kSoftsign) {
    if (thread < kSoftEntries) table[thread] = softsign_value(thread, Of::kBits);
    __syncthreads();
  }
  const std::int64_t from =
      std::int64_t{blockIdx.x * (blockDim.x / kColumns) + threadIdx.x / kColumns} * kGroup;
  const std::int64_t rest = args.end - args.first - from;
  if (rest <= 0) return;
  const std::int64_t at = from + kColumns * column;
  // The steps of a group that ends early may not all be there.
  if (rest < kGroup) return read_slowly(args, at, rest - kColumns * column, dst + at);
  const auto group = static_cast<std::uint32_t>((args.first + from) / kGroup);
  float step[Of::kParts];
  float most_step = 0;
  LPMM_UNROLL for (int part = 0; part < Of::kParts; ++part) {
    step[part] = bf16_to_float(
        global(args.slot.steps)[group * Of::kParts / Of::kGroups + static_cast<unsigned>(part)]);
    most_step = fmaxf(most_step, step[part]);
  }
  if (most_step > kMostStep) return read_slowly(args, at, kGroup, dst + at);
  Given given = args.given;
  given.tables = table;
  Words<Of::kBits> words;
  LPMM_UNROLL for (int pair = 0; pair < kPairs; ++pair) words.load(args.slot.codes, group, column, pair);
  LPMM_UNROLL for (int j = 0; j < kRows; ++j) {
    const typename Of::Reader reader(step[Of::part_of(j)], given);
    const auto row = reader.read(words, j);
    float x[kColumns];
    LPMM_UNROLL for (int i = 0; i < kColumns; ++i) x[i] = reader.value(row, i);
    write_four(x, global(dst) + (at + kSumLanes * j));
  }
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
