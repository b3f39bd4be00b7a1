#include "experiments/sweep/cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "experiments/pack/packed_data.h"
#include "experiments/sweep/runner.h"
#include "lpmm/base/error.h"
#include "lpmm/base/progress.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/spec.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/log.h"
#include "lpmm/run/records.h"
#include "lpmm/run/run_folder.h"
#include "lpmm/run/setup.h"
#include "models/families.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

using Choice = std::vector<std::pair<std::string, std::string>>;  // key, value of every axis

void choices(const std::vector<SweepAxis>& axes, std::size_t axis, Choice& choice, std::vector<Choice>& out) {
  if (axis == axes.size()) {
    out.push_back(choice);
    return;
  }
  for (const std::string& value : axes[axis].values) {
    choice.emplace_back(axes[axis].key, value);
    choices(axes, axis + 1, choice, out);
    choice.pop_back();
  }
}

Choice without_memory(const Choice& choice) {
  Choice out;
  for (const auto& c : choice) {
    if (!c.first.starts_with("memory.")) out.push_back(c);
  }
  return out;
}

constexpr std::size_t kLongestName = 255;  // the limit of a folder's name

std::string group_name(const std::string& config, const std::string& preset, const Choice& choice) {
  std::string name = fs::path(config).stem().string();
  if (!preset.empty()) name += "__" + preset;
  for (const auto& [key, value] : choice) name += fmt::format("__{}={}", key, value);
  return file_name(name);
}

// Checks that the baseline can be told from other cells, and that no key is varied twice.
void check_axes(const SweepGrid& grid) {
  for (const SweepAxis& axis : grid.axes) {
    const std::vector<std::string> keys = keys_of(axis);
    const auto of_memory = std::count_if(keys.begin(), keys.end(),
                                         [](const std::string& key) { return key.starts_with("memory."); });
    if (!grid.baseline.empty() && of_memory > 0 && of_memory < std::ssize(keys)) {
      throw UsageError(
          fmt::format("the axis {} joins a key of memory with others: the baseline {} is crossed with "
                      "those alone; make them two axes",
                      axis.key, grid.baseline));
    }
  }
  std::set<std::string> varied;
  for (const SweepAxis& axis : grid.axes) {
    for (const std::string& key : keys_of(axis)) {
      if (!varied.insert(key).second) throw UsageError(fmt::format("two axes change {}", key));
      if (key == "train.seed") {
        throw UsageError("train.seed is no axis: give the seeds as seeds (--seeds, or seeds = [...])");
      }
    }
  }
}

// Before any is made.
void check_count(const SweepGrid& grid) {
  constexpr std::size_t kMostCells = 10000;
  std::size_t cells = 1;
  const auto multiply = [&](std::size_t values) {
    if (values > 1) cells = cells > kMostCells / values ? kMostCells + 1 : cells * values;
  };
  for (const std::size_t values : {grid.configs.size(), grid.presets.size(), grid.seeds.size()})
    multiply(values);
  for (const SweepAxis& axis : grid.axes) multiply(axis.values.size());
  if (cells <= kMostCells) return;
  throw UsageError(fmt::format(
      "the grid has more than {} trainings; give its axes fewer values, or sweep in parts", kMostCells));
}

// Returns a cell without its name, which needs the seed of its config.
SweepCell cell_of(const SweepGrid& grid, const std::string& config, const std::string& preset,
                  const Choice& choice, const Choice& own) {
  SweepCell cell;
  cell.group = group_name(config, preset, own);
  if (!grid.baseline.empty()) cell.baseline = group_name(config, grid.baseline, without_memory(choice));
  cell.config_path = config;
  cell.options.preset = preset;
  cell.options.settings = grid.settings;
  for (const auto& [key, value] : own) {
    for (std::string& setting : settings_of(key, value)) cell.options.settings.push_back(std::move(setting));
  }
  return cell;
}

std::string key_of(const std::string& setting) {
  return setting.substr(0, setting.find('='));
}

using Keys = std::set<std::string>;

// The keys of a cell's settings that its optimizer does not have.
Keys foreign_keys(const SweepCell& cell) {
  const std::vector<std::string> names = foreign_settings(cell.config_path, with_families(cell.options));
  return {names.begin(), names.end()};
}

// The keys of settings that the optimizer of any cell has.
Keys taken_keys(const SweepGrid& grid, const std::vector<Choice>& grid_choices) {
  Keys taken;
  for (const std::string& config : grid.configs) {
    for (const Choice& choice : grid_choices) {
      const SweepCell cell = cell_of(grid, config, "", choice, choice);
      const Keys foreign = foreign_keys(cell);
      for (const std::string& setting : cell.options.settings) {
        if (!foreign.contains(key_of(setting))) taken.insert(key_of(setting));
      }
    }
  }
  return taken;
}

// A setting that no cell takes stays, and is refused where the cell's config is read.
void leave_out_foreign(SweepCell& cell, const Keys& taken) {
  cell.settings = cell.options.settings;
  const Keys foreign = foreign_keys(cell);
  std::erase_if(cell.options.settings, [&](const std::string& setting) {
    return foreign.contains(key_of(setting)) && taken.contains(key_of(setting));
  });
}

