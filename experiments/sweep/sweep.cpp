#include "experiments/sweep/sweep.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <toml++/toml.h>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <sstream>

#include "experiments/plots/records.h"
#include "experiments/sweep/statistics.h"
#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/process.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/run/setup.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// ---- the grid ------------------------------------------------------------------------------------------
[[noreturn]] void refuse(const std::string& path, const toml::node& node, const std::string& what) {
  throw UsageError(fmt::format("{}:{}: {}", path, node.source().begin.line, what));
}

// A value as --set takes it: strings bare, numbers as short as they can be told, the rest as TOML writes it.
std::string value_text(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  std::ostringstream out;
  node.visit([&](const auto& n) { out << n; });
  return out.str();
}

std::vector<std::string> texts(const std::string& path, const std::string& key, const toml::node& node) {
  const toml::array* items = node.as_array();
  if (items == nullptr || items->empty()) refuse(path, node, key + " is an array with at least one value");
  std::vector<std::string> out;
  for (const toml::node& item : *items) {
    if (item.is_table()) refuse(path, item, key + " holds plain values");
    out.push_back(value_text(item));
  }
  return out;
}

// [axes] may hold "a.b" = [...] or a.b = [...], which TOML reads as a table a.
void read_axes(const std::string& path, const std::string& prefix, const toml::table& table,
               SweepGrid& grid) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table()) {
      read_axes(path, name + ".", *inner, grid);
    } else {
      grid.axes.push_back({name, texts(path, name, node)});
    }
  }
}

// ---- cells ---------------------------------------------------------------------------------------------
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

