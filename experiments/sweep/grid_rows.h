// The results of a grid: one row for all seeds of a cell, with its fields and its numbers.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/sweep/cells.h"
#include "experiments/sweep/grid_file.h"
#include "lpmm/run/log.h"

namespace lpmm {

struct Interval {
  double mean = 0, low = 0, high = 0;  // two-sided 95 % bounds, or the mean where there are none
  bool has_bounds = false;             // two seeds or more, or independent of the seed
  std::vector<double> seeds = {};      // the values whose mean it is
};

enum class Verdict { kMet, kNotMet, kUndecided };
// Decides whether the true mean lies within [low, high]: it does if all of its 95 % interval does, and it
// does not if none of it does. Otherwise these seeds do not decide it; one seed never does.
Verdict verdict(const Interval& value, double low, double high);

// Cells that differ in their seed only.
struct GridRow {
  std::string group;
  Fields fields;
  std::map<std::string, Interval> values;
  std::vector<std::filesystem::path> folders;
};
// The value of a row that its task is judged by, whatever it is.
inline const std::string kScore = "score";
using GridRows = std::vector<const GridRow*>;

// One row per group, without values yet. All have the same fields.
std::vector<GridRow> rows_of(const SweepGrid& grid, const std::vector<SweepCell>& cells);

// Fills in the values of an answer of run_sweep, and of the logs below `out`.
void fill(std::vector<GridRow>& rows, const std::vector<SweepCell>& cells, const Json& answer,
          const std::filesystem::path& out);

// The fields in which rows differ, and every value that some row has.
std::string csv_of(std::span<const GridRow> rows);

bool more_is_better(const std::string& value);
// GridRows with these fields, before they have values.
GridRows with_fields(std::span<const GridRow> rows, const Fields& only);
// GridRows that have the selection's fields and its value, and of those the best.
GridRows select(std::span<const GridRow> rows, const Selection& selection);
// "sr, 8" of rows that have these values of the fields, in the order of the first of them.
std::vector<std::pair<std::string, GridRows>> split(const GridRows& rows,
                                                    const std::vector<std::string>& fields);

}  // namespace lpmm
