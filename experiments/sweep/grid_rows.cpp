#include "experiments/sweep/grid_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "experiments/plots/csv.h"
#include "experiments/plots/records.h"
#include "experiments/sweep/statistics.h"
#include "lpmm/data/scores.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/spec.h"
#include "lpmm/run/run_folder.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

Fields fields_of(const SweepGrid& grid, const SweepCell& cell) {
  const RunConfig& c = cell.config;
  Fields out = {{"preset", c.policy.preset},
                {"optimizer.learning_rate", fmt::format("{:g}", peak_rate(c.optimizer))},
                {"train.batch", std::to_string(c.train.batch)},
                {"train.microbatches", std::to_string(c.train.microbatches)},
                {"memory.error_feedback", c.policy.error_feedback ? "feedback" : ""}};
  for (const Role r : kEveryElementRole) {
    const Spec& spec = c.policy.specs[r];
    const std::string role = "memory." + std::string(to_string(r));
    if (r == Role::kAccumulator && (c.policy.accumulate_in_momentum || c.policy.apply_at_once)) {
      out[role] = out[role + ".format"] = c.policy.apply_at_once ? kNoAccumulator : kInMomentum;
      out[role + ".bits"] = "0";
      for (const char* part : {".block", ".rounding", ".steps"}) out[role + part] = "";
      continue;
    }
    if (is_state(r) && !uses(c.optimizer, r)) {  // the preset's spec of it means nothing
      for (const char* part : {"", ".bits", ".format", ".block", ".rounding", ".steps"})
        out[role + part] = "";
      continue;
    }
    const bool is_none = r == Role::kCompensation && !has_compensation(c.policy.specs);
    out[role] = to_string(r, spec);
    out[role + ".bits"] = std::to_string(is_none ? 0 : spec.format.bits);
    out[role + ".format"] = is_none ? kNoCompensation : to_string(spec.format);
    out[role + ".block"] = !is_packed(spec.format) ? ""
                           : has_blocks(spec)      ? std::to_string(spec.block)
                                                   : scaling_name(spec);
    out[role + ".rounding"] = is_packed(spec.format) ? std::string(to_string(spec.rounding)) : "";
    out[role + ".steps"] = !is_packed(spec.format)               ? ""
                           : spec.step_mode == StepMode::kSticky ? "sticky"
                                                                 : "moving";
  }
  // Adds the other keys that the grid varies, as they were written.
  for (const std::string& setting : cell.settings) {
    const std::size_t equals = setting.find('=');
    const std::string key = setting.substr(0, equals);
    const bool varies = std::any_of(grid.axes.begin(), grid.axes.end(), [&](const SweepAxis& axis) {
      const std::vector<std::string> keys = keys_of(axis);
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    });
    if (varies) out.try_emplace(key, setting.substr(equals + 1));
  }
  return out;
}

Interval number_of(std::span<const double> values) {
  const Mean mean = mean_of(values);
  Interval out{mean.mean, mean.mean, mean.mean, mean.count > 1, {values.begin(), values.end()}};
  if (out.has_bounds) {
    const MeanBounds bounds = bounds_95(mean);
    out.low = bounds.low;
    out.high = bounds.high;
  }
  return out;
}

// Returns how much worse a row is than its baseline, seed by seed; empty if one of them lacks a seed.
std::vector<double> gaps_of(const GridRow& row, const GridRow* baseline, const std::string& value) {
  if (baseline == nullptr || !row.values.contains(value) || !baseline->values.contains(value)) return {};
  std::vector<double> gaps = row.values.at(value).seeds;
  const std::vector<double>& others = baseline->values.at(value).seeds;
  if (gaps.size() != others.size()) return {};
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    gaps[i] = more_is_better(value) ? others[i] - gaps[i] : gaps[i] - others[i];
  }
  return gaps;
}

