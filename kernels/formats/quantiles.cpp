// Quantiles of a tensor over any device: what the kernels leave is gathered here.
#include "kernels/formats/quantiles.h"

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>

#include "kernels/device.h"
#include "kernels/sums.h"

namespace lpmm {
namespace {

using kernels::kQuantilePanel;

// An array in the device's memory.
template <class T>
class There {
 public:
  There(Device& device, std::size_t count)
      : device_(device),
        bytes_(static_cast<std::int64_t>(count * sizeof(T))),
        memory_(device.allocate(bytes_)) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  There(Device& device, const std::vector<T>& values) : There(device, values.size()) {
    device_.upload(memory_.get(), values.data(), bytes_);
  }
  T* data() const { return reinterpret_cast<T*>(memory_.get()); }
  std::vector<T> values() const {
    std::vector<T> here(static_cast<std::size_t>(bytes_) / sizeof(T));
    device_.download(here.data(), memory_.get(), bytes_);
    return here;
  }

 private:
  Device& device_;
  std::int64_t bytes_;
  DeviceMemory memory_;
};

// Calls visit for pieces of at most kAtOnce values, and sees to it that panels are cut as they must be.
constexpr std::int64_t kAtOnce = 16 * kQuantilePanel;
void for_each_piece(const PanelSource& source, const PanelVisitor& visit) {
  bool is_over = false;
  source([&](const float* x, std::int64_t count) {
    if (is_over) throw std::invalid_argument("quantiles: a panel after one that is not whole");
    is_over = count % kQuantilePanel != 0;
    for (std::int64_t at = 0; at < count; at += kAtOnce) visit(x + at, std::min(kAtOnce, count - at));
  });
}

Quantiles of_tiles(Device& device, const PanelSource& source, std::span<const double> shares) {
  const std::size_t columns = shares.size() + 1;
  const There<double> share(device, std::vector<double>(shares.begin(), shares.end()));
  const There<double> sums(device, columns * (kAtOnce / kQuantilePanel));
  std::vector<std::vector<double>> of_panels(columns);
  for_each_piece(source, [&](const float* x, std::int64_t count) {
    device.sum_tile_quantiles({count, x, static_cast<int>(shares.size()), share.data(), sums.data()});
    const std::vector<double> here = sums.values();
    for (std::size_t i = 0;
         i < columns * static_cast<std::size_t>((count + kQuantilePanel - 1) / kQuantilePanel); ++i) {
      of_panels[i % columns].push_back(here[i]);
    }
  });
  const auto sum = [&](std::vector<double>& s) { return sum_as_tree(s.data(), std::ssize(s)); };
  Quantiles result;
  const double numbers = sum(of_panels.back());
  result.numbers = static_cast<std::int64_t>(numbers);
  for (std::size_t k = 0; k < shares.size(); ++k) {
    result.values.push_back(static_cast<float>(sum(of_panels[k]) / numbers));  // of none: NaN
  }
  return result;
}

// A rank, and what is known of the key of its number.
struct Wanted {
  std::int64_t rank, rest;  // rest: the rank among those that share what is known
  std::uint32_t key = 0;
  std::size_t node = 0, bin = 0;  // of the last count
};

// Finds each rank's bin. They are in ascending order, so that those of one node are neighbours.
void find_bins(std::vector<Wanted>& wanted, const std::vector<std::uint64_t>& counts, int bits) {
  std::size_t node = 0, digit = 0;
  std::int64_t before = 0;
  for (Wanted& w : wanted) {
    if (w.node != node) {
      node = w.node;
      digit = 0;
      before = 0;
    }
    const std::uint64_t* of_node = counts.data() + (node << bits);
    while (before + static_cast<std::int64_t>(of_node[digit]) <= w.rest) {
      before += static_cast<std::int64_t>(of_node[digit++]);
    }
    w.rest -= before;
    w.bin = (node << bits) + digit;
    w.key = w.key << bits | static_cast<std::uint32_t>(digit);
  }
}
// Gives each bin that holds a rank a node. Returns their number.
std::int64_t make_nodes(std::vector<Wanted>& wanted, std::vector<std::uint16_t>& nodes) {
  std::size_t made = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (i == 0 || wanted[i].bin != wanted[i - 1].bin)
      nodes[wanted[i].bin] = static_cast<std::uint16_t>(made++);
    wanted[i].node = made - 1;
  }
  return static_cast<std::int64_t>(made);
}

std::vector<std::uint64_t> count_all(Device& device, const PanelSource& source, const KeyTree& tree) {
  const There<std::uint64_t> counts(device, static_cast<std::size_t>(bins_of(tree)));
  for_each_piece(
      source, [&](const float* x, std::int64_t count) { device.count_keys(count, x, tree, counts.data()); });
  return counts.values();
}

std::vector<Wanted> wanted_ranks(std::span<const double> shares, std::int64_t numbers) {
  std::vector<std::int64_t> ranks;
  for (const double share : shares) {
    const RankOfShare rank = rank_of_share(share, numbers);
    ranks.push_back(rank.lower);
    if (rank.fraction > 0) ranks.push_back(rank.lower + 1);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::vector<Wanted> wanted;
  for (const std::int64_t rank : ranks) wanted.push_back({rank, rank});
  return wanted;
}

// The last 16 bits of the keys, 8 in each pass.
void find_last_bits(Device& device, const PanelSource& source, std::vector<Wanted>& wanted) {
  constexpr int kBits = 8;
  std::vector<std::uint16_t> first(KeyTree::kTops, KeyTree::kNoNode);
  KeyTree tree{.level = 1, .nodes = make_nodes(wanted, first)};
  const There<std::uint16_t> first_there(device, first);
  tree.first = first_there.data();
  find_bins(wanted, count_all(device, source, tree), kBits);

  std::vector<std::uint16_t> second(static_cast<std::size_t>(bins_of(tree)), KeyTree::kNoNode);
  const std::int64_t nodes = make_nodes(wanted, second);
  const There<std::uint16_t> second_there(device, second);
  tree = {.level = 2, .first = tree.first, .second = second_there.data(), .nodes = nodes};
  find_bins(wanted, count_all(device, source, tree), kBits);
}

// Returns the key of the bf16 that a bucket's values become when cut: the nearest to 0.
std::uint32_t cut_key(std::uint32_t top) {
  return (top & 0x8000U) != 0 ? top << 16 : top << 16 | 0xFFFFU;
}

Quantiles of_counts(Device& device, const PanelSource& source, std::span<const double> shares,
                    bool is_exact) {
  const std::vector<std::uint64_t> tops = count_all(device, source, {});
  Quantiles result;
  for (std::size_t top = 0; top < (kNanKey >> 16); ++top)
    result.numbers += static_cast<std::int64_t>(tops[top]);
  if (result.numbers == 0) {
    result.values.assign(shares.size(), std::numeric_limits<float>::quiet_NaN());
    return result;
  }
  std::vector<Wanted> wanted = wanted_ranks(shares, result.numbers);
  find_bins(wanted, tops, 16);
  if (is_exact) find_last_bits(device, source, wanted);
  const auto number_at = [&](std::int64_t rank) {
    const auto at = std::lower_bound(wanted.begin(), wanted.end(), rank,
                                     [](const Wanted& w, std::int64_t r) { return w.rank < r; });
    return static_cast<double>(value_of_key(is_exact ? at->key : cut_key(at->key)));
  };
  for (const double share : shares) {
    const RankOfShare rank = rank_of_share(share, result.numbers);
    const double lower = number_at(rank.lower);
    const double upper = rank.fraction > 0 ? number_at(rank.lower + 1) : lower;
    result.values.push_back(static_cast<float>(between(lower, upper, rank.fraction)));
  }
  return result;
}

constexpr const char* kNone = "quantiles: this device has no kernels for them; compute them on its host()";

}  // namespace

void kernels::QuantileKernels::count_keys(std::int64_t /*count*/, const float* /*x*/, const KeyTree& /*tree*/,
                                          std::uint64_t* /*counts*/) {
  throw std::invalid_argument(kNone);
}
void kernels::QuantileKernels::sum_tile_quantiles(const TileQuantiles& /*args*/) {
  throw std::invalid_argument(kNone);
}

Quantiles quantiles(Device& device, const PanelSource& source, std::span<const double> shares,
                    QuantileMethod method) {
  if (shares.size() > kMostShares) throw std::invalid_argument("quantiles: too many shares");
  for (const double share : shares) {
    if (!(share >= 0 && share <= 1)) throw std::invalid_argument("quantiles: a share is not within 0 and 1");
  }
  if (shares.empty()) return {};
  if (method == QuantileMethod::kTiles) return of_tiles(device, source, shares);
  return of_counts(device, source, shares, method == QuantileMethod::kExact);
}

Quantiles quantiles(Device& device, const float* x, std::int64_t count, std::span<const double> shares,
                    QuantileMethod method) {
  return quantiles(
      device, [&](const PanelVisitor& visit) { visit(x, count); }, shares, method);
}

}  // namespace lpmm
