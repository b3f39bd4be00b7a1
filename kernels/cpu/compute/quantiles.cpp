// Counting keys, and quantiles of sorted tiles.
#include "kernels/formats/quantiles.h"

#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/sums.h"

namespace lpmm::kernels {
namespace {

constexpr std::int64_t kCounted = 1 << 16;                     // values a thread takes at once
constexpr std::int64_t kCountedApart = std::int64_t{1} << 31;  // that 32-bit counts surely hold
constexpr int kTilesAtOnce = 16;                               // of a thread: a subtree of the panel's

// Upper bits as they lie in memory: which of them is which key's is found once for all values.
std::size_t upper_bits(float x) {
  const std::uint32_t bits = float_bits(x);
  return (bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FFFU : bits >> 16;  // NaN are one
}
std::size_t key_of_upper_bits(std::size_t bits) {
  return order_key(bits_float(static_cast<std::uint32_t>(bits) << 16)) >> 16;
}

// Like bin_of(), without branches that data decide; uncounted values have the bin after all others.
std::size_t bin_or_end(const KeyTree& tree, std::size_t end, float x) {
  const std::uint32_t bits = float_bits(x), sign = bits >> 31;
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return end;
  const std::uint32_t key = bits ^ (0x80000000U | (0U - sign));
  std::size_t node = tree.first[key >> 16];
  std::size_t bin = node * KeyTree::kDigits + (key >> 8 & 0xFFU);
  if (tree.level == 1) return node == KeyTree::kNoNode ? end : bin;
  bin = node == KeyTree::kNoNode ? 0 : bin;
  const std::size_t next = tree.second[bin];
  node = node == KeyTree::kNoNode ? node : next;
  return node == KeyTree::kNoNode ? end : node * KeyTree::kDigits + (key & 0xFFU);
}

// Each thread has counts of its own, which fit into its cache; whole numbers add up to the same in any order.
void count_apart(Pool& pool, std::int64_t count, const float* x, const KeyTree& tree, std::uint64_t* counts) {
  std::vector<std::vector<std::uint32_t>> of_threads(static_cast<std::size_t>(pool.threads()));
  const auto bins = static_cast<std::size_t>(bins_of(tree));
  pool.for_each((count + kCounted - 1) / kCounted, [&](std::int64_t item, int thread) {
    std::vector<std::uint32_t>& of_thread = of_threads[static_cast<std::size_t>(thread)];
    of_thread.resize(bins + 1);
    std::uint32_t* const mine = of_thread.data();
    const std::int64_t first = item * kCounted, end = std::min(count, first + kCounted);
    if (tree.level == 0) {
      for (std::int64_t i = first; i < end; ++i) ++mine[upper_bits(x[i])];
      return;
    }
    for (std::int64_t i = first; i < end; ++i) ++mine[bin_or_end(tree, bins, x[i])];
  });
  for (const std::vector<std::uint32_t>& theirs : of_threads) {
    for (std::size_t bin = 0; bin < std::min(bins, theirs.size()); ++bin) {
      counts[tree.level == 0 ? key_of_upper_bits(bin) : bin] += theirs[bin];
    }
  }
}

// Sorted keys of at most a tile of values.
class Tile {
 public:
  void sort(const float* x, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) keys_[static_cast<std::size_t>(i)] = order_key(x[i]);
    const auto end = keys_.begin() + count;
    sorter_(keys_.data(), static_cast<std::size_t>(count), hwy::SortAscending());
    numbers_ = std::lower_bound(keys_.begin(), end, kNanKey) - keys_.begin();
  }
  std::int64_t numbers() const { return numbers_; }
  double weighted_quantile(double share) const {
    if (numbers_ == 0) return 0;
    const RankOfShare rank = rank_of_share(share, numbers_);
    const double lower = at(rank.lower);
    const double upper = rank.fraction > 0 ? at(rank.lower + 1) : lower;
    return between(lower, upper, rank.fraction) * static_cast<double>(numbers_);
  }

 private:
  double at(std::int64_t rank) const { return value_of_key(keys_[static_cast<std::size_t>(rank)]); }
  hwy::Sorter sorter_;
  alignas(64) std::array<std::uint32_t, kSortedTile> keys_;
  std::int64_t numbers_ = 0;
};

// sums[share * stride] <- of kTilesAtOnce tiles, each a leaf.
void sum_tiles(std::int64_t count, const float* x, int shares, const double* share, double* sums,
               std::int64_t stride) {
  Tile tile;
  std::vector<double> leaves(static_cast<std::size_t>(kTilesAtOnce * (shares + 1)));
  int tiles = 0;
  for (std::int64_t at = 0; at < count; at += kSortedTile, ++tiles) {
    tile.sort(x + at, std::min(kSortedTile, count - at));
    double* leaf = leaves.data() + tiles;
    for (int k = 0; k < shares; ++k, leaf += kTilesAtOnce) *leaf = tile.weighted_quantile(share[k]);
    *leaf = static_cast<double>(tile.numbers());
  }
  for (int k = 0; k <= shares; ++k) sums[k * stride] = sum_as_tree(leaves.data() + k * kTilesAtOnce, tiles);
}

}  // namespace

void CpuDevice::count_keys(std::int64_t count, const float* x, const KeyTree& tree, std::uint64_t* counts) {
  for (std::int64_t at = 0; at < count; at += kCountedApart) {
    count_apart(pool(), std::min(kCountedApart, count - at), x + at, tree, counts);
  }
}

void CpuDevice::sum_tile_quantiles(const TileQuantiles& args) {
  constexpr std::int64_t kAtOnce = kTilesAtOnce * kSortedTile;
  constexpr int kOfPanel = kTilesOfPanel / kTilesAtOnce;
  const std::int64_t items = (args.count + kAtOnce - 1) / kAtOnce, columns = args.shares + 1;
  std::vector<double> of_items(static_cast<std::size_t>((items + kOfPanel) * columns));
  const auto first_of = [&](std::int64_t panel) { return of_items.data() + panel * kOfPanel * columns; };
  pool().for_each(items, [&](std::int64_t item, int) {
    const std::int64_t at = item * kAtOnce;
    sum_tiles(std::min(kAtOnce, args.count - at), args.x + at, args.shares, args.share,
              first_of(item / kOfPanel) + item % kOfPanel, kOfPanel);
  });
  double* sums = args.sums;
  for (std::int64_t panel = 0; panel * kOfPanel < items; ++panel) {
    const std::int64_t here = std::min<std::int64_t>(kOfPanel, items - panel * kOfPanel);
    for (std::int64_t k = 0; k < columns; ++k) *sums++ = sum_as_tree(first_of(panel) + k * kOfPanel, here);
  }
}

}  // namespace lpmm::kernels