void name_cell(SweepCell& cell) {
  cell.name = fmt::format("{}__seed{}", cell.group, cell.config.train.seed);
  if (cell.name.size() <= kLongestName) return;
  throw UsageError(
      fmt::format("the folder {} would have a name of {} bytes, and {} is the most that disks take: vary "
                  "fewer keys, or write them into several configs",
                  cell.name, cell.name.size(), kLongestName));
}

// The configuration of the run in the cell's folder, where it came to its end.
std::optional<RunConfig> finished_config(const fs::path& path) {
  const RunFolder folder(path.string());
  std::error_code none;
  if (!fs::exists(folder.config, none) || !summary_of_run(folder)) return {};
  return load_config(folder.config.string(), with_families());
}

// A preset may have had other specs when the run was made: what the cell does not say is as it was then.
void take_former_preset(SweepCell& cell, const RunConfig& run, std::set<std::string>& told) {
  Policy& policy = cell.config.policy;
  if (policy.preset != run.policy.preset) return;
  for (const Role role : kEveryElementRole) {
    const std::string key = fmt::format("memory.{}", to_string(role));
    const auto says = [&](const std::string& s) {
      return key_of(s) == key || key_of(s) == "memory.rounding";
    };
    const std::vector<std::string>& settings = cell.options.settings;
    if (policy.specs[role] == run.policy.specs[role] ||
        (is_state(role) && !uses(cell.config.optimizer, role)) ||
        std::any_of(settings.begin(), settings.end(), says)) {
      continue;
    }
    policy.specs[role] = run.policy.specs[role];
    const std::string then = fmt::format("{}: {} was {} when these runs were made\n", policy.preset, key,
                                         to_string(role, run.policy.specs[role]));
    if (told.insert(then).second) tell(then);
  }
}

// Lets data.path of cells that name a folder of pictures lead to what they are packed to; those of one folder
// follow each other mostly.
class PackedOnce {
 public:
  void pack(RunConfig& config) {
    const auto named = [](const RunConfig& c) {
      const TextOptions& text = c.data.text;
      return std::tuple(c.data.set, text.path, text.test_path, text.columns, text.validation_share,
                        c.data.draw_seed, c.data.side, c.train.init);
    };
    if (!given_ || named(*given_) != named(config)) {
      given_ = packed_ = config;
      Progress progress(false);
      const std::string& init = config.train.init;
      pack_named_pictures(*packed_, init.empty() ? "" : find_checkpoint(init), progress);
    }
    TextOptions& text = config.data.text;
    const TextOptions& packed = packed_->data.text;
    text.path = packed.path;
    text.test_path = packed.test_path;
    text.columns = packed.columns;
  }

 private:
  std::optional<RunConfig> given_, packed_;
};

}  // namespace

std::vector<SweepCell> sweep_cells(const SweepGrid& grid, const std::string& out, bool only_finished) {
  if (grid.configs.empty())
    throw UsageError("a sweep needs at least one config (--config, or configs = [...])");
  check_axes(grid);
  check_count(grid);
  const auto presets = grid.presets.empty() ? std::vector<std::string>{""} : grid.presets;
  if (!grid.baseline.empty() && std::find(presets.begin(), presets.end(), grid.baseline) == presets.end()) {
    throw UsageError(fmt::format("the baseline {} is not among the presets; add it", grid.baseline));
  }
  std::vector<Choice> grid_choices;
  Choice scratch;
  choices(grid.axes, 0, scratch, grid_choices);
  std::vector<std::optional<std::uint64_t>> seeds(grid.seeds.begin(), grid.seeds.end());
  if (seeds.empty()) seeds.emplace_back();

  const Keys taken = taken_keys(grid, grid_choices);
  std::vector<SweepCell> cells;
  std::set<std::string> names, told;
  std::optional<Setup> setup;  // the last cell's: most cells share one text
  PackedOnce packs;
  const auto add = [&](const std::optional<std::uint64_t>& seed, const std::string& config,
                       const Choice& choice, const std::string& preset) {
    const bool is_baseline = !grid.baseline.empty() && preset == grid.baseline;
    const Choice own = is_baseline ? without_memory(choice) : choice;
    SweepCell cell = cell_of(grid, config, preset, choice, own);
    if (seed) cell.options.settings.push_back(fmt::format("train.seed={}", *seed));
    leave_out_foreign(cell, taken);
    cell.config = load_config(config, with_families(cell.options));
    make_init_absolute(cell.config);  // as `train` keeps it
    packs.pack(cell.config);
    name_cell(cell);
    const auto run = out.empty() ? std::nullopt : finished_config(fs::path(out) / cell.name);
    if (run && only_finished) take_former_preset(cell, *run, told);
    if (!run || !take_from_run(cell.config, *run)) {
      setup = setup ? open_data(cell.config, *setup) : open_data(cell.config);
      cell.config = setup->config;
      cell.steps = std::max<std::int64_t>(1, steps_of(*setup));
    }
    if (names.insert(cell.name).second) {
      cells.push_back(std::move(cell));
    } else if (own.size() == choice.size()) {  // else the baseline, once for all values of memory axes
      throw UsageError(fmt::format(
          "two cells are called {}: a value is given twice, or two configs have one file name", cell.name));
    }
  };
  for (const auto& seed : seeds) {
    for (const std::string& config : grid.configs) {
      for (const Choice& choice : grid_choices) {
        for (const std::string& preset : presets) add(seed, config, choice, preset);
      }
    }
  }
  return cells;
}

}  // namespace lpmm