std::vector<std::string> parts_of(const std::string& joined) {
  std::vector<std::string> parts(1);
  for (const char c : joined) {
    if (c == '&') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// "a=1" and "b=2" of the key "a&b" and the value "1&2".
std::vector<std::string> settings_of(const std::string& key, const std::string& value) {
  const std::vector<std::string> keys = parts_of(key), values = parts_of(value);
  if (keys.size() != values.size()) {
    throw UsageError(
        fmt::format("the axis {} has {} keys, its value {} has {}", key, keys.size(), value, values.size()));
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < keys.size(); ++i) out.push_back(keys[i] + "=" + values[i]);
  return out;
}

Choice without_memory(const Choice& choice) {
  Choice out;
  for (const auto& c : choice) {
    if (!c.first.starts_with("memory.")) out.push_back(c);
  }
  return out;
}

constexpr std::size_t kLongestName = 255;  // of a folder

std::string group_name(const std::string& config, const std::string& preset, const Choice& choice) {
  std::string name = fs::path(config).stem().string();
  if (!preset.empty()) name += "__" + preset;
  for (const auto& [key, value] : choice) name += fmt::format("__{}={}", key, value);
  return file_name(name);
}

// ---- what a cell's folder holds ------------------------------------------------------------------------
// Keys that may differ between a finished cell and the sweep that finds it: no result depends on them. What a
// preset stands for is compared role by role.
bool changes_no_result(const std::string& key) {
  return key == "train.threads" || key == "memory.preset" || key == "checkpoint.every_steps" ||
         key == "checkpoint.keep";
}

// Share of its steps that a running cell has logged, from the end of its log.
double progress_of(const fs::path& folder, std::int64_t steps) {
  constexpr std::streamoff kTail = 1 << 16;
  std::ifstream in(folder / "log.jsonl", std::ios::binary | std::ios::ate);
  if (!in) return 0;
  in.seekg(std::max<std::streamoff>(0, std::streamoff{in.tellg()} - kTail));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  constexpr std::string_view kMark = "{\"type\":\"step\",\"step\":";
  const std::size_t at = text.rfind(kMark);
  if (at == std::string::npos) return 0;
  const double step = std::strtod(text.c_str() + at + kMark.size(), nullptr);
  return std::clamp(step / static_cast<double>(steps), 0.0, 1.0);
}

std::int64_t steps_of(const Setup& setup) {
  const auto& t = setup.config.train;
  if (t.steps > 0) return t.steps;
  return std::max<std::int64_t>(1, t.epochs * (setup.size.train_examples / t.batch));
}

std::string last_line(const fs::path& path) {
  std::ifstream in(path);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

// A loss that is NaN or Inf is null in a log.
bool diverged(const Json& summary) {
  return !number_in(summary, "final_loss") || !number_in(summary, "test_loss");
}

// ---- running -------------------------------------------------------------------------------------------
std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds);
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

class Runner {
 public:
  Runner(const std::vector<SweepCell>& cells, const SweepOptions& options)
      : cells_(cells), options_(options), summaries_(cells.size()), errors_(cells.size()) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      summaries_[i] = finished_run(folder(i).string(), cells[i].config);
      if (summaries_[i]) {
        ++done_;
      } else {
        waiting_.push_back(i);
      }
    }
    std::reverse(waiting_.begin(), waiting_.end());
  }

  // False where the user stopped it.
  bool run() {
    say(fmt::format("sweep: {} cells, {} finished before, {} to run, {} at a time", cells_.size(), done_,
                    waiting_.size(), options_.jobs));
    const InterruptGuard guard;
    bool passed_on = false;
    while (!running_.empty() || (!waiting_.empty() && !InterruptGuard::asked())) {
      while (!InterruptGuard::asked() && !waiting_.empty() &&
             running_.size() < static_cast<std::size_t>(options_.jobs)) {
        const std::size_t next = waiting_.back();
        waiting_.pop_back();
        try {
          start(next);
        } catch (const std::exception& e) {
          fail(next, e.what());
        }
      }
      if (InterruptGuard::asked() && !passed_on) {
        passed_on = true;
        say("sweep: stopping; the running cells save a checkpoint (a second Ctrl-C ends at once)");
        for (const Running& r : running_) kill(r.process, SIGINT);
      }
      collect();
      show();
      if (!running_.empty()) poll(nullptr, 0, 100);
    }
    clear();
    return !InterruptGuard::asked();
  }

  const std::vector<std::optional<Json>>& summaries() const { return summaries_; }
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {
    std::size_t cell;
    pid_t process;
    Clock::time_point started;
    double progress_at_start;
  };

  fs::path folder(std::size_t cell) const { return fs::path(options_.out) / cells_[cell].name; }
  static double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

  void start(std::size_t index) {
    const SweepCell& cell = cells_[index];
    make_folder(folder(index).string());
    std::vector<std::string> arguments = {own_program(), "train", cell.config_path};
    if (!cell.options.preset.empty()) arguments.insert(arguments.end(), {"--preset", cell.options.preset});
    for (const std::string& setting : cell.options.settings) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    arguments.insert(arguments.end(), {"--threads", std::to_string(options_.threads), "--quiet", "--resume",
                                       "--out", folder(index).string()});
    const double progress = progress_of(folder(index), cell.steps);
    const pid_t process = start_process(arguments, {(folder(index) / "output.txt").string(), ""});
    running_.push_back({index, process, Clock::now(), progress});
  }

  void fail(std::size_t cell, const std::string& why) {
    errors_[cell] = why;
    say(fmt::format("FAILED {}: {}", cells_[cell].name, why));
  }

  // Takes note of the cells that have ended.
  void collect() {
    for (std::size_t i = 0; i < running_.size();) {
      const Running r = running_[i];
      int status = 0;
      if (waitpid(r.process, &status, WNOHANG) != r.process) {
        ++i;
        continue;
      }
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      const int code = exit_code(status);
      if (code == 0) summaries_[r.cell] = finished_run(folder(r.cell).string(), cells_[r.cell].config);
      const std::string name = cells_[r.cell].name, time = duration(since(r.started));
      work_done_ += 1 - r.progress_at_start;
      if (summaries_[r.cell]) {
        ++done_;
        const Json& summary = *summaries_[r.cell];
        const auto accuracy = number_in(summary, "test_accuracy");
        const std::string result = diverged(summary) ? "diverged: its loss is no number"
                                   : accuracy        ? fmt::format("{:.2f} %", 100 * *accuracy)
                                                     : "done";
        say(fmt::format("[{}/{}] {}: {} in {}", done_, cells_.size(), name, result, time));
      } else if (!InterruptGuard::asked()) {
        fail(r.cell,
             fmt::format("exit code {} after {}: {}", code, time, last_line(folder(r.cell) / "output.txt")));
      }
    }
  }

  // One line with what runs and when all is done: redrawn on a terminal, now and then elsewhere.
  void show() {
    const double interval = terminal_ ? 1 : 60;
    if (since(shown_) < interval) return;
    shown_ = Clock::now();
    double done = work_done_, left = static_cast<double>(waiting_.size());
    for (const Running& r : running_) {
      const double progress = progress_of(folder(r.cell), cells_[r.cell].steps);
      done += std::max(0.0, progress - r.progress_at_start);
      left += 1 - progress;
    }
    const double elapsed = since(started_);
    const std::string line =
        fmt::format("sweep: {}/{} done, {} running, {} elapsed, ETA {}", done_, cells_.size(),
                    running_.size(), duration(elapsed), done > 0.01 ? duration(elapsed * left / done) : "-");
    if (!terminal_) {
      say(line);
      return;
    }
    tell(fmt::format("\r\033[K{}", line));
  }
  void clear() const {
    if (terminal_) tell("\r\033[K");
  }
  void say(const std::string& line) const {
    clear();
    tell(fmt::format("{}\n", line));
  }

  const std::vector<SweepCell>& cells_;
  const SweepOptions& options_;
  std::vector<std::optional<Json>> summaries_;
  std::vector<std::string> errors_;
  std::vector<std::size_t> waiting_;  // the next one last
  std::vector<Running> running_;
  std::size_t done_ = 0;
  double work_done_ = 0;  // in cells, since the start
  const Clock::time_point started_ = Clock::now();
  Clock::time_point shown_ = started_;
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
};

