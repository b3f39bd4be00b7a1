#include "experiments/bench/quantiles.h"

#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>

#include "experiments/bench/ceilings.h"
#include "kernels/formats/quantiles.h"
#include "lpmm/memory/device_memory.h"
#include "theory/draws.h"

namespace lpmm {
namespace {

constexpr int kTries = 3;

std::vector<double> shares_of_levels() {
  std::vector<double> shares;
  for (int i = 0; i < 256; ++i) shares.push_back((1 + 2.0 * i) / 512);
  return shares;
}

// Seconds by the clock, and those of all threads together.
struct Seconds {
  double wall = std::numeric_limits<double>::infinity(), processors = wall;
  void take_better(const Seconds& other) {
    wall = std::min(wall, other.wall);
    processors = std::min(processors, other.processors);
  }
};
template <class Body>
Seconds time_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t processors = std::clock();
  body();
  const auto used = static_cast<double>(std::clock() - processors) / CLOCKS_PER_SEC;
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), used};
}

// Distance from the wanted rank to those of `value`. A value between two numbers has the ranks between them.
double rank_distance(const float* sorted, std::int64_t count, double share, float value) {
  const RankOfShare wanted = rank_of_share(share, count);
  const double rank = static_cast<double>(wanted.lower) + wanted.fraction;
  const auto below = static_cast<double>(std::lower_bound(sorted, sorted + count, value) - sorted);
  const auto up_to = static_cast<double>(std::upper_bound(sorted, sorted + count, value) - sorted);
  return std::max({0.0, below - 1 - rank, rank - up_to});
}

class QuantileBench {
 public:
  QuantileBench(std::int64_t most, Device& device)
      : device_(device),
        values_(benchmark_memory(device.host(), 4 * most)),
        sorted_(benchmark_memory(device.host(), 4 * most)),
        room_(benchmark_memory(device, std::max<std::int64_t>(1, room_on(device, 4 * most)))) {
    theory::fill_normal({1, 0, 0, static_cast<std::uint32_t>(Stream::kTest)},
                        {values(), static_cast<std::size_t>(most)});
  }

  std::vector<QuantileBenchRow> measure(std::int64_t count) {
    rows_.clear();
    const double sort = measure_sort("std::sort", count, 1, [&](float* x) { std::sort(x, x + count); });
    const hwy::Sorter sorter;
    measure_sort("vqsort", count, kTries,
                 [&](float* x) { sorter(x, static_cast<std::size_t>(count), hwy::SortAscending()); });
    const float* there = on_device(device_, values(), count, room_.get());
    measure_quantiles("tiles", count, there, QuantileMethod::kTiles);
    measure_quantiles("histogram", count, there, QuantileMethod::kHistogram);
    measure_quantiles("histogram, exact", count, there, QuantileMethod::kExact);
    for (QuantileBenchRow& row : rows_) row.speed_against_sort = sort / row.nanoseconds_per_value;
    return rows_;
  }

 private:
  float* values() const { return reinterpret_cast<float*>(values_.get()); }
  float* sorted() const { return reinterpret_cast<float*>(sorted_.get()); }
  void add_row(std::string_view method, std::int64_t count, const Seconds& best, double rank_error) {
    const double nano = 1e9 / static_cast<double>(count);
    rows_.push_back({method, count, nano * best.wall, nano * best.processors, 0, rank_error});
  }

  // The sorted values stay, for the rank errors of the others.
  template <class Sort>
  double measure_sort(std::string_view method, std::int64_t count, int repetitions, const Sort& sort) {
    Seconds best;
    for (int i = 0; i < repetitions; ++i) {
      std::copy_n(values(), count, sorted());
      best.take_better(time_of([&] { sort(sorted()); }));
    }
    add_row(method, count, best, 0);
    return rows_.back().nanoseconds_per_value;
  }
  void measure_quantiles(std::string_view name, std::int64_t count, const float* there,
                         QuantileMethod method) {
    const std::vector<double> shares = shares_of_levels();
    Quantiles found;
    Seconds best;
    device_.synchronize();
    for (int i = 0; i < kTries; ++i) {
      best.take_better(time_of([&] { found = quantiles(device_, there, count, shares, method); }));
    }
    double error = 0;
    for (std::size_t k = 0; k < shares.size(); ++k) {
      error = std::max(error, rank_distance(sorted(), count, shares[k], found.values[k]));
    }
    add_row(name, count, best, error / static_cast<double>(count));
  }

  Device& device_;
  DeviceMemory values_, sorted_, room_;
  std::vector<QuantileBenchRow> rows_;
};

}  // namespace

std::vector<QuantileBenchRow> bench_quantiles(std::int64_t smallest, std::int64_t largest, Device& device,
                                              const ProgressCall& progress) {
  QuantileBench bench(largest, device);
  std::vector<QuantileBenchRow> rows;
  for (std::int64_t count = smallest; count <= largest; count *= 4) {
    if (progress) progress(count, largest);
    const std::vector<QuantileBenchRow> here = bench.measure(count);
    rows.insert(rows.end(), here.begin(), here.end());
  }
  return rows;
}

}  // namespace lpmm
