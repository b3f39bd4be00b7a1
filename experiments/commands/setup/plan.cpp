// `lpmm plan`: what a run will take, without running it.
#include "lpmm/run/plan.h"

#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "models/models.h"

namespace lpmm {
namespace {

struct Options {
  ConfigArguments config;
  bool json = false;
};

int run(const Options& o) {
  const Setup setup(o.config.load());
  print_answer(plan_json(make_plan(setup, *make_model(setup.config.model))), o.json);
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      program.add_subcommand("plan", "Say what a run will take in memory, to the byte, without running it");
  add_config_arguments(*command, o->config);
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(Prints parameters, bits_per_parameter (of model_memory_bytes.total), model_memory_bytes by role,
exempt and buffers, activation_bytes, workspace_bytes, largest_transient_bytes (the largest piece of
a parameter or gradient that is ever unpacked at once) and peak_bytes (what the run adds to its
resident memory).
Examples:
  lpmm plan experiments/configs/resnet20_cifar10.toml --preset lpmm
  lpmm plan experiments/configs/resnet20_cifar10.toml --preset lpmm-min --set train.batch=512 --json)");
  on_selected(*command, action, o, run);
}

}  // namespace lpmm
