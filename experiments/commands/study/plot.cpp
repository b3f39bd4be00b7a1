// `lpmm plot`: pictures and a table of runs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "experiments/commands/arguments.h"
#include "experiments/plots/chart.h"
#include "experiments/plots/csv.h"
#include "experiments/plots/figures.h"
#include "experiments/plots/plot.h"
#include "experiments/plots/records.h"
#include "experiments/plots/tensorboard.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

constexpr std::string_view kScriptEnd = ".gp";
constexpr std::string_view kCsvHead = "run,tag,step,seconds,value\n";

struct PlotArguments {
  RunArguments runs;
  std::string out, tensorboard, csv;
  bool svg = false, table = false, overwrite = false, json = false;
};

// Everything that is to be shown of the logs, gathered before any file is written.
struct Output {
  std::vector<PlotRun> runs;
  std::string csv{kCsvHead};
  std::map<std::string, std::string> events;  // file, content
};

Output read(const PlotArguments& o) {
  Output out;
  std::set<std::string> labels;
  for (const NamedRun& named : o.runs.named()) {
    const std::vector<Json> records = read_log(log_path(named.path));
    out.runs.push_back(plot_run(named, records));
    const std::string& label = out.runs.back().label;
    if (!labels.insert(label).second && !o.csv.empty()) {
      throw UsageError(
          fmt::format("two runs would be {} in {}; give each a --label of its own", label, o.csv));
    }
    if (!o.csv.empty()) {
      for (const Scalar& s : scalars_of(records))
        out.csv += csv_line(label, s.tag, s.step, s.seconds, s.value);
    }
    if (o.tensorboard.empty()) continue;
    const auto file = std::filesystem::path(o.tensorboard) / file_name(label) / "events.out.tfevents.lpmm";
    if (!out.events.emplace(file.string(), tensorboard_events(records)).second) {
      throw UsageError(fmt::format("two runs would be {}; give each a --label of its own", file.string()));
    }
  }
  return out;
}

bool is_script(const std::string& path) {
  return path.ends_with(kScriptEnd);
}

// Pictures beside their scripts.
int draw_again(const PlotArguments& o) {
  if (!std::all_of(o.runs.paths.begin(), o.runs.paths.end(), is_script) || !o.runs.labels.empty() ||
      !o.out.empty() || !o.csv.empty() || !o.tensorboard.empty() || o.table) {
    throw UsageError(
        "plot: a script NAME.gp is drawn again as it is, into NAME.png; of options it takes --svg");
  }
  Json answer;
  for (const std::string& path : o.runs.paths) {
    constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 28;
    const std::string prefix = path.substr(0, path.size() - kScriptEnd.size());
    remove_leftovers(std::filesystem::path(path).parent_path().string());
    const std::string script = read_text(path, kMostBytes);
    check_script(script, path);
    draw_script(script, prefix, o.svg);
    answer["png"].push_back(prefix + ".png");
    if (o.svg) answer["svg"].push_back(prefix + ".svg");
  }
  print_answer(answer, o.json);
  return kDone;
}

int run_plot(const PlotArguments& o) {
  if (std::any_of(o.runs.paths.begin(), o.runs.paths.end(), is_script)) return draw_again(o);
  if (o.out.empty() && o.tensorboard.empty() && o.csv.empty() && !o.table)
    throw UsageError("plot: nothing asked for; name pictures (--out), --csv, --tensorboard or --table");
  if (!o.csv.empty()) {
    o.runs.keep_from(o.csv);
    check_overwrite(o.csv, o.overwrite, kCsvHead);
  }
  const auto& [runs, csv, events] = read(o);
  Json answer;
  if (o.table) {
    const std::string table = results_table(runs);
    if (o.json) {
      answer["table"] = table;
    } else {
      fmt::print("{}", table);
    }
  }
  if (!o.out.empty()) {
    draw_runs(runs, o.out, o.svg);
    answer["png"] = o.out + ".png";
    if (o.svg) answer["svg"] = o.out + ".svg";
    answer["gnuplot"] = o.out + ".gp";
  }
  if (!o.csv.empty()) {
    remove_leftovers(std::filesystem::path(o.csv).parent_path().string());
    write_text(o.csv, csv);
    answer["csv"] = o.csv;
  }
  for (const auto& [file, content] : events) {
    const std::string folder = std::filesystem::path(file).parent_path().string();
    make_folder(folder);
    remove_leftovers(folder);
    write_text(file, content);
    answer["tensorboard"].push_back(file);
  }
  if (o.json || !answer.empty()) print_answer(answer, o.json);
  return kDone;
}

}  // namespace

void add_plot_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<PlotArguments>();
  CLI::App* command = program.add_subcommand("plot", "Draw runs, or put them side by side in a table");
  add_run_arguments(*command, o->runs);
  command->add_option("--out", o->out, "draws PREFIX.png with gnuplot, and leaves its script PREFIX.gp")
      ->type_name("PREFIX");
  add_svg_option(*command, o->svg);
  command->add_option("--csv", o->csv, "writes every scalar of the logs: run, tag, step, seconds, value")
      ->check(kOutput)
      ->type_name("FILE");
  command->add_option("--tensorboard", o->tensorboard, "writes each run's scalars as event files below DIR")
      ->type_name("DIR");
  add_overwrite_option(*command, o->overwrite);
  command->add_flag("--table", o->table, "prints a Markdown table, one column per run");
  command->add_flag("--json", o->json, "print one JSON object: png, svg, gnuplot, csv, tensorboard, table");
  command->footer(
      R"(Pictures: training loss, test loss, what the task is scored by (accuracy, F1, ...) and the underflow
shares by role over steps. Table: bits per parameter, model memory by role, loss, scores, underflow,
planned and measured memory. `tensorboard --logdir DIR` shows event files. A script PREFIX.gp in place
of runs is drawn again, where all its lines are of the kinds that lpmm writes.
Examples:
  lpmm plot runs/fp32 runs/sr --label fp32 --label "lpmm, sr" --out plots/both --table
  lpmm plot runs/fp32 runs/sr --tensorboard events
  lpmm plot plots/both.gp --svg)");
  on_selected(*command, action, o, run_plot);
}

}  // namespace lpmm
