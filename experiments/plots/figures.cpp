#include "experiments/plots/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/plots/markdown.h"
#include "experiments/plots/records.h"
#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/data/scores.h"
#include "lpmm/memory/spec.h"
#include "lpmm/run/plan.h"

namespace lpmm {
namespace {

// Behind it the name of a score.
const std::string kScored = "/scores/";

}  // namespace

std::vector<Figure> figures(std::span<const Json> summaries) {
  constexpr auto mebibytes = [](double v) { return fmt::format("{:.1f} MiB", v / (1 << 20)); };
  constexpr auto percent = [](double v) { return fmt::format("{:.2f} %", 100 * v); };
  constexpr auto nats = [](double v) { return fmt::format("{:.4f}", v); };
  constexpr auto whole = [](double v) { return fmt::format("{:.0f}", v); };
  std::vector<Figure> all = {
      {"bits per parameter", "/bits_per_parameter", [](double v) { return fmt::format("{:.2f}", v); }}};
  const auto add_memory = [&](const std::string& part) {
    all.push_back({part + ", bytes", "/model_memory_bytes/" + part, with_commas, true, true});
  };
  for (const std::string& part : memory_parts()) add_memory(part);
  add_memory("total");
  all.push_back({"final training loss", "/final_loss", nats});
  all.push_back({"test loss", "/test_loss", nats});
  for (const std::string& name : score_names(summaries)) {
    all.push_back({fmt::format("test {}", score_kind(name).title), kScored + name, [name](double v) {
                     return fmt::format("{:.2f}{}", score_kind(name).scale * v, score_kind(name).unit);
                   }});
  }
  for (const Role r : kEveryElementRole) {
    const std::string role(to_string(r));
    all.push_back({"underflow, " + role, "/underflow/" + role, percent});
  }
  all.push_back({"images per second", "/images_per_second", whole});
  all.push_back({"tokens per second", "/tokens_per_second", whole});
  all.push_back({"peak memory, planned", "/plan_peak_bytes", mebibytes, false, true});
  all.push_back({"peak memory, measured", "/peak_rss_bytes", mebibytes, false, true});
  return all;
}

std::optional<double> value_of(const Figure& figure, const Json& summary) {
  if (figure.path.starts_with(kScored)) return score_in(summary, figure.path.substr(kScored.size()));
  const std::size_t cut = figure.path.rfind('/');
  const std::string key = figure.path.substr(cut + 1);
  return number_in(cut == 0 ? summary : object_in(summary, figure.path.substr(1, cut - 1)), key);
}

std::string with_commas(double number) {
  const auto n = std::llround(std::clamp(number, -9e18, 9e18));
  std::string out = std::to_string(n);
  for (std::ptrdiff_t at = std::ssize(out) - 3; at > (n < 0 ? 1 : 0); at -= 3) {
    out.insert(static_cast<std::size_t>(at), ",");
  }
  return out;
}

std::string results_table(std::span<const PlotRun> runs) {
  std::vector<std::vector<std::string>> rows = {{""}};
  std::vector<Json> summaries;
  for (const PlotRun& run : runs) {
    if (run.summary.empty()) {
      throw RunError(fmt::format("{}: has not ended, so there is no summary for the table", run.label));
    }
    std::string label = printable(run.label);
    std::replace_if(
        label.begin(), label.end(), [](char c) { return c == '|' || c == '\n'; }, ' ');
    rows[0].push_back(label);
    summaries.push_back(Json::parse(run.summary));
    const Json& last = summaries.back();
    if (last.value("interrupted", Json()) == true) {
      throw RunError(fmt::format("{}: was cut short ({}); go on with it (--resume) before it is compared",
                                 run.label, last.contains("error") ? last["error"].dump() : "interrupted"));
    }
  }
  for (const Figure& figure : figures(summaries)) {
    std::vector<std::string> row = {figure.title};
    bool any = false;
    for (const Json& summary : summaries) {
      const auto value = value_of(figure, summary);
      row.push_back(value ? figure.text(*value) : "-");
      any = any || (value && *value != 0);
    }
    if (any) rows.push_back(std::move(row));
  }
  return markdown_table(rows);
}

}  // namespace lpmm