// ---- the answer ----------------------------------------------------------------------------------------
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

Json answer_json(const std::vector<SweepCell>& cells, const Runner& runner) {
  std::vector<const SweepCell*> order;  // one cell a group
  std::map<std::string, BySeed> groups;
  Json answer = {{"groups", Json::array()}, {"cells", Json::array()}};
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const SweepCell& cell = cells[i];
    if (!groups.contains(cell.group)) order.push_back(&cell);
    BySeed& by_seed = groups[cell.group];
    const std::optional<Json>& summary = runner.summaries()[i];
    if (summary) by_seed[cell.config.train.seed] = &*summary;
    Json row = {{"name", cell.name}, {"group", cell.group}, {"seed", cell.config.train.seed}};
    row["state"] = summary ? "finished" : runner.errors()[i].empty() ? "not run" : "failed";
    if (!runner.errors()[i].empty()) row["error"] = runner.errors()[i];
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
    out += fmt::format("\n{},{}", row["group"].get<std::string>(), row["seeds"].get<std::int64_t>());
    for (const Column& c : columns) out += "," + number(row, c.key, c.inner, c.digits + 4);
  }
  return out + "\n";
}

}  // namespace

std::optional<Json> finished_run(const std::string& path, const RunConfig& config) {
  const fs::path folder(path);
  if (!fs::exists(folder / "config.toml")) return {};
  for (const ConfigDifference& d : differences(load_config((folder / "config.toml").string(), {}), config)) {
    if (changes_no_result(d.key)) continue;
    throw UsageError(fmt::format(
        "{}: holds another run: {} is {} there and {} here; name another folder (--out), or remove "
        "this one",
        folder.string(), d.key, d.first.empty() ? "not set" : d.first,
        d.second.empty() ? "not set" : d.second));
  }
  if (!fs::exists(folder / "log.jsonl")) return {};
  const std::vector<Json> records = read_log((folder / "log.jsonl").string());
  if (records.empty() || records.back()["type"] != "summary") return {};
  const Json& last = records.back();
  if (!last.contains("interrupted") || last["interrupted"] != false || last.contains("error")) return {};
  return last;
}

std::vector<std::string> keys_of(const SweepAxis& axis) {
  return parts_of(axis.key);
}

