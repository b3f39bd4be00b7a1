// Declarations shared by the parts of `lpmm ablate`. Each part measures its cells on all threads, and writes
// a table and charts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/ablation/ablation.h"
#include "experiments/plots/chart.h"
#include "kernels/cpu.h"

namespace lpmm {

inline constexpr int kBits[] = {4, 6, 8, 10, 12};
const char* colour_of(int bits);

// The part as command lines name it, and what measures it.
struct AblationPart {
  const char* name;
  void (*run)(const AblationOptions& options);
};
void run_quadratic_floors(const AblationOptions& options);
void run_momentum_floors(const AblationOptions& options);
void run_logistic_floors(const AblationOptions& options);
void run_step_constants(const AblationOptions& options);
void run_variance_steps(const AblationOptions& options);
void run_quantiles(const AblationOptions& options);
void run_update_errors(const AblationOptions& options);
void run_lion_signs(const AblationOptions& options);

// Tells the user.
void say_of_part(const std::string& text);

// measure(cell, a device of one thread) of every cell, on all threads. `what` says what they are.
template <class Cell, class Measure>
void measure_all(const AblationOptions& options, std::vector<Cell>& cells, const std::string& what,
                 const Measure& measure) {
  say_of_part(std::to_string(cells.size()) + " " + what);
  Pool pool(options.threads);
  pool.for_each(static_cast<std::int64_t>(cells.size()), [&](std::int64_t item, int) {
    CpuDevice one(1);
    measure(cells[static_cast<std::size_t>(item)], one);
  });
}

// Adds a point at the format's bits to the line of its map, in the chart with this one's title; both are made
// where there are none.
void add_format_point(std::vector<Chart>& charts, const Chart& empty, Format format, double y);

// Leaves NAME.csv and the charts NAME.
void write_part(const AblationOptions& options, const std::string& name, const std::string& csv,
                std::vector<Chart> charts);

}  // namespace lpmm