// The mean over the run of what its log says of a role's changes.
void add_changes(const fs::path& folder, std::map<std::string, std::vector<double>>& values) {
  std::map<std::string, std::vector<double>> errors;
  for (const Scalar& s : scalars_of(read_log(RunFolder(folder.string()).log.string()))) {
    const std::size_t slash = s.tag.find('/');
    const std::string kind = s.tag.substr(0, slash);
    if (kind != "relative_error" && kind != "update_to_step") continue;
    errors[kind + "." + s.tag.substr(slash + 1)].push_back(s.value);
  }
  for (const auto& [key, all] : errors) values[key].push_back(mean_of(all).mean);
}

}  // namespace

Verdict verdict(const Interval& value, double low, double high) {
  if (!value.has_bounds) return Verdict::kUndecided;
  if (value.low >= low && value.high <= high) return Verdict::kMet;
  return value.high < low || value.low > high ? Verdict::kNotMet : Verdict::kUndecided;
}

std::vector<GridRow> rows_of(const SweepGrid& grid, const std::vector<SweepCell>& cells) {
  std::vector<GridRow> rows;
  std::set<std::string> keys;
  for (const SweepCell& cell : cells) {
    if (std::any_of(rows.begin(), rows.end(), [&](const GridRow& row) { return row.group == cell.group; }))
      continue;
    rows.push_back({cell.group, fields_of(grid, cell), {}, {}});
    for (const auto& [key, value] : rows.back().fields) keys.insert(key);
  }
  for (GridRow& row : rows) {
    for (const std::string& key : keys) row.fields.try_emplace(key);
  }
  return rows;
}

void fill(std::vector<GridRow>& rows, const std::vector<SweepCell>& cells, const Json& answer,
          const fs::path& out) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < rows.size(); ++i) places[rows[i].group] = i;
  std::vector<std::map<std::string, std::vector<double>>> values(rows.size()), changes(rows.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Json& cell = answer["cells"][i];
    if (!cell.contains("summary")) continue;
    const std::size_t place = places.at(cells[i].group);
    const Json& summary = cell["summary"];
    const auto add = [&](const std::string& key, const std::optional<double>& value, double scale = 1) {
      if (value) values[place][key].push_back(scale * *value);
    };
    for (const char* key : {"bits_per_parameter", "final_loss", "test_loss"})
      add(key, number_in(summary, key));
    for (const NamedScore& score : scores_in(summary)) {
      add(score.name, score.value, score_kind(score.name).scale);
      if (score.name == scores_in(summary)[0].name) add(kScore, score.value, score_kind(score.name).scale);
    }
    for (const Role r : kEveryElementRole) {
      const std::string role(to_string(r));
      add("underflow." + role, number_in(object_in(summary, "underflow"), role));
    }
    rows[place].folders.push_back(out / cells[i].name);
    add_changes(rows[place].folders.back(), changes[place]);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [key, all] : changes[i]) rows[i].values[key] = number_of(all);
    for (const auto& [key, all] : values[i]) {
      // A seed that diverged leaves no mean, as in the table of the sweep.
      if (all.size() == rows[i].folders.size()) rows[i].values[key] = number_of(all);
    }
    const auto bits = rows[i].values.find("bits_per_parameter");
    if (bits != rows[i].values.end()) bits->second.has_bounds = true;  // counted, whatever the seed
  }
  std::map<std::string, const GridRow*> baselines;
  for (const SweepCell& cell : cells) {
    const auto place = places.find(cell.baseline);
    baselines[cell.group] = place == places.end() ? nullptr : &rows[place->second];
  }
  for (const Json& group : answer["groups"]) {
    const auto place = places.find(group["group"].get<std::string>());
    if (place == places.end()) continue;
    GridRow& row = rows[place->second];
    const auto add_gap = [&](const std::string& key, const Json& gap, const std::string& value) {
      const auto mean = number_in(gap, "mean"), low = number_in(gap, "low_95"),
                 high = number_in(gap, "high_95");
      if (!mean) return;
      row.values[key] = {*mean, low.value_or(*mean), high.value_or(*mean), low && high,
                         gaps_of(row, baselines[row.group], value)};
    };
    add_gap("loss_gap", object_in(group, "loss_gap"), "final_loss");
    add_gap("test_loss_gap", object_in(group, "test_loss_gap"), "test_loss");
    for (const auto& [name, score] : group["scores"].items()) {
      add_gap(name + "_gap", object_in(score, "gap"), name);
    }
    add_gap(kScore + "_gap", object_in(object_in(group, kScore), "gap"), kScore);
  }
}
std::string csv_of(std::span<const GridRow> rows) {
  std::set<std::string> fields, values;
  for (const GridRow& row : rows) {
    for (const auto& [key, value] : row.fields) {
      if (value != rows[0].fields.at(key) || key == "preset") fields.insert(key);
    }
    for (const auto& [key, value] : row.values) values.insert(key);
  }
  std::string out = "group,seeds";
  for (const std::string& key : fields) out += "," + csv_field(key);
  for (const std::string& key : values) out += fmt::format(",{0},{0}_low_95,{0}_high_95", key);
  for (const GridRow& row : rows) {
    out += fmt::format("\n{},{}", csv_field(row.group), row.folders.size());
    for (const std::string& key : fields) out += "," + csv_field(row.fields.at(key));
    for (const std::string& key : values) {
      const auto at = row.values.find(key);
      out += at == row.values.end()
                 ? ",,,"
                 : fmt::format(",{:.6g},{:.6g},{:.6g}", at->second.mean, at->second.low, at->second.high);
    }
  }
  return out + "\n";
}
bool more_is_better(const std::string& value) {
  if (value == kScore) return true;
  const auto has_name = [&](const ScoreKind& kind) { return kind.name == value && kind.more_is_better; };
  return std::any_of(std::begin(kScores), std::end(kScores), has_name);
}

