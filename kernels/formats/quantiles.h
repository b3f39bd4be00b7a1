// Quantiles of fp32 values: exact ones by counting, and an estimate from sorted tiles.
//
// Rank. Among m numbers in ascending order, x[0] to x[m-1], the quantile of share p in [0, 1] lies at rank
// h = p (m + 1/3) - 2/3, kept within 0 and m - 1, between two numbers on the line between them (definition 8
// of Hyndman and Fan, 1996). Where one of the two is infinite, it is the nearer one, the lower at a tie. NaN
// are counted by nobody: m is the number of the other values. -0 comes before 0.
//
// All of it gives the same bits for any number of threads, any instruction set, on every device, and however
// values are cut into panels.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/formats/codec.h"
#include "kernels/macros.h"

namespace lpmm {

class Device;

// ---- the definition -------------------------------------------------------------------------------------
// Keys are ordered as values are; all NaN have the largest.
inline constexpr std::uint32_t kNanKey = 0xFFFFFFFFU;
LPMM_HD std::uint32_t order_key(float x) {
  const std::uint32_t bits = float_bits(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return kNanKey;
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
LPMM_HD float value_of_key(std::uint32_t key) {
  return bits_float((key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key);
}

// Rounded once each, on every device.
LPMM_HD double product_then_sum(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return __dadd_rn(__dmul_rn(a, b), c);
#else
  return a * b + c;
#endif
}

// Between the numbers of ranks `lower` and lower + 1; `fraction` is 0 where the second is not asked for.
struct RankOfShare {
  std::int64_t lower = 0;
  double fraction = 0;
};
LPMM_HD RankOfShare rank_of_share(double share, std::int64_t numbers) {
  const double wanted = product_then_sum(share, static_cast<double>(numbers) + 1.0 / 3.0, -2.0 / 3.0);
  const auto last = static_cast<double>(numbers - 1);
  const double rank = wanted < 0.0 ? 0.0 : wanted > last ? last : wanted;
  const double lower = floor(rank);
  return {static_cast<std::int64_t>(lower), rank - lower};
}
LPMM_HD double between(double lower, double upper, double fraction) {
  const double way = upper - lower;
  if (fraction == 0.0 || way == 0.0) return lower;
  if (way <= 0x1p200) return product_then_sum(fraction, way, lower);
  return fraction > 0.5 ? upper : lower;  // one is infinite, or both are alike
}

// ---- what a device does ---------------------------------------------------------------------------------
// Selects the values that a count includes, and their bins. Level 0: all, by the 16 upper bits of their keys.
// Level 1: those whose 16 bits have a node in `first`, by node and the next 8 bits. Level 2: those that have
// a node in `second` besides, by that node and the last 8. kNoNode: not counted.
struct KeyTree {
  static constexpr std::uint16_t kNoNode = 0xFFFF;
  static constexpr std::int64_t kTops = 1 << 16, kDigits = 1 << 8;

  int level = 0;
  const std::uint16_t* first = nullptr;   // [kTops]
  const std::uint16_t* second = nullptr;  // [nodes of the first * kDigits]
  std::int64_t nodes = 1;                 // of the last level used; 1 at level 0
};
LPMM_HD std::int64_t bins_of(const KeyTree& tree) {
  return tree.level == 0 ? KeyTree::kTops : tree.nodes * KeyTree::kDigits;
}
// Negative: not counted.
LPMM_HD std::int64_t bin_of(const KeyTree& tree, std::uint32_t key) {
  if (tree.level == 0) return key >> 16;
  std::uint16_t node = tree.first[key >> 16];
  if (node == KeyTree::kNoNode) return -1;
  std::int64_t bin = node * KeyTree::kDigits + (key >> 8 & 0xFFU);
  if (tree.level == 1) return bin;
  node = tree.second[bin];
  return node == KeyTree::kNoNode ? -1 : node * KeyTree::kDigits + (key & 0xFFU);
}

namespace kernels {

inline constexpr std::int64_t kSortedTile = 4096;
// Tiles whose quantiles are added up as one: 2^20 values.
inline constexpr int kTilesOfPanel = 256;
inline constexpr std::int64_t kQuantilePanel = kSortedTile * kTilesOfPanel;

// Tiles of kSortedTile of x[0, count), of which the last may hold fewer, in panels of kTilesOfPanel. For each
// panel, sums[shares + 1] <- over its tiles the sum of m times the quantile of share[0], share[1], ..., and
// that of m, where m is the number of the tile's numbers; in fp64, as a binary tree over the places of tiles.
struct TileQuantiles {
  std::int64_t count = 0;
  const float* x = nullptr;
  int shares = 0;
  const double* share = nullptr;
  double* sums = nullptr;
};

// A device may leave these out: no training asks for them. They then throw std::invalid_argument.
class QuantileKernels {
 public:
  // counts[bin] += the number of x[0, count) whose key has that bin.
  virtual void count_keys(std::int64_t count, const float* x, const KeyTree& tree, std::uint64_t* counts);
  virtual void sum_tile_quantiles(const TileQuantiles& args);

 protected:
  QuantileKernels() = default;
  ~QuantileKernels() = default;
};

}  // namespace kernels

// ---- quantiles of a tensor ------------------------------------------------------------------------------
enum class QuantileMethod : std::uint8_t {
  kTiles,      // one pass: the mean of the quantiles of tiles, weighted by their numbers
  kHistogram,  // one pass: between numbers that are cut to bf16, towards 0: off by less than one unit of bf16
  kExact       // three passes
};

// Hands over all values, in order and in the device's memory, panel by panel: all panels but the last have a
// multiple of kernels::kQuantilePanel values. It is asked once for each pass.
using PanelVisitor = std::function<void(const float* x, std::int64_t count)>;
using PanelSource = std::function<void(const PanelVisitor& visit)>;

struct Quantiles {
  std::vector<float> values;  // of each share; NaN where there is no number
  std::int64_t numbers = 0;   // that are not NaN
};
inline constexpr std::size_t kMostShares = 4096;

// An estimate by tiles is infinite where one tile's quantile is, and NaN where tiles have infinities of both
// signs there. For no more than one tile it is exact. Memory: 1 MB of the device, and 1.5 kB a share for the
// exact ones. Throws std::invalid_argument for shares outside [0, 1], more than kMostShares of them, or
// panels that are cut elsewhere; std::bad_alloc where the device has no memory.
Quantiles quantiles(Device& device, const PanelSource& source, std::span<const double> shares,
                    QuantileMethod method);
// The same for values that lie in the device's memory as a whole.
Quantiles quantiles(Device& device, const float* x, std::int64_t count, std::span<const double> shares,
                    QuantileMethod method);

}  // namespace lpmm
