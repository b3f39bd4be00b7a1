// `lpmm sweep`: a grid of runs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "experiments/commands/shipped_configs.h"
#include "experiments/sweep/sweep.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/text.h"

namespace lpmm {
namespace {

struct SweepArguments {
  std::string grid_path;
  SweepGrid grid;
  std::vector<std::string> axes;
  SweepOptions options;
  bool json = false;
};

// "a.b=x,y,z"
SweepAxis parse_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw UsageError(fmt::format("--axis {}: expected section.key=value,value,...", text));
  }
  return {text.substr(0, equals), CLI::detail::split(text.substr(equals + 1), ',')};
}

int run_sweep_command(const SweepArguments& o) {
  SweepGrid grid = o.grid;
  if (!o.grid_path.empty()) {
    grid = load_grid(o.grid_path);
    const auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    add(grid.configs, o.grid.configs);
    add(grid.presets, o.grid.presets);
    add(grid.seeds, o.grid.seeds);
    add(grid.settings, o.grid.settings);
    if (!o.grid.baseline.empty()) grid.baseline = o.grid.baseline;
  }
  for (std::string& config : grid.configs) config = find_config(config);
  for (const std::string& axis : o.axes) grid.axes.push_back(parse_axis(axis));
  const SweepResult result = run_sweep(grid, o.options);
  if (o.json) {
    print_answer(result.answer, true);
  } else {
    fmt::print("{}", sweep_table(result.answer));
  }
  for (const auto& cell : result.answer["cells"]) {
    if (cell["state"] != "failed") continue;
    tell(fmt::format("failed: {}: {}\n", cell["name"].get<std::string>(), cell["error"].get<std::string>()));
  }
  if (result.interrupted) return kInterrupted;
  return result.failed == 0 ? kDone : kRunFailed;
}

}  // namespace

void add_sweep_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<SweepArguments>();
  CLI::App* command = program.add_subcommand(
      "sweep", "Train a grid of configs, presets, settings and seeds and compare them");
  const auto take_list = [](CLI::Option* option) { option->delimiter(',')->take_all(); };
  command->add_option("GRID", o->grid_path, "TOML file of the grid; the options below add to it");
  take_list(command->add_option("--config", o->grid.configs, "configs or their names, separated by commas"));
  take_list(command->add_option("--presets", o->grid.presets, "memory policies (default: the config's)"));
  take_list(command->add_option("--seeds", o->grid.seeds, "seeds (default: the config's)")->check(kUnsigned));
  add_settings_option(*command, o->grid.settings);
  command->add_option("--axis", o->axes, "one more axis: --axis memory.rounding=sr,rn")
      ->type_name("A.B=C,D")
      ->take_all()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--baseline", o->grid.baseline, "preset that gaps are measured against, seed by seed");
  command->add_option("--out", o->options.out, "folder of the sweep, one folder per cell inside")
      ->required()
      ->type_name("DIR");
  command->add_option("--jobs", o->options.jobs, "cells that run at the same time")
      ->check(CLI::Range(1, 1024).description(""))
      ->capture_default_str();
  command->add_option("--threads", o->options.threads, "threads of a cell (default: processors / jobs)")
      ->check(CLI::Range(1, 1024).description(""));
  command->add_flag("--json", o->json, "print groups and cells as one JSON object");
  command->footer(R"(A grid file: configs = ["a.toml"], presets = ["fp32", "lpmm"], seeds = [1, 2, 3], set =
["train.epochs=2"], baseline = "fp32", [axes] "memory.rounding" = ["sr", "rn"]. The baseline is
not crossed with axes of memory. Settings may serve several rules: a cell leaves out what its own
does not take. Stopped or failed sweeps go on with the same command: finished
cells are kept, others resume. Results are also in DIR/sweep.csv and DIR/sweep.json. A gap is
baseline minus cell in points of what the task is scored by (accuracy, F1, ...), cell minus
baseline in loss: more is worse; its
bounds are Student's t over paired seeds (one-sided upper, two-sided low and high, 95 %).
Example:
  lpmm sweep --config resnet8_drawn --presets fp32,lpmm --seeds 1,2,3 --baseline fp32 --out runs/sweep)");
  on_selected(*command, action, o, run_sweep_command);
}

}  // namespace lpmm
