#include "experiments/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "experiments/plots/csv.h"
#include "experiments/plots/records.h"
#include "experiments/sweep/statistics.h"
#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/data/scores.h"
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

// A number of a summary.
using Number = std::function<std::optional<double>(const Json& summary)>;
Number named(const char* key) {
  return [key](const Json& summary) { return number_in(summary, key); };
}

// Empty where one of them has no number: a mean without the seed that diverged would flatter.
std::vector<double> values_of(const BySeed& cells, const Number& number) {
  std::vector<double> out;
  for (const auto& [seed, summary] : cells) {
    const auto value = number(*summary);
    if (!value) return {};
    out.push_back(*value);
  }
  return out;
}

// scale * (value - baseline value) of the seeds that both have; empty as above.
std::vector<double> paired(const BySeed& cells, const BySeed& baseline, const Number& number, double scale) {
  std::vector<double> out;
  for (const auto& [seed, summary] : cells) {
    const auto other = baseline.find(seed);
    if (other == baseline.end()) continue;
    const auto a = number(*summary), b = number(*other->second);
    if (!a || !b) return {};
    out.push_back(scale * (*a - *b));
  }
  return out;
}

// Returns the scores of a group of cells, as they are printed; `baseline` is null if there is none.
Json scores_json(const BySeed& group, const BySeed* baseline) {
  Json out = Json::object();
  if (group.empty()) return out;
  for (const NamedScore& score : scores_in(*group.begin()->second)) {
    const ScoreKind kind = score_kind(score.name);
    const Number number = [&](const Json& summary) { return score_in(summary, score.name); };
    const std::vector<double> values = values_of(group, number);
    Json& row = out[score.name] = values.empty() ? Json::object() : mean_json(mean_of(values), kind.scale);
    if (baseline == nullptr) continue;
    row["gap"] = gap_json(paired(group, *baseline, number, kind.scale * (kind.more_is_better ? -1 : 1)));
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
                {"accuracy_percent", mean_json(mean_of(values_of(group, named("test_accuracy"))), 100)},
                {"final_loss", mean_json(mean_of(values_of(group, named("final_loss"))))},
                {"test_loss", mean_json(mean_of(values_of(group, named("test_loss"))))}};
    row["reads_text"] = task_of(cell->config.model).is_judged_by_loss;
    const std::vector<double> bits = values_of(group, named("bits_per_parameter"));
    row["bits_per_parameter"] = bits.empty() ? Json() : Json(bits.front());
    const bool has_baseline = !cell->baseline.empty() && cell->baseline != cell->group;
    if (has_baseline) {
      const BySeed& baseline = groups[cell->baseline];
      row["baseline"] = cell->baseline;
      row["accuracy_gap_points"] = gap_json(paired(group, baseline, named("test_accuracy"), -100));
      row["loss_gap"] = gap_json(paired(group, baseline, named("final_loss"), 1));
      row["test_loss_gap"] = gap_json(paired(group, baseline, named("test_loss"), 1));
    }
    row["scores"] = scores_json(group, has_baseline ? &groups[cell->baseline] : nullptr);
    if (!row["scores"].empty()) {
      row["scored_by"] = row["scores"].begin().key();
      row["score"] = *row["scores"].begin();
    }
    answer["groups"].push_back(std::move(row));
  }
  return answer;
}

// Returns the value at `path` in a group, as text; empty if there is none.
std::string cell_text(const Json& group, const std::string& path, int digits) {
  const Json::json_pointer at(path);
  if (!group.contains(at)) return "";
  const Json& v = group[at];
  if (v.is_string()) return v.get<std::string>();
  return v.is_number() ? fmt::format("{:.{}f}", v.get<double>(), digits) : "";
}

