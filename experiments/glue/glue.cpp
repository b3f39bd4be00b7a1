#include "experiments/glue/glue.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "experiments/plots/chart.h"
#include "experiments/plots/markdown.h"
#include "experiments/plots/records.h"
#include "experiments/sweep/grid_charts.h"
#include "experiments/sweep/grid_rows.h"
#include "experiments/sweep/statistics.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/text.h"
#include "lpmm/data/scores.h"
#include "lpmm/files/files.h"
#include "lpmm/files/json.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kBaseline = "fp32";
constexpr const char* kPyTorch = "PyTorch";
constexpr std::uint64_t kLongestFile = std::uint64_t{1} << 26;

// The result of one preset, or of PyTorch, in a task; numbers as they are printed.
struct Result {
  std::string task, scored_by, preset;
  std::int64_t seeds = 0;
  double score = 0;
  std::optional<double> deviation, gap, gap_upper, gap_low, gap_high, bits, speed;
};

// Means over the seeds of a task, of what a line of a file or a summary says.
std::optional<double> mean_over(const std::vector<const Json*>& seeds, const char* key) {
  std::vector<double> values;
  for (const Json* one : seeds) {
    if (const auto value = number_in(*one, key)) values.push_back(*value);
  }
  return values.empty() ? std::nullopt : std::optional(mean_of(values).mean);
}

// The groups of a sweep of one task that have ended.
void read_sweep(const fs::path& file, const std::string& task, std::vector<Result>& results) {
  const Json answer = read_json(file.string(), kLongestFile);
  for (const Json& group : answer.at("groups")) {
    const Json& score = object_in(group, "score");
    const auto mean = number_in(score, "mean");
    if (!mean) continue;
    std::vector<const Json*> summaries;
    for (const Json& cell : answer.at("cells")) {
      if (cell.at("group") == group.at("group") && cell.contains("summary")) {
        summaries.push_back(&cell.at("summary"));
      }
    }
    const Json& gap = object_in(score, "gap");
    results.push_back({.task = task,
                       .scored_by = text_in(group, "scored_by"),
                       .preset = text_in(group, "preset"),
                       .seeds = std::ssize(summaries),
                       .score = *mean,
                       .deviation = number_in(score, "deviation"),
                       .gap = number_in(gap, "mean"),
                       .gap_upper = number_in(gap, "upper_95"),
                       .gap_low = number_in(gap, "low_95"),
                       .gap_high = number_in(gap, "high_95"),
                       .bits = number_in(group, "bits_per_parameter"),
                       .speed = mean_over(summaries, "sentences_per_second")});
  }
}

// Returns PyTorch's result in a task, scored as our results of it are.
std::optional<Result> read_pytorch(const std::vector<Json>& lines, const Result& ours) {
  const ScoreKind kind = score_kind(ours.scored_by);
  std::vector<const Json*> seeds;
  std::vector<double> scores;
  for (const Json& line : lines) {
    const auto score = number_in(object_in(line, "scores"), ours.scored_by);
    if (text_in(line, "task") != ours.task || !score) continue;
    seeds.push_back(&line);
    scores.push_back(kind.scale * *score);
  }
  if (scores.empty()) return {};
  const Mean mean = mean_of(scores);
  Result out = ours;
  out.preset = kPyTorch;
  out.seeds = mean.count;
  out.deviation = out.gap = out.gap_upper = out.gap_low = out.gap_high = out.bits = {};
  out.score = mean.mean;
  if (mean.count > 1) out.deviation = mean.deviation;
  out.speed = mean_over(seeds, "sentences_per_second");
  return out;
}

std::vector<Json> read_lines(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw RunError(fmt::format("{}: cannot be opened", path));
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    try {
      lines.push_back(parse_json(line));
    } catch (const std::exception& e) {
      throw RunError(fmt::format("{}: line {}: {}", path, lines.size() + 1, error_text(e)));
    }
    if (!lines.back().is_object()) {
      throw RunError(fmt::format("{}: line {} is no result", path, lines.size()));
    }
  }
  return lines;
}

// The results of every task that has ended, in order of their names, PyTorch's after our own.
std::vector<Result> read_results(const GlueExperiment& o) {
  std::vector<fs::path> parts;
  for (const auto& entry : fs::directory_iterator(o.grid.folder)) {
    if (entry.path().extension() == ".toml") parts.push_back(entry.path());
  }
  std::sort(parts.begin(), parts.end());
  const std::string beside = (fs::path(o.grid.out) / "pytorch.jsonl").string();
  std::vector<Json> lines;
  if (!o.pytorch.empty() || fs::exists(beside)) lines = read_lines(o.pytorch.empty() ? beside : o.pytorch);
  std::vector<Result> results;
  for (const fs::path& part : parts) {
    const std::string task = part.stem().string();
    const fs::path sweep = fs::path(o.grid.out) / task / "sweep.json";
    const std::size_t before = results.size();
    if (fs::exists(sweep)) read_sweep(sweep, task, results);
    if (results.size() == before) continue;
    if (auto theirs = read_pytorch(lines, results.back())) results.push_back(std::move(*theirs));
  }
  return results;
}

