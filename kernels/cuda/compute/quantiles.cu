// Counting keys, and quantiles of sorted tiles. Counts are whole numbers, which atomics add up to the same in
// any order; a tile is sorted by one block in its shared memory, and tiles are added up in the order of
// places.
#include <algorithm>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/sort.h"
#include "kernels/formats/quantiles.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

LPMM_DEVICE void add_count(std::uint64_t* sum, std::uint64_t value) {
#if defined(__CUDACC__)
  atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
#else
  *sum += value;
#endif
}

// All bins of level 0 are more than a block's shared memory holds on every GPU: a block counts a quarter of
// them, and passes over values of the others.
constexpr int kQuarters = 4;
constexpr int kBinsOfQuarter = static_cast<int>(KeyTree::kTops) / kQuarters;
constexpr std::int64_t kCountedByBlock = 1 << 16;  // at least, and at most 2^31
constexpr std::int64_t kCountingBlocks = 264;      // of a quarter

__global__ void count_tops(std::int64_t count, const float* x, std::uint64_t* counts) {
  begin_kernel();
  auto* const shared = static_cast<std::uint32_t*>(dynamic_shared());
  const unsigned quarter = blockIdx.x % kQuarters, threads = blockDim.x;
  for (unsigned bin = threadIdx.x; bin < kBinsOfQuarter; bin += threads) shared[bin] = 0;
  __syncthreads();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x / kQuarters) * threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x / kQuarters) * threads + threadIdx.x; i < count;
       i += stride) {
    const std::uint32_t top = order_key(x[i]) >> 16;
    if (top / kBinsOfQuarter == quarter) add_to(shared + top % kBinsOfQuarter, 1);
  }
  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < kBinsOfQuarter; bin += threads) {
    if (shared[bin] != 0) add_count(counts + quarter * kBinsOfQuarter + bin, shared[bin]);
  }
}

__global__ void count_digits(std::int64_t count, const float* x, KeyTree tree, std::uint64_t* counts) {
  begin_kernel();
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const std::int64_t bin = bin_of(tree, order_key(x[i]));
    if (bin >= 0) add_count(counts + bin, 1);
  }
}

// Returns how many of the sorted keys belong to numbers, not to NaNs.
LPMM_DEVICE std::int64_t numbers_of(const std::uint32_t* keys) {
  std::int64_t begin = 0, end = kSortedTile;
  while (begin < end) {
    const std::int64_t middle = (begin + end) / 2;
    if (keys[middle] == kNanKey) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

// leaves[share][tile] <- the tile's numbers times their quantile; at the last share, their number.
__global__ void sort_tiles(std::int64_t count, const float* x, int shares, const double* share,
                           double* leaves) {
  begin_kernel();
  auto* const keys = static_cast<std::uint32_t*>(dynamic_shared());
  const std::int64_t tile = blockIdx.x, tiles = gridDim.x, first = tile * kSortedTile;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < kSortedTile; i += threads)
    keys[i] = first + i < count ? order_key(x[first + i]) : kNanKey;
  __syncthreads();
  sort_block<kSortedTile>(keys);
  const std::int64_t numbers = numbers_of(keys);
  const auto weight = static_cast<double>(numbers);
  for (int k = thread; k < shares; k += threads) {
    double sum = 0;
    if (numbers > 0) {
      const RankOfShare rank = rank_of_share(share[k], numbers);
      const double lower = value_of_key(keys[rank.lower]);
      const double upper =
          rank.fraction > 0 ? static_cast<double>(value_of_key(keys[rank.lower + 1])) : lower;
      sum = between(lower, upper, rank.fraction) * weight;
    }
    leaves[k * tiles + tile] = sum;
  }
  if (thread == 0) leaves[shares * tiles + tile] = weight;
}

// A block for each panel and share: sum_as_tree() of kernels/sums.h.
__global__ void sum_tiles(std::int64_t tiles, int columns, double* leaves, double* sums) {
  begin_kernel();
  const std::int64_t block = blockIdx.x, panel = block / columns, column = block % columns;
  const std::int64_t first = panel * kTilesOfPanel;
  const int here = tiles - first < kTilesOfPanel ? static_cast<int>(tiles - first) : kTilesOfPanel;
  double* const of_panel = leaves + column * tiles + first;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int width = 1; width < here; width *= 2) {
    for (int i = 2 * width * thread; i + width < here; i += 2 * width * threads)
      of_panel[i] += of_panel[i + width];
    __syncthreads();
  }
  if (thread == 0) sums[blockIdx.x] = of_panel[0];
}

}  // namespace

void CudaDevice::count_keys(std::int64_t count, const float* x, const KeyTree& tree, std::uint64_t* counts) {
  if (count == 0) return;
  const std::int64_t needed = (count + kCountedByBlock - 1) / kCountedByBlock;
  if (tree.level > 0) {
    launch_apart(count_digits, std::min(needed, kQuarters * kCountingBlocks), kThreads, stream(), count, x,
                 tree, counts);
    return;
  }
  const std::int64_t least = count >> 31;  // counts of a block are of 32 bits
  const std::int64_t blocks = std::max(std::min(needed, kCountingBlocks), least + 1);
  launch(count_tops, kQuarters * blocks, kThreads, std::int64_t{4 * kBinsOfQuarter}, stream(), count, x,
         counts);
}

void CudaDevice::sum_tile_quantiles(const TileQuantiles& args) {
  if (args.count == 0) return;
  const int columns = args.shares + 1;
  const std::int64_t tiles = (args.count + kSortedTile - 1) / kSortedTile;
  const std::int64_t panels = (tiles + kTilesOfPanel - 1) / kTilesOfPanel;
  const StreamMemory leaves(8 * tiles * columns, stream());
  auto* const at = static_cast<double*>(leaves.data());
  launch(sort_tiles, tiles, kThreads, std::int64_t{4 * kSortedTile}, stream(), args.count, args.x,
         args.shares, args.share, at);
  launch(sum_tiles, panels * columns, kThreads, 0, stream(), tiles, columns, at, args.sums);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
