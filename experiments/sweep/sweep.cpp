#include "experiments/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <span>

#include "experiments/plots/csv.h"
#include "experiments/plots/records.h"
#include "experiments/sweep/statistics.h"
#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/files/locked_file.h"
#include "lpmm/program/family.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

Json mean_json(const Mean& mean, double scale = 1) {
  if (mean.count == 0) return nullptr;
  return {{"mean", scale * mean.mean}, {"deviation", mean.count > 1 ? Json(scale * mean.deviation) : Json()}};
}

Json gap_json(const std::vector<double>& gaps) {
  const Mean mean = mean_of(gaps);
  if (mean.count == 0) return nullptr;
  Json out = {{"pairs", mean.count}, {"mean", mean.mean}};
  if (mean.count > 1) {
    const MeanBounds bounds = bounds_95(mean);
    out.update({{"upper_95", bounds.upper}, {"low_95", bounds.low}, {"high_95", bounds.high}});
  }
  return out;
}

// Finished cells of each group by seed.
using BySeed = std::map<std::uint64_t, const Json*>;

// Empty where one of them has no number: a mean without the seed that diverged would flatter.
std::vector<double> values_of(const BySeed& cells, const char* key) {
  std::vector<double> out;
  for (const auto& [seed, summary] : cells) {
    const auto value = number_in(*summary, key);
    if (!value) return {};
    out.push_back(*value);
  }
  return out;
}

// scale * (value - baseline value) of the seeds that both have; empty as above.
std::vector<double> paired(const BySeed& cells, const BySeed& baseline, const char* key, double scale) {
  std::vector<double> out;
  for (const auto& [seed, summary] : cells) {
    const auto other = baseline.find(seed);
    if (other == baseline.end()) continue;
    const auto a = number_in(*summary, key), b = number_in(*other->second, key);
    if (!a || !b) return {};
    out.push_back(scale * (*a - *b));
  }
  return out;
}

Json answer_json(const std::vector<SweepCell>& cells, const CellResults& results) {
  std::vector<const SweepCell*> order;  // one cell per group
  std::map<std::string, BySeed> groups;
  Json answer = {{"groups", Json::array()}, {"cells", Json::array()}};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const SweepCell& cell = cells[i];
    if (!groups.contains(cell.group)) order.push_back(&cell);
    BySeed& by_seed = groups[cell.group];
    const std::optional<Json>& summary = results.summaries[i];
    if (summary) by_seed[cell.config.train.seed] = &*summary;
    Json row = {{"name", cell.name}, {"group", cell.group}, {"seed", cell.config.train.seed}};
    row["state"] = summary ? "finished" : results.errors[i].empty() ? "not run" : "failed";
    if (!results.errors[i].empty()) row["error"] = results.errors[i];
    if (summary) row["summary"] = *summary;
    answer["cells"].push_back(std::move(row));
  }
  for (const SweepCell* cell : order) {
    const BySeed& group = groups[cell->group];
    Json row = {{"group", cell->group},
                {"preset", cell->config.policy.preset},
                {"seeds", group.size()},
                {"accuracy_percent", mean_json(mean_of(values_of(group, "test_accuracy")), 100)},
                {"final_loss", mean_json(mean_of(values_of(group, "final_loss")))},
                {"test_loss", mean_json(mean_of(values_of(group, "test_loss")))}};
    row["reads_text"] = reads_tokens(cell->config.model);
    const std::vector<double> bits = values_of(group, "bits_per_parameter");
    row["bits_per_parameter"] = bits.empty() ? Json() : Json(bits.front());
    if (!cell->baseline.empty() && cell->baseline != cell->group) {
      const BySeed& baseline = groups[cell->baseline];
      row["baseline"] = cell->baseline;
      row["accuracy_gap_points"] = gap_json(paired(group, baseline, "test_accuracy", -100));
      row["loss_gap"] = gap_json(paired(group, baseline, "final_loss", 1));
      row["test_loss_gap"] = gap_json(paired(group, baseline, "test_loss", 1));
    }
    answer["groups"].push_back(std::move(row));
  }
  return answer;
}

std::string number(const Json& parent, const char* key, const char* inner, int digits) {
  const auto it = parent.find(key);
  if (it == parent.end() || it->is_null()) return "";
  const Json& v = inner == nullptr ? *it : it->value(inner, Json());
  return v.is_number() ? fmt::format("{:.{}f}", v.get<double>(), digits) : "";
}

