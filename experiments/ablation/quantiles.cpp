// Code books of quantiles against formats: errors of normal values, and Adam's updates with such a variance.
#include <fmt/format.h>

#include <cmath>

#include "experiments/ablation/part.h"
#include "experiments/plots/csv.h"
#include "experiments/quantiles/code_book.h"
#include "experiments/quantiles/error_sums.h"
#include "lpmm/memory/spec.h"
#include "theory/draws.h"

namespace lpmm {
namespace {

constexpr std::int64_t kWhole = 0;  // a block that is the tensor
constexpr int kBins = 45;           // bins of |x|, a tenth of a deviation each

using Values = std::vector<float>;

struct Book {
  const char* name;
  MakeLevels make;
  std::int64_t block = kWhole;
  bool is_relative = true;  // to the block's step; else levels are values as they are
};

Levels of_format(const char* name) {
  return levels_of(parse_spec(name).format);
}
MakeLevels map_of(const char* name) {
  return [name](Device&, const PanelSource&) { return of_format(name); };
}
MakeLevels raw(double offset) {
  return [offset](Device& device, const PanelSource& x) { return raw_quantile_levels(device, x, offset); };
}
MakeLevels quantile(bool is_signed) {
  return
      [is_signed](Device& device, const PanelSource& x) { return quantile_levels(device, x, 8, is_signed); };
}

// Returns x as it reads back after it was stored.
Values stored(const Book& book, const Values& x, Device& device) {
  if (book.is_relative) {
    return stored_by_levels(x, book.block == kWhole ? std::ssize(x) : book.block, book.make, device);
  }
  const Levels levels = book.make(device, [&](const PanelVisitor& visit) { visit(x.data(), std::ssize(x)); });
  Values after;
  for (const float value : x) after.push_back(levels[nearest_level(levels, value)]);
  return after;
}

// ---- normal values ---------------------------------------------------------------------------------------
struct ErrorCell {
  Book book;
  ErrorSums sums = {};
  std::vector<ErrorSums> of_bins = std::vector<ErrorSums>(kBins);
};
// raw: quantiles from an offset to 1 - offset as they are. bnb map: bitsandbytes'.
std::vector<ErrorCell> error_cells() {
  const std::vector<Book> books = {{"raw, 1/512", raw(kRawOffset), kWhole, false},
                                   {"raw, 0.02", raw(0.02), kWhole, false},
                                   {"raw, 0", raw(0), kWhole, false},
                                   {"bnb map", bitsandbytes_levels},
                                   {"bnb map", bitsandbytes_levels, 2048},
                                   {"quantile8", quantile(true), 2048},
                                   {"de8", map_of("de8")},
                                   {"de8", map_of("de8"), 2048},
                                   {"de8", map_of("de8"), 256},
                                   {"int8", map_of("int8"), 2048},
                                   {"soft8", map_of("soft8"), 2048}};
  std::vector<ErrorCell> cells;
  for (const Book& book : books) cells.push_back({.book = book});
  return cells;
}
void measure_errors(ErrorCell& cell, const Values& x, Device& device) {
  const Values after = stored(cell.book, x, device);
  cell.sums.tail = kTailDeviations;
  for (std::size_t i = 0; i < x.size(); ++i) {
    cell.sums.add(x[i], after[i]);
    const auto bin = static_cast<std::size_t>(10 * std::abs(x[i]));
    if (bin < kBins) cell.of_bins[bin].add(x[i], after[i]);
  }
}

// ---- Adam's updates --------------------------------------------------------------------------------------
// States after kSteps steps of gradients s N(0, 1), ln s being 1.5 N(0, 1) about that of 1e-3.
constexpr int kSteps = 10;
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
struct AdamStates {
  Values momentum, variance;
};
AdamStates make_states(std::int64_t count) {
  const auto normal = [&](std::uint32_t step) {
    Values values(static_cast<std::size_t>(count));
    theory::fill_normal({1, 1, step, static_cast<std::uint32_t>(Stream::kTest)}, values);
    return values;
  };
  const Values scale = normal(0);
  AdamStates states{Values(scale.size()), Values(scale.size())};
  for (std::uint32_t step = 1; step <= kSteps; ++step) {
    const Values noise = normal(step);
    for (std::size_t i = 0; i < scale.size(); ++i) {
      const double gradient = 1e-3 * std::exp(1.5 * scale[i]) * noise[i];
      states.momentum[i] = static_cast<float>(kBeta1 * states.momentum[i] + (1 - kBeta1) * gradient);
      states.variance[i] =
          static_cast<float>(kBeta2 * states.variance[i] + (1 - kBeta2) * gradient * gradient);
    }
  }
  return states;
}
double update(double momentum, double variance) {
  const double m = momentum / (1 - std::pow(kBeta1, kSteps)), v = variance / (1 - std::pow(kBeta2, kSteps));
  return m / (std::sqrt(v) + kEpsilon);
}

struct UpdateCell {
  Book book;
  double off_by_one = 0, zeros = 0, mean_change = 0;  // the last in mean updates
};
std::vector<UpdateCell> update_cells() {
  const auto linear = [](Device&, const PanelSource&) {
    Levels levels;
    for (int code = 0; code < 256; ++code) levels.push_back(static_cast<float>(code) / 255);
    return levels;
  };
  const std::vector<Book> books = {{"linear with 0", linear, 2048},
                                   {"ude8", map_of("ude8"), 2048},
                                   {"bnb map, with 0", bitsandbytes_levels, 2048},
                                   {"uquantile8", quantile(false), 2048},
                                   {"lin08", map_of("lin08"), 2048},
                                   {"sqrt08", map_of("sqrt08"), 2048},
                                   {"de08", map_of("de08"), 2048}};
  std::vector<UpdateCell> cells;
  for (const Book& book : books) cells.push_back({.book = book});
  return cells;
}
void measure_updates(UpdateCell& cell, const AdamStates& states, Device& device) {
  const Values after = stored(cell.book, states.variance, device);
  double change = 0, all = 0;
  std::int64_t off = 0, zeros = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double exact = update(states.momentum[i], states.variance[i]);
    const double error = std::abs(update(states.momentum[i], after[i]) - exact);
    off += error > 1 ? 1 : 0;
    zeros += after[i] == 0.0F ? 1 : 0;
    change += error;
    all += std::abs(exact);
  }
  const auto count = static_cast<double>(after.size());
  cell.off_by_one = static_cast<double>(off) / count;
  cell.zeros = static_cast<double>(zeros) / count;
  cell.mean_change = change / all;
}

// ---- what is left ----------------------------------------------------------------------------------------
std::string block_of(const Book& book) {
  return !book.is_relative ? "none" : book.block == kWhole ? "tensor" : fmt::format("{}", book.block);
}
Chart errors_by_magnitude(const std::vector<ErrorCell>& cells) {
  Chart chart = {"errors of N(0, 1), 8 bits", "|x|", "mean error", "set logscale y", {}};
  for (const ErrorCell& cell : cells) {
    const bool is_first = &cell == cells.data();  // the best cell of those without blocks
    if (!is_first && cell.book.block != 2048) continue;
    const char* colour = kRunColours[chart.series.size() % std::size(kRunColours)];
    ChartSeries series = {cell.book.name, fmt::format("lines lc '{}'", colour), {}};
    double middle = 0.05;
    for (const ErrorSums& bin : cell.of_bins) {
      if (bin.count > 0) series.points.emplace_back(middle, bin.mean());
      middle += 0.1;
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

}  // namespace

void run_quantiles(const AblationOptions& options) {
  Values normal(options.quick ? 1 << 16 : 1 << 20);
  theory::fill_normal({1, 0, 0, static_cast<std::uint32_t>(Stream::kTest)}, normal);
  const AdamStates states = make_states(options.quick ? 1 << 14 : 1 << 18);
  std::vector<ErrorCell> errors = error_cells();
  measure_all(options, errors, "code books of normal values",
              [&](ErrorCell& cell, Device& one) { measure_errors(cell, normal, one); });
  std::vector<UpdateCell> updates = update_cells();
  measure_all(options, updates, "code books of Adam's variance",
              [&](UpdateCell& cell, Device& one) { measure_updates(cell, states, one); });
  std::string csv = csv_line("values", "book", "block", "mean_error", "tail_error", "largest_error", "zeros",
                             "updates_off_by_1", "mean_update_error");
  const auto number = [](double x) { return fmt::format("{:.4g}", x); };
  for (const ErrorCell& c : errors) {
    csv += csv_line("normal", c.book.name, block_of(c.book), number(c.sums.mean()),
                    number(c.sums.tail_mean()), number(c.sums.largest),
                    number(static_cast<double>(c.sums.zeroed) / static_cast<double>(normal.size())), "", "");
  }
  for (const UpdateCell& c : updates) {
    csv += csv_line("variance", c.book.name, block_of(c.book), "", "", "", number(c.zeros),
                    number(c.off_by_one), number(c.mean_change));
  }
  write_part(options, "quantiles", csv, {errors_by_magnitude(errors)});
}

}  // namespace lpmm
