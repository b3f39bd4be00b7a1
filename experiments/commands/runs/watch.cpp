// `lpmm watch`: what led to a spike of a run, replayed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "experiments/commands/runs/moved_elements.h"
#include "experiments/plots/watch_plot.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/progress.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/roles.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/log.h"
#include "lpmm/run/run_folder.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/watch/replay.h"
#include "lpmm/run/watch/watch.h"
#include "models/families.h"

namespace lpmm {
namespace {

struct WatchArguments {
  std::string run;
  std::int64_t step = 0, after = 16;
  std::size_t suspects = 1;
  std::vector<std::string> without;
  bool from_start = false, svg = false, quiet = false, json = false;
  int threads = 0;
};

// The run, and the step that is looked into.
struct Case {
  RunFolder folder;
  std::vector<Json> log = {};
  RunConfig config = {};
  std::vector<SpikeFile> spikes = {};  // spikes that the run kept, without statistics
  Spike spike = {};
  std::vector<UpdateStatistics> kept = {};  // of the run itself, up to the spike
  std::int64_t from = 0, to = 0;
};

std::int64_t last_step(std::span<const Json> log) {
  std::int64_t last = 0;
  for (const Json& record : log) {
    const std::string type = record.value("type", "");
    if (type != "step" && type != "spike") continue;
    last = std::max(last, to_count(record.at("step"), "step"));
  }
  return last;
}

// The one that was asked for, or the worst: a failed step, or the loss that was furthest off.
Spike choose(const Case& c, std::int64_t step) {
  const auto find = [&](std::int64_t at) {
    return std::find_if(c.spikes.begin(), c.spikes.end(), [&](const auto& s) { return s.spike.step == at; });
  };
  if (step > 0) {
    const auto found = find(step);
    return found != c.spikes.end() ? found->spike : Spike{.step = step, .loss = std::nan("")};
  }
  if (c.spikes.empty()) {
    throw UsageError(
        c.config.watch.every_steps == 0
            ? fmt::format("{}: was trained without a watch (watch.every_steps = 0); --step N looks into any "
                          "step all the same",
                          c.folder.root.string())
            : fmt::format("{}: kept no spike; --step N looks into any step", c.folder.root.string()));
  }
  return std::max_element(
             c.spikes.begin(), c.spikes.end(),
             [](const SpikeFile& a, const SpikeFile& b) { return weight_of(a.spike) < weight_of(b.spike); })
      ->spike;
}

std::int64_t start_of(const Case& c, bool from_start) {
  if (from_start) return 0;
  const std::int64_t before = checkpoint_before(c.folder.root.string(), c.spike.step);
  if (before > 0) return before;
  throw UsageError(
      fmt::format("{}: has no checkpoint before step {}; --from-start makes all {} steps again, and "
                  "checkpoint.every_steps saves some on the way",
                  c.folder.root.string(), c.spike.step, c.spike.step));
}

Case open_case(const WatchArguments& o) {
  Case c{.folder = RunFolder(o.run)};
  if (!std::filesystem::exists(c.folder.config) || !std::filesystem::exists(c.folder.log)) {
    throw UsageError(fmt::format("{}: is no run's folder: it has no config.toml or no log.jsonl", o.run));
  }
  check_config_seal(c.folder.config.string());
  c.config = load_config(c.folder.config.string(),
                         with_families({.settings = {fmt::format("train.threads={}", o.threads)}}));
  c.log = read_log(c.folder.log.string());
  c.spikes = kept_spikes(o.run);
  c.spike = choose(c, o.step);
  const std::string kept = spike_path(o.run, c.spike.step);
  if (std::filesystem::exists(kept)) c.kept = read_spike(kept).statistics;
  const std::int64_t last = std::max(last_step(c.log), c.kept.empty() ? 0 : c.kept.back().step);
  if (c.spike.step > last) {
    throw UsageError(
        fmt::format("{}: has made {} steps, so step {} cannot be looked into", o.run, last, c.spike.step));
  }
  c.from = start_of(c, o.from_start);
  c.to = std::min(last, c.spike.step + o.after);
  return c;
}

// Statistics of the run before the replay, then those of the replay.
std::vector<UpdateStatistics> joined(const Case& c, std::span<const ReplayedStep> steps) {
  std::vector<UpdateStatistics> statistics;
  for (const UpdateStatistics& s : c.kept) {
    if (s.step <= c.from) statistics.push_back(s);
  }
  for (const ReplayedStep& step : steps) statistics.push_back(step.statistics);
  return statistics;
}

// The range of losses before the spike, computed from the statistics where the run did not record it.
LossRange range_before(const Case& c, std::span<const UpdateStatistics> statistics) {
  if (c.spike.deviation > 0) return {c.spike.mean, c.spike.deviation};
  std::vector<double> losses;
  for (const UpdateStatistics& s : statistics) {
    if (s.step < c.spike.step && std::isfinite(s.loss)) losses.push_back(s.loss);
  }
  if (losses.size() > kWatchedLosses) {
    losses.erase(losses.begin(), losses.end() - static_cast<std::ptrdiff_t>(kWatchedLosses));
  }
  return range_of(losses);
}

// The largest loss from the spike on; infinite where a step failed.
double worst_loss(std::span<const ReplayedStep> steps, std::int64_t from) {
  double worst = -std::numeric_limits<double>::infinity();
  for (const ReplayedStep& s : steps) {
    if (s.statistics.step < from) continue;
    worst = std::max(worst, std::isfinite(s.statistics.loss) ? s.statistics.loss
                                                             : std::numeric_limits<double>::infinity());
  }
  // A replay that never came to the spike had failed before.
  return std::isinf(worst) ? std::numeric_limits<double>::infinity() : worst;
}

// A replay without the updates of some tensors.
struct Trial {
  std::vector<int> left_out;
  std::int64_t from = 0;  // the first step in which they are left out, and from then on
  std::vector<ReplayedStep> steps = {};
  double worst = 0;
};

struct Answer {
  std::vector<TensorInfo> infos;
  std::vector<std::string> tensors;  // their names
  std::vector<ReplayedStep> steps;
  std::vector<UpdateStatistics> statistics;
  int compared = 0;
  std::vector<Move> moves;
  std::vector<std::vector<ElementMove>> elements;  // one list for each tensor
  LossRange range;
  double worst = 0;
  std::vector<Trial> trials;