SweepGrid load_grid(const std::string& path, std::span<const std::string_view> others) {
  constexpr std::string_view kKeys[] = {"configs", "presets", "seeds", "set", "baseline", "axes"};
  toml::table root;
  try {
    root = toml::parse(read_text(path, 1 << 20), path);
  } catch (const toml::parse_error& e) {
    throw UsageError(fmt::format("{}:{}: {}", path, e.source().begin.line, e.description()));
  } catch (const RunError& e) {
    throw UsageError(e.what());
  }
  SweepGrid grid;
  for (const auto& [name, node] : root) {
    const std::string key(name.str());
    if (key == "configs") {
      grid.configs = texts(path, key, node);
    } else if (key == "presets") {
      grid.presets = texts(path, key, node);
    } else if (key == "set") {
      grid.settings = texts(path, key, node);
    } else if (key == "seeds") {
      texts(path, key, node);
      for (const toml::node& seed : *node.as_array()) {
        const auto value = seed.value_exact<std::int64_t>();
        if (!value || *value < 0) refuse(path, seed, "seeds are integers, 0 or more");
        grid.seeds.push_back(static_cast<std::uint64_t>(*value));
      }
    } else if (key == "baseline") {
      const auto preset = node.value_exact<std::string>();
      if (!preset) refuse(path, node, "baseline is the name of a preset");
      grid.baseline = *preset;
    } else if (key == "axes") {
      if (!node.is_table()) refuse(path, node, "axes is a table of \"section.key\" = [values]");
      read_axes(path, "", *node.as_table(), grid);
    } else if (std::find(others.begin(), others.end(), key) == others.end()) {
      refuse(path, node,
             fmt::format("unknown key {}; did you mean {}? (known: {})", key, nearest_name(key, kKeys),
                         join(kKeys)));
    }
  }
  return grid;
}

std::vector<SweepCell> sweep_cells(const SweepGrid& grid) {
  if (grid.configs.empty())
    throw UsageError("a sweep needs at least one config (--config, or configs = [...])");
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
  const auto presets = grid.presets.empty() ? std::vector<std::string>{""} : grid.presets;
  if (!grid.baseline.empty() && std::find(presets.begin(), presets.end(), grid.baseline) == presets.end()) {
    throw UsageError(fmt::format("the baseline {} is not among the presets; add it", grid.baseline));
  }
  std::vector<Choice> grid_choices;
  Choice scratch;
  choices(grid.axes, 0, scratch, grid_choices);
  std::vector<std::optional<std::uint64_t>> seeds(grid.seeds.begin(), grid.seeds.end());
  if (seeds.empty()) seeds.emplace_back();

  std::vector<SweepCell> cells;
  std::set<std::string> names;
  std::optional<Setup> setup;  // of the last cell: most share one text
  for (const auto& seed : seeds) {
    for (const std::string& config : grid.configs) {
      for (const Choice& choice : grid_choices) {
        for (const std::string& preset : presets) {
          const bool is_baseline = !grid.baseline.empty() && preset == grid.baseline;
          const Choice own = is_baseline ? without_memory(choice) : choice;
          SweepCell cell;
          cell.group = group_name(config, preset, own);
          if (!grid.baseline.empty()) {
            cell.baseline = group_name(config, grid.baseline, without_memory(choice));
          }
          cell.config_path = config;
          cell.options.preset = preset;
          cell.options.settings = grid.settings;
          for (const auto& [key, value] : own) {
            for (std::string& setting : settings_of(key, value)) {
              cell.options.settings.push_back(std::move(setting));
            }
          }
          if (seed) cell.options.settings.push_back(fmt::format("train.seed={}", *seed));
          const RunConfig loaded = load_config(config, cell.options);
          setup.emplace(setup ? Setup(loaded, *setup) : loaded);
          cell.config = setup->config;
          cell.steps = steps_of(*setup);
          cell.name = fmt::format("{}__seed{}", cell.group, cell.config.train.seed);
          if (cell.name.size() > kLongestName) {
            throw UsageError(fmt::format(
                "the folder {} would have a name of {} bytes, and {} is the most that disks take: vary "
                "fewer keys, or write them into several configs",
                cell.name, cell.name.size(), kLongestName));
          }
          if (!names.insert(cell.name).second) {
            if (own.size() != choice.size()) continue;  // the baseline, once for all values of memory axes
            throw UsageError(fmt::format(
                "two cells are called {}: a value is given twice, or two configs have one file name",
                cell.name));
          }
          cells.push_back(std::move(cell));
        }
      }
    }
  }
  return cells;
}

SweepResult run_sweep(const SweepGrid& grid, const SweepOptions& given) {
  const std::vector<SweepCell> cells = sweep_cells(grid);
  if (given.out.empty()) throw UsageError("a sweep needs a folder (--out)");
  SweepOptions options = given;
  if (options.threads == 0) options.threads = std::max(1, Pool::usable_processors() / options.jobs);
  make_folder(options.out);  // before anything is started
  Runner runner(cells, options);
  SweepResult result;
  result.interrupted = !runner.run();
  result.answer = answer_json(cells, runner);
  for (const std::string& error : runner.errors()) result.failed += error.empty() ? 0 : 1;
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
