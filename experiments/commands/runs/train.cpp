// `lpmm train`: a run that is kept in a folder.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/trainer.h"
#include "models/models.h"

namespace lpmm {
namespace {

// That of the run's newest checkpoint.
std::unique_ptr<Tokenizer> own_tokenizer(const std::string& checkpoint, const RunConfig& config) {
  try {
    return saved_tokenizer(checkpoint, config);
  } catch (const RunError& e) {
    throw RunError(fmt::format("{}. {}", e.what(), earlier_checkpoint(checkpoint)));
  }
}

struct TrainArguments {
  ConfigArguments config;
  std::string init;
  TrainOptions run;
  bool json = false;
};

int run_train(const TrainArguments& o) {
  RunConfig config = o.config.load();
  if (!o.init.empty()) config.train.init = o.init;
  std::string& init = config.train.init;
  if (!init.empty()) init = std::filesystem::absolute(init).lexically_normal().string();
  // A run that goes on has a tokenizer of its own; what it started from may be gone.
  const std::string own = o.run.resume ? newest_checkpoint(o.run.out + "/checkpoints") : "";
  if (own.empty() && !init.empty()) find_checkpoint(init);  // before anything is loaded
  const Setup setup = open_data(config, own.empty() ? nullptr : own_tokenizer(own, config), o.run.quiet);
  const TrainResult result = train(setup, *make_model(setup.config.model), o.run);
  print_answer(nlohmann::ordered_json::parse(result.summary), o.json);
  return result.interrupted ? kInterrupted : result.diverged ? kRunFailed : 0;
}

}  // namespace

void add_train_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<TrainArguments>();
  CLI::App* command = program.add_subcommand("train", "Train a network and keep the run in a folder");
  add_config_arguments(*command, o->config);
  command->add_option("--out", o->run.out, "folder of the run, made if missing")
      ->required()
      ->type_name("DIR");
  command->add_flag("--resume", o->run.resume,
                    "go on from the newest checkpoint in DIR, or start where there is none");
  command
      ->add_option("--init", o->init,
                   "start from the parameters of this run or checkpoint, as train.init (fine-tuning)")
      ->type_name("CHECKPOINT");
  command->add_flag("--quiet", o->run.quiet, "no progress on standard error");
  command->add_flag("--json", o->json, "print the run's summary as one JSON object");
  command->footer(
      R"(DIR gets config.toml (resolved), log.jsonl and checkpoints/step_NNNNNNNN/. Ctrl-C ends the run
at the next step with a checkpoint; a second one at once. Keys for --set: train.epochs,
train.steps, train.batch, train.microbatches, train.seed, train.compute (bf16, fp32),
optimizer.learning_rate, checkpoint.every_steps, checkpoint.final, log.tensors (which
underflow records tell of every tensor: last, all), data.set (cifar10, drawn,
auto) and every other key of the file.
Examples:
  lpmm train experiments/configs/resnet20_cifar10.toml --preset lpmm --set train.epochs=10 --out runs/r20
  lpmm train experiments/configs/resnet8_drawn.toml --preset lpmm-min --rounding rn --out runs/rn --json
  lpmm train experiments/configs/resnet20_cifar10.toml --out runs/r20 --resume)");
  on_selected(*command, action, o, run_train);
}

}  // namespace lpmm