struct Column {
  std::string title, csv, path;
  int digits = 2;
};
const std::vector<Column> kTextColumns = {
    {"valid. loss", "validation_loss", "/test_loss/mean", 4},
    {"+-", "validation_loss_deviation", "/test_loss/deviation", 4},
    {"loss", "final_loss", "/final_loss/mean", 4},
    {"bits", "bits_per_parameter", "/bits_per_parameter"},
    {"gap", "gap", "/test_loss_gap/mean", 4},
    {"upper 95%", "gap_upper_95", "/test_loss_gap/upper_95", 4},
    {"low", "gap_low_95", "/test_loss_gap/low_95", 4},
    {"high", "gap_high_95", "/test_loss_gap/high_95", 4},
};

// The columns for groups that are judged by one score and may have others.
std::vector<Column> score_columns(const std::vector<std::string>& names) {
  std::vector<Column> columns;
  if (names.empty()) {  // each by its own
    columns = {{"scored by", "scored_by", "/scored_by"},
               {"score", "score", "/score/mean"},
               {"+-", "score_deviation", "/score/deviation"}};
  }
  for (const std::string& name : names) {
    const ScoreKind kind = score_kind(name);
    const std::string csv = name + (kind.unit == " %" ? "_percent" : ""), path = "/scores/" + name;
    columns.push_back({fmt::format("{}{}", kind.title, kind.unit), csv, path + "/mean"});
    if (columns.size() == 1) columns.push_back({"+-", name + "_deviation", path + "/deviation"});
  }
  for (Column& column : std::vector<Column>{{"loss", "final_loss", "/final_loss/mean", 4},
                                            {"bits", "bits_per_parameter", "/bits_per_parameter"},
                                            {"gap", "gap_points", "/score/gap/mean"},
                                            {"upper 95%", "gap_upper_95", "/score/gap/upper_95"},
                                            {"low", "gap_low_95", "/score/gap/low_95"},
                                            {"high", "gap_high_95", "/score/gap/high_95"},
                                            {"loss gap", "loss_gap", "/loss_gap/mean", 4},
                                            {"upper 95%", "loss_gap_upper_95", "/loss_gap/upper_95", 4}}) {
    columns.push_back(std::move(column));
  }
  return columns;
}

// Language models are compared by their validation loss, others by what they are scored by.
std::vector<Column> columns_of(const Json& answer) {
  bool is_text = !answer["groups"].empty(), is_one = true;
  std::optional<std::vector<std::string>> names;  // the score names of the first group that has any
  for (const Json& group : answer["groups"]) {
    is_text = is_text && group["reads_text"] == true;
    std::vector<std::string> own;
    for (const auto& [name, value] : group["scores"].items()) own.push_back(name);
    if (own.empty()) continue;
    if (!names) names = own;
    is_one = is_one && own == *names;
  }
  if (is_text) return kTextColumns;
  return score_columns(!is_one ? std::vector<std::string>()
                               : names.value_or(std::vector<std::string>{"accuracy"}));
}

std::string sweep_csv(const Json& answer) {
  const auto columns = columns_of(answer);
  std::string out = "group,seeds";
  for (const Column& c : columns) out += fmt::format(",{}", c.csv);
  for (const Json& row : answer["groups"]) {
    out +=
        fmt::format("\n{},{}", csv_field(row["group"].get<std::string>()), row["seeds"].get<std::int64_t>());
    for (const Column& c : columns) out += "," + csv_field(cell_text(row, c.path, c.digits + 4));
  }
  return out + "\n";
}

}  // namespace

SweepResult run_sweep(const SweepGrid& grid, const SweepOptions& given) {
  if (given.out.empty()) throw UsageError("a sweep needs a folder (--out)");
  return run_sweep(sweep_cells(grid, given.out, given.only_finished), given);
}

SweepResult run_sweep(const std::vector<SweepCell>& cells, const SweepOptions& given) {
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
    for (const Column& c : columns) out += fmt::format(" {:>11}", cell_text(row, c.path, c.digits));
  }
  return out + "\n";
}

}  // namespace lpmm