GridRows with_fields(std::span<const GridRow> rows, const Fields& only) {
  GridRows out;
  for (const GridRow& row : rows) {
    if (std::all_of(only.begin(), only.end(),
                    [&](const auto& f) { return row.fields.at(f.first) == f.second; })) {
      out.push_back(&row);
    }
  }
  return out;
}

GridRows select(std::span<const GridRow> rows, const Selection& selection) {
  GridRows out = with_fields(rows, selection.only);
  std::erase_if(out, [&](const GridRow* row) { return !row->values.contains(selection.y); });
  if (selection.best.empty()) return out;
  const double sign = more_is_better(selection.y) ? -1 : 1;
  std::map<Fields, const GridRow*> best;
  for (const GridRow* row : out) {
    Fields rest = row->fields;
    rest.erase(selection.best);
    const GridRow*& kept = best[rest];
    const auto score = [&](const GridRow& r) { return sign * r.values.at(selection.y).mean; };
    if (kept == nullptr || score(*row) < score(*kept)) kept = row;
  }
  std::erase_if(out, [&](const GridRow* row) {
    return std::none_of(best.begin(), best.end(), [&](const auto& b) { return b.second == row; });
  });
  return out;
}

std::vector<std::pair<std::string, GridRows>> split(const GridRows& rows,
                                                    const std::vector<std::string>& fields) {
  std::vector<std::pair<std::string, GridRows>> out;
  for (const GridRow* row : rows) {
    std::string title;
    for (const std::string& field : fields) {
      const std::string& value = row->fields.at(field);
      if (!value.empty()) title += (title.empty() ? "" : ", ") + value;
    }
    auto at = std::find_if(out.begin(), out.end(), [&](const auto& part) { return part.first == title; });
    if (at == out.end()) at = out.insert(out.end(), {title, {}});
    at->second.push_back(row);
  }
  return out;
}

}  // namespace lpmm