std::string text_of(const std::optional<double>& value, int digits = 2) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "";
}

std::string table_of(const std::vector<Result>& results) {
  std::vector<std::vector<std::string>> rows = {{"task", "scored by", "memory", "seeds", "score", "±",
                                                 "below fp32", "at most (95 %)", "bits", "sentences/s"}};
  for (const Result& r : results) {
    rows.push_back({r.task, std::string(score_kind(r.scored_by).title), r.preset, std::to_string(r.seeds),
                    text_of(r.score), text_of(r.deviation), text_of(r.gap), text_of(r.gap_upper),
                    text_of(r.bits), text_of(r.speed, 0)});
  }
  return markdown_table(rows);
}

std::string csv_of(const std::vector<Result>& results) {
  std::string out =
      "task,scored_by,memory,seeds,score,deviation,below_fp32,upper_95,low_95,high_95,bits,"
      "sentences_per_second\n";
  for (const Result& r : results) {
    out += fmt::format("{},{},{},{},{:.6f}", r.task, r.scored_by, r.preset, r.seeds, r.score);
    for (const auto& value : {r.deviation, r.gap, r.gap_upper, r.gap_low, r.gap_high, r.bits, r.speed}) {
      out += "," + text_of(value, 6);
    }
    out += '\n';
  }
  return out;
}

// Turns results into rows of a grid, from which charts are drawn.
std::vector<GridRow> rows_of(const std::vector<Result>& results) {
  std::vector<GridRow> rows;
  for (const Result& r : results) {
    GridRow row{r.task + "__" + r.preset, {{"task", r.task}, {"preset", r.preset}}, {}, {}};
    const double spread = r.deviation.value_or(0);
    row.values[kScore] = {r.score, r.score - spread, r.score + spread};
    if (r.gap) {
      row.values[kScore + "_gap"] = {*r.gap, r.gap_low.value_or(*r.gap), r.gap_high.value_or(*r.gap)};
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Marks of one task side by side: no line leads from a task to the next.
void place_beside(Chart& chart) {
  constexpr double kApart = 0.12;
  double last = 0, shift = kApart * (1 - static_cast<double>(chart.series.size())) / 2;
  for (ChartSeries& series : chart.series) {
    series.style.replace(0, series.style.find(' '), "yerrorbars");
    for (auto& point : series.points) {
      last = std::max(last, point.first);
      point.first += shift;
    }
    shift += kApart;
  }
  chart.scales += fmt::format("set xrange [-0.5:{}]\n", last + 0.5);
}

void draw(const std::vector<Result>& results, const std::string& prefix, bool svg) {
  const std::vector<GridRow> rows = rows_of(results);
  std::vector<Chart> charts;
  for (const auto& [y, title] : {std::pair(kScore, "score, and what seeds differ by"),
                                 {kScore + "_gap", "points below fp32, and 95 % bounds"}}) {
    ChartRequest request;
    request.rows.y = y;
    request.title = title;
    request.x = "task";
    request.lines = {"preset"};
    for (Chart& chart : charts_of(rows, request, kBaseline)) {
      if (chart.series.empty()) continue;
      place_beside(chart);
      charts.push_back(std::move(chart));
    }
  }
  draw_picture({std::move(charts)}, prefix, svg);
}

}  // namespace

int run_glue_experiment(const GlueExperiment& given) {
  GlueExperiment o = given;
  o.grid.settings.push_back(fmt::format("train.init={}", fs::absolute(o.init).lexically_normal().string()));
  int code = run_grid_experiment(o.grid);
  const std::vector<Result> results = read_results(o);
  if (results.empty()) return code;
  const std::string prefix = (fs::path(o.grid.out) / "glue").string(), table = table_of(results);
  write_text(prefix + ".md", table);
  write_text(prefix + ".csv", csv_of(results));
  fmt::print("{}", table);
  try {
    draw(results, prefix, o.grid.svg);
  } catch (const RunError& e) {  // gnuplot may be missing
    tell(fmt::format("glue: {}\n", e.what()));
    code = std::max<int>(code, kRunFailed);
  }
  return code;
}

}  // namespace lpmm
