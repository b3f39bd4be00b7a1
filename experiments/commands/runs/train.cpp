// `lpmm train`: a run that is kept in a folder.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "experiments/commands/recipe.h"
#include "experiments/commands/runs/loaded_model.h"
#include "experiments/pack/packed_data.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/process.h"
#include "lpmm/base/progress.h"
#include "lpmm/base/terminal.h"
#include "lpmm/data/scores.h"
#include "lpmm/program/family.h"
#include "lpmm/ranks/launched.h"
#include "lpmm/ranks/processes.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/trainer.h"
#include "models/families.h"

namespace lpmm {
namespace {

// The tokenizer of the run's newest checkpoint.
std::unique_ptr<Tokenizer> own_tokenizer(const std::string& checkpoint, const RunConfig& config) {
  try {
    return saved_tokenizer(checkpoint, config);
  } catch (const DamagedCheckpoint& e) {
    throw RunError(fmt::format("{}. {}", e.what(), earlier_checkpoint(checkpoint)));
  }
}

std::string number_or_dash(const nlohmann::ordered_json& value, const char* format, double factor = 1) {
  return value.is_number() ? fmt::format(fmt::runtime(format), factor * value.get<double>()) : "-";
}

// Prints what came out, where it lies and what to type next.
void print_for_people(const TrainResult& result, const RunConfig& config, const std::string& out) {
  const auto s = nlohmann::ordered_json::parse(result.summary);
  const TaskRow& task = task_of(config.model);
  std::string scores;
  if (const auto found = s.find("scores"); found != s.end()) {
    for (const auto& [name, value] : found->items()) {
      scores += score_text(name, value.is_number() ? value.get<double>() : std::nan("")) + ", ";
    }
  }
  const std::string quality =
      !scores.empty() ? fmt::format("{}loss {}", scores, number_or_dash(s["test_loss"], "{:.4f}"))
      : task.is_judged_by_loss
          ? fmt::format("validation loss {}", number_or_dash(s["test_loss"], "{:.4f}"))
          : fmt::format("test accuracy {} %, loss {}", number_or_dash(s["test_accuracy"], "{:.1f}", 100),
                        number_or_dash(s["test_loss"], "{:.4f}"));
  const double bits = s["bits_per_parameter"].get<double>();
  const double of_steps = s["train_seconds"].get<double>();
  const std::string apart =
      result.seconds > 1.1 * of_steps + 1 ? fmt::format(" ({} of steps)", format_time(of_steps)) : "";
  fmt::print("{} after {} steps in {}{}: {}; model memory {} ({:.1f} bits per parameter)\n",
             result.interrupted ? "stopped"
             : result.diverged  ? "diverged"
                                : "done",
             s["steps"].get<std::int64_t>(), format_time(result.seconds), apart, quality,
             format_bytes(s["model_memory_bytes"]["total"].get<std::int64_t>()), bits);
  fmt::print("the run lies in {}: config.toml, log.jsonl, checkpoints/\n", printable(out));
  if (result.interrupted) {
    fmt::print("next: the same command with --resume goes on from here\n");
    return;
  }
  if (result.diverged) {
    fmt::print("next: the same command with a lower optimizer.learning_rate, into another folder (--out)\n");
    return;
  }
  const std::string run = path_argument(out);
  std::vector<std::string> use = {"lpmm", task.continues ? "sample" : "eval", run};
  if (config.data.set == task.picture_set) use = {"lpmm", "classify", run, "photo.jpg"};
  const std::vector<std::string> report = {"lpmm", "report", run, "--out", "report.html"};
  fmt::print("next: {}, {}\n", printable(shell_command(use)), printable(shell_command(report)));
}

struct TrainArguments {
  StartArguments start;
  TrainOptions run;
  int ranks = 1;
  bool json = false;
};

// Gives each of several ranks a GPU of its own if there are enough, else one after the other in turn. A
// choice of the user or of a scheduler stays.
void choose_gpu(const RankHost& host) {
  int gpus = 0;
  std::error_code none;
  while (std::filesystem::exists(fmt::format("/dev/nvidia{}", gpus), none)) ++gpus;
  if (gpus > 0) setenv("CUDA_VISIBLE_DEVICES", std::to_string(host.rank % gpus).c_str(), 0);
}

// What is said of a rank that was lost, with where the run goes on.
std::string with_checkpoint(const std::string& error, const std::string& out) {
  const std::string last = newest_checkpoint(out + "/checkpoints");
  if (last.empty() || error.find(last) != std::string::npos) return error;
  return fmt::format("{}; its last checkpoint is {}: go on with --resume", error, last);
}

// The configuration and the data of so many ranks.
Setup prepare(const TrainArguments& o, int ranks, bool quiet) {
  const std::string beside = o.run.out + "/config.toml";
  std::error_code none;
  const bool goes_on = o.run.resume && std::filesystem::exists(beside, none);
  RunConfig config = load_config(o.start, goes_on ? beside : "", quiet);
  make_init_absolute(config);
  const std::string& init = config.train.init;
  // A run that goes on has a tokenizer of its own; what it started from may be gone.
  const std::string own = o.run.resume ? newest_checkpoint(o.run.out + "/checkpoints") : "";
  if (own.empty() && !init.empty()) find_checkpoint(init);  // before anything is loaded
  if (!own.empty()) take_tokenizer_files(config, own);
  Setup setup = [&] {
    Progress progress(quiet);
    pack_named_pictures(config, !own.empty() ? own : init.empty() ? "" : find_checkpoint(init), progress);
    return open_data(config, own.empty() ? nullptr : own_tokenizer(own, config),
                     progress.share_of("reading text"));
  }();
  if (!goes_on) fit_batch(o.start, setup, quiet);
  if (!own.empty() || !init.empty()) take_from_model(setup, own.empty() ? find_checkpoint(init) : own);
  if (int& slots = setup.config.ranks.slots; slots == 0) {
    slots = goes_on ? load_config(beside, with_families({})).ranks.slots : ranks > 1 ? ranks : 0;
  }
  check_ranks(setup.config, ranks);
  return setup;
}

int train_as(const TrainArguments& o, const Setup& setup, Ranks& ranks) {
  const TrainResult result = train(setup, *make_model(setup.config), o.run, ranks);
  if (!ranks.is_first()) return kDone;
  if (o.json) {
    print_answer(nlohmann::ordered_json::parse(result.summary), true);
  } else {
    print_for_people(result, setup.config, o.run.out);
  }
  return result.interrupted ? kInterrupted : result.diverged ? kRunFailed : kDone;
}

// One of the processes of mpirun or srun: each reads the data for itself.
int train_launched(const TrainArguments& o, const Launch& launch) {
  constexpr double kTimeout = 120;  // until the configuration is known
  return run_launched(
      launch, kTimeout,
      [&](Ranks& ranks) {
        if (o.ranks > 1 && o.ranks != ranks.size()) {
          throw UsageError(fmt::format("--ranks {}, but {} started {} processes: leave out --ranks there",
                                       o.ranks, launch.by, ranks.size()));
        }
        const Setup setup = prepare(o, ranks.size(), o.run.quiet || !ranks.is_first());
        ranks.set_timeout(setup.config.ranks.timeout_seconds);
        check_agreement(setup, ranks);
        choose_gpu(ranks.host());
        return train_as(o, setup, ranks);
      },
      [&](const std::string& error) { return with_checkpoint(error, o.run.out); });
}

int run_train(const TrainArguments& o) {
  if (const auto launch = launch_of(&std::getenv)) return train_launched(o, *launch);
  const Setup setup = prepare(o, o.ranks, o.run.quiet);
  if (o.ranks == 1) return train_as(o, setup, alone());
  try {
    return run_on_ranks(o.ranks, setup.config.ranks.timeout_seconds, [&](Ranks& ranks) {
      choose_gpu(ranks.host());
      return train_as(o, setup, ranks);
    });
  } catch (const RankLost& e) {
    throw RunError(with_checkpoint(e.what(), o.run.out));
  }
}

}  // namespace

void add_train_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<TrainArguments>();
  CLI::App* command = program.add_subcommand("train", "Train a network and keep the run in a folder");
  add_start_arguments(*command, o->start);
  command->add_option("--out", o->run.out, "folder of the run, made if missing")
      ->required()
      ->check(kNotEmpty)
      ->type_name("DIR");
  command->add_flag("--resume", o->run.resume,
                    "go on from the newest checkpoint in DIR, or start where there is none");
  command
      ->add_option("--ranks", o->ranks,
                   "processes of this machine that share the run and its memory (ranks.slots)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command->add_flag("--quiet", o->run.quiet, "no progress on standard error");
  command->add_flag("--json", o->json, "print the run's summary as one JSON object");
  command->footer(
      R"(DIR gets config.toml (resolved), log.jsonl and checkpoints/step_NNNNNNNN/. Ctrl-C or `lpmm stop DIR`
ends the run at the next step with a checkpoint; a second Ctrl-C at once. Keys for --set are those of the
file, as train.epochs or optimizer.learning_rate: `lpmm config` lists them all.
Examples:
  lpmm train resnet20_cifar10 --preset lpmm --set train.epochs=10 --out runs/r20
  lpmm train resnet8_drawn --preset lpmm-min --rounding rn --out runs/rn --json
  lpmm train --out runs/r20 --resume
  lpmm train gpt_tiny_embedded --preset lpmm-min --set train.microbatches=4 --ranks 4 --out runs/gpt
  mpirun -n 4 --host a:2,b:2 lpmm train gpt_tiny_embedded --set train.microbatches=4 --out runs/gpt
  lpmm train --init runs/minilm --set data.path=reviews.csv --out runs/reviews
  lpmm train --init runs/resnet50 --set data.path=PHOTOS/ --out runs/photos)");
  on_selected(*command, action, o, run_train);
}

}  // namespace lpmm