struct Column {
  const char *title, *csv, *key, *inner;
  int digits;
};
constexpr Column kImageColumns[] = {
    {"accuracy %", "accuracy_percent", "accuracy_percent", "mean", 2},
    {"+-", "accuracy_deviation", "accuracy_percent", "deviation", 2},
    {"loss", "final_loss", "final_loss", "mean", 4},
    {"bits", "bits_per_parameter", "bits_per_parameter", nullptr, 2},
    {"gap", "gap_points", "accuracy_gap_points", "mean", 2},
    {"upper 95%", "gap_upper_95", "accuracy_gap_points", "upper_95", 2},
    {"low", "gap_low_95", "accuracy_gap_points", "low_95", 2},
    {"high", "gap_high_95", "accuracy_gap_points", "high_95", 2},
    {"loss gap", "loss_gap", "loss_gap", "mean", 4},
    {"upper 95%", "loss_gap_upper_95", "loss_gap", "upper_95", 4},
};
constexpr Column kTextColumns[] = {
    {"valid. loss", "validation_loss", "test_loss", "mean", 4},
    {"+-", "validation_loss_deviation", "test_loss", "deviation", 4},
    {"loss", "final_loss", "final_loss", "mean", 4},
    {"bits", "bits_per_parameter", "bits_per_parameter", nullptr, 2},
    {"gap", "gap", "test_loss_gap", "mean", 4},
    {"upper 95%", "gap_upper_95", "test_loss_gap", "upper_95", 4},
    {"low", "gap_low_95", "test_loss_gap", "low_95", 4},
    {"high", "gap_high_95", "test_loss_gap", "high_95", 4},
};

// Language models are compared by their validation loss, others by their accuracy.
std::span<const Column> columns_of(const Json& answer) {
  const Json& groups = answer["groups"];
  const bool text = !groups.empty() && std::all_of(groups.begin(), groups.end(),
                                                   [](const Json& g) { return g["reads_text"] == true; });
  return text ? std::span<const Column>(kTextColumns) : kImageColumns;
}

std::string sweep_csv(const Json& answer) {
  const auto columns = columns_of(answer);
  std::string out = "group,seeds";
  for (const Column& c : columns) out += fmt::format(",{}", c.csv);
  for (const Json& row : answer["groups"]) {
    out +=
        fmt::format("\n{},{}", csv_field(row["group"].get<std::string>()), row["seeds"].get<std::int64_t>());
    for (const Column& c : columns) out += "," + number(row, c.key, c.inner, c.digits + 4);
  }
  return out + "\n";
}

}  // namespace

SweepResult run_sweep(const SweepGrid& grid, const SweepOptions& given) {
  const std::vector<SweepCell> cells = sweep_cells(grid);
  if (given.out.empty()) throw UsageError("a sweep needs a folder (--out)");
  SweepOptions options = given;
  if (options.threads == 0) options.threads = std::max(1, Pool::usable_processors() / options.jobs);
  const FolderLock lock(options.out, "another sweep");  // before anything is started
  remove_leftovers(options.out);
  const CellResults results = run_cells(cells, options);
  SweepResult result;
  result.interrupted = results.interrupted;
  result.answer = answer_json(cells, results);
  for (const std::string& error : results.errors) result.failed += error.empty() ? 0 : 1;
  write_text((fs::path(options.out) / "sweep.json").string(),
             result.answer.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  write_text((fs::path(options.out) / "sweep.csv").string(), sweep_csv(result.answer));
  return result;
}

std::string sweep_table(const Json& answer) {
  std::size_t width = 5;
  for (const Json& row : answer["groups"]) {
    width = std::max(width, row["group"].get_ref<const std::string&>().size());
  }
  std::string out = fmt::format("{:<{}} {:>5}", "group", width, "seeds");
  const auto columns = columns_of(answer);
  for (const Column& c : columns) out += fmt::format(" {:>11}", c.title);
  for (const Json& row : answer["groups"]) {
    out += fmt::format("\n{:<{}} {:>5}", row["group"].get<std::string>(), width,
                       row["seeds"].get<std::int64_t>());
    for (const Column& c : columns) out += fmt::format(" {:>11}", number(row, c.key, c.inner, c.digits));
  }
  return out + "\n";
}

}  // namespace lpmm
