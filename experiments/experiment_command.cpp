// `lpmm experiment NAME`.
#include "experiments/experiment.h"

namespace lpmm {
namespace {

void add_memory(CLI::App& experiments, Action& action) {
  auto o = std::make_shared<MemoryExperiment>();
  o->out = "runs/memory";
  CLI::App* command = experiments.add_subcommand(
      "memory", "Bytes by role of every model and preset, planned and measured, and the largest that fit");
  command->add_option("--out", o->out, "folder of tables and charts, made if missing")
      ->type_name("DIR")
      ->check(kNotEmpty)
      ->capture_default_str();
  command->add_option("--configs", o->configs, "folder of the shipped configurations")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory.description(""))
      ->capture_default_str();
  command->add_option("--presets", o->presets, "memory policies")
      ->delimiter(',')
      ->check(kNotEmpty)
      ->capture_default_str();
  command->add_option("--models", o->models, "pattern of the models that are planned and measured")
      ->capture_default_str();
  // Up to where neither 96 layers nor 256 times the channels are the limit.
  CLI::Option* gigabytes =
      command->add_option("--gigabytes", o->gigabytes, "sizes of memory to fill, up to 200")
          ->delimiter(',')
          ->check(CLI::Range(1, 200).description(""))
          ->capture_default_str();
  command->add_flag("--quick", o->quick, "measure only models up to 130 M parameters, and fill only 6 GB")
      ->excludes(gigabytes);
  add_threads_option(*command, o->threads);
  command->footer(
      "Models up to 10^9 parameters that fit into this machine train two steps in a process of their own;\n"
      "those that did already are not trained again. What it found: experiments/memory/README.md.\n"
      "Example:\n  lpmm experiment memory --quick --out runs/memory");
  on_selected(*command, action, o, run_memory_experiment);
}

}  // namespace

void add_experiment_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("experiment", "Repeat one of the published measurements");
  command->require_subcommand(1);
  add_memory(*command, action);
}

}  // namespace lpmm