  std::string names_of(const Trial& trial) const {
    if (trial.left_out.size() == tensors.size()) return "all tensors";
    std::vector<std::string_view> names;
    for (const int t : trial.left_out) names.emplace_back(tensors[static_cast<std::size_t>(t)]);
    return join(names);
  }
  const char* verdict(const Trial& trial) const {
    constexpr double kHardlyLess = 0.75;  // share of the spike's height
    if (!std::isfinite(trial.worst) || trial.worst - range.mean > kHardlyLess * (worst - range.mean)) {
      return "stays";
    }
    const bool knows_usual = range.deviation > 0;  // else only a failure can be seen to vanish
    return knows_usual ? (range.holds(trial.worst) ? "vanishes" : "shrinks")
                       : (std::isfinite(worst) ? "shrinks" : "vanishes");
  }
  // The one that helped most; null: there was none.
  const Trial* best() const {
    const auto found = std::min_element(trials.begin(), trials.end(),
                                        [](const Trial& a, const Trial& b) { return a.worst < b.worst; });
    return found == trials.end() ? nullptr : &*found;
  }
};

// One trial of the named tensors together, or one of each of the first to move, from the step in which it
// moved.
std::vector<Trial> choose_trials(const WatchArguments& o, const Case& c, const Answer& a) {
  std::vector<Trial> trials;
  if (o.without.empty()) {
    for (std::size_t i = 0; i < std::min(o.suspects, a.moves.size()); ++i) {
      trials.push_back({{static_cast<int>(a.moves[i].tensor)}, std::max(c.from + 1, a.moves[i].step)});
    }
    return trials;
  }
  trials.push_back({{}, std::max(c.from + 1, c.spike.step - kStepsBefore)});
  std::vector<int>& left_out = trials[0].left_out;
  for (const std::string& pattern : o.without) {
    const std::size_t before = left_out.size();
    for (std::size_t t = 0; t < a.tensors.size(); ++t) {
      if (matches_pattern(pattern, a.tensors[t])) left_out.push_back(static_cast<int>(t));
    }
    if (left_out.size() > before) continue;
    const std::vector<std::string_view> names(a.tensors.begin(), a.tensors.end());
    throw UsageError(
        fmt::format("--without {}: no tensor is called so{}", pattern, did_you_mean_or_some(pattern, names)));
  }
  return trials;
}

Answer investigate(const WatchArguments& o, const Case& c) {
  const InterruptGuard guard;
  Progress progress(o.quiet);
  std::unique_ptr<Tokenizer> tokenizer;
  if (c.from > 0) tokenizer = saved_tokenizer(c.folder.checkpoints / checkpoint_name(c.from), c.config);
  Setup setup = open_data(c.config, std::move(tokenizer), progress.share_of("reading text"));
  const std::string own = newest_checkpoint(c.folder.checkpoints);
  if (!own.empty()) take_from_model(setup, own);
  const auto model = make_model(setup.config);
  Replay replay(setup, *model, c.folder, c.log);
  Answer a;
  a.infos = model->tensors();
  for (const TensorInfo& t : a.infos) a.tensors.push_back(t.name);
  a.trials = choose_trials(o, c, a);  // checks the names that were given before computing
  ReplayPlan plan{.from = c.from, .to = c.to};
  plan.first_measured = std::max<std::int64_t>(1, c.spike.step - kStepsBefore);
  plan.last_measured = c.spike.step;
  a.steps = replay.go(plan, progress.share_of("making the steps again"));
  a.elements = replay.elements();
  a.compared = check_losses(a.steps, replay.window(), c.log, c.kept);
  a.statistics = joined(c, a.steps);
  a.range = range_before(c, a.statistics);
  a.worst = worst_loss(a.steps, c.spike.step);
  a.moves = rank_moves(a.statistics, c.spike.step);
  a.trials = choose_trials(o, c, a);
  for (Trial& trial : a.trials) {
    trial.steps = replay.go({c.from, c.to, trial.left_out, trial.from, c.to},
                            progress.share_of("without " + a.names_of(trial)));
    trial.worst = worst_loss(trial.steps, c.spike.step);
  }
  return a;
}

std::string records_of(std::span<const ReplayedStep> steps) {
  std::string text;
  for (const ReplayedStep& step : steps) text += statistics_record(step.statistics).dump() + '\n';
  return text;
}

// The files of the command; names of tensors are in the log.
nlohmann::ordered_json write_files(const WatchArguments& o, const Case& c, const Answer& a) {
  const std::string folder = o.run + "/watch";
  make_folder(folder);
  const auto name = [&](const char* what) { return fmt::format("{}/{}_{:08}", folder, what, c.spike.step); };
  write_text(name("replay") + ".jsonl", records_of(a.steps));
  nlohmann::ordered_json files = {{"replay", name("replay") + ".jsonl"}};
  std::vector<UpdateStatistics> without;
  const Trial* best = a.best();
  if (best != nullptr) {
    write_text(name("without") + ".jsonl", records_of(best->steps));
    files["without"] = name("without") + ".jsonl";
    for (const ReplayedStep& step : best->steps) without.push_back(step.statistics);
  }
  const WatchPicture picture{
      c.spike.step, a.tensors, a.statistics, without, best == nullptr ? "" : a.names_of(*best), a.moves};
  draw_picture(watch_picture(picture), name("map"), o.svg);
  files["png"] = name("map") + ".png";
  if (o.svg) files["svg"] = name("map") + ".svg";
  return files;
}

nlohmann::ordered_json watch_json(const Case& c, const Answer& a) {
  const auto known = [&](double x) { return a.range.deviation > 0 ? nlohmann::ordered_json(x) : nullptr; };
  nlohmann::ordered_json j = {
      {"step", c.spike.step},
      {"kind", kSpikeKinds[static_cast<std::size_t>(c.spike.kind)]},
      {"loss_before", known(a.range.mean)},
      {"deviation_before", known(a.range.deviation)},
      {"worst_loss", a.worst},
      {"from_step", c.from},
      {"to_step", c.to},
      {"losses_compared", a.compared},
      {"tensors_not_looked_at", count_unseen(c.config.policy, c.config.optimizer, a.infos)},
      {"moves", nlohmann::ordered_json::array()}};
  for (const Move& m : a.moves) {
    j["moves"].push_back({{"tensor", a.tensors[m.tensor]},
                          {"step", m.step},
                          {"measure", m.measure},
                          {"value", m.value},
                          {"usual", m.usual},
                          {"reach", m.reach}});
  }
  j["elements"] = elements_json(a.infos, a.elements);
  j["trials"] = nlohmann::ordered_json::array();
  for (const Trial& trial : a.trials) {
    j["trials"].push_back({{"without", a.names_of(trial)},
                           {"from_step", trial.from},
                           {"worst_loss", trial.worst},
                           {"spike", a.verdict(trial)}});
  }
  j["spikes"] = nlohmann::ordered_json::array();
  for (const SpikeFile& f : c.spikes) j["spikes"].push_back(f.spike.step);
  return j;
}

void print_for_people(const Case& c, const Answer& a) {
  const Spike& s = c.spike;
  if (s.kind == SpikeKind::kFailed) {
    fmt::print("step {} failed: {}\n", s.step, printable(s.tensor));
  } else {
    const std::string before =
        a.range.deviation > 0
            ? fmt::format("before they were {:.4g} +- {:.2g}", a.range.mean, a.range.deviation)
            : fmt::format("too few are known from before to say what was usual (a range takes {}{})",
                          kFewestLosses, c.from > 0 ? "; see checkpoint.every_steps and --from-start" : "");
    fmt::print("step {}: losses up to {:.4g}; {}\n", s.step, a.worst, before);
  }
  fmt::print("made again from step {} to {}: {} losses, all as the run wrote them\n\n", c.from, c.to,
             a.compared);
  if (const std::string unseen = unseen_note(c.config, a.infos); !unseen.empty()) {
    fmt::print("{}\n", unseen);
  }
  if (a.moves.empty()) {
    fmt::print("no tensor moved in the {} steps before\n", kStepsBefore);
    return;
  }
  fmt::print("{:<32} {:>8} {:>7}  {:<13} {:>10} {:>10} {:>6} {:>9}\n", "who moved first", "step", "before",
             "measure", "value", "usual", "times", "|u||g|");
  constexpr std::size_t kShown = 12;
  for (std::size_t i = 0; i < std::min(kShown, a.moves.size()); ++i) {
    const Move& m = a.moves[i];
    fmt::print("{:<32} {:>8} {:>7}  {:<13} {:>10.3g} {:>10.3g} {:>6.1f} {:>9.2g}\n", a.tensors[m.tensor],
               m.step, s.step - m.step, m.measure, m.value, m.usual, m.value / m.usual, m.reach);
  }
  if (a.moves.size() > kShown) fmt::print("and {} more\n", a.moves.size() - kShown);
  if (c.config.policy.keeps_peaks) print_elements(a.infos, a.elements, a.moves, s.step);
}

void print_verdict(const Case& c, const Answer& a, const nlohmann::ordered_json& files) {
  fmt::print("\n");
  for (const Trial& trial : a.trials) {
    fmt::print("without {} in steps {} to {}: losses up to {:.4g}; the spike {}\n", a.names_of(trial),
               trial.from, c.to, trial.worst, a.verdict(trial));
  }
  for (const auto& [what, file] : files.items()) {
    fmt::print("{:<8} {}\n", what, printable(file.get<std::string>()));
  }
}

int run_watch(const WatchArguments& o) {
  const Case c = open_case(o);
  Answer a;
  try {
    a = investigate(o, c);
  } catch (const Interrupted&) {
    fmt::print(stderr, "interrupted; nothing was written\n");
    return kInterrupted;
  }
  const nlohmann::ordered_json files = write_files(o, c, a);
  if (o.json) {
    nlohmann::ordered_json answer = watch_json(c, a);
    answer["files"] = files;
    print_answer(answer, true);
  } else {
    print_for_people(c, a);
    print_verdict(c, a, files);
  }
  return kDone;
}

}  // namespace

void add_watch_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<WatchArguments>();
  CLI::App* command =
      program.add_subcommand("watch", "Tell what led to a spike of a run, and replay it without that");
  command->add_option("RUN", o->run, "folder of a run")->required()->check(kNotEmpty);
  command->add_option("--step", o->step, "the step to look into (default: the worst spike that was kept)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32));
  CLI::Option* without =
      command
          ->add_option(
              "--without", o->without,
              "leave out the updates of these tensors, by name or pattern (default: the first that moved)")
          ->type_name("TENSOR");
  CLI::Option* suspects =
      command
          ->add_option("--suspects", o->suspects,
                       "replay without each of so many tensors, the first to move (default: 1)")
          ->check(CLI::Range(0, 1000));
  suspects->excludes(without);
  command->add_option("--after", o->after, "steps to make after the spike (default: 16)")
      ->check(CLI::Range(0, 100000));
  command->add_flag("--from-start", o->from_start, "replay from the initial values, without a checkpoint");
  add_threads_option(*command, o->threads);
  add_svg_option(*command, o->svg);
  command->add_flag("--quiet", o->quiet, "no progress on standard error");
  command->add_flag("--json", o->json, "print one JSON object: step, moves, verdict, files...");
  command->footer(
      R"(The run is replayed bit for bit from the last checkpoint before the spike; its losses are compared
with the logged ones. Tensors are ranked by who moved first, up to 8 steps before: whose update (of
the tensor's length), RMS of g^2/v, or gradient rose above what was usual; of one step, whose update
can change the loss most, |u| |g|. Further replays leave out the updates of one of the first. Of a run
that kept peaks (watch.every = true) the elements are named whose update (of the parameter's size) or
g^2/v rose furthest above what it had reached before, in powers of 2.
Of the run's folder only files in watch/ are written: replay_N.jsonl, without_N.jsonl (of the one that
helped most), map_N.png and map_N.gp beside the spike_N.jsonl that training wrote.
Examples:
  lpmm watch runs/gpt --suspects 4
  lpmm watch runs/gpt --step 312 --without "h.0.*" --json)");
  on_selected(*command, action, o, run_watch);
}

}  // namespace lpmm
