// `lpmm experiment NAME`.
#include <fmt/format.h>

#include <filesystem>

#include "experiments/commands/arguments.h"
#include "experiments/glue/glue.h"
#include "experiments/memory/memory_experiment.h"
#include "experiments/sweep/grid_experiment.h"

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
  add_svg_option(*command, o->svg);
  add_threads_option(*command, o->threads);
  command->footer(
      "Models up to 10^9 parameters that fit into this machine train two steps in a process of their own;\n"
      "those that did already are not trained again. What it found: experiments/memory/README.md.\n"
      "Example:\n  lpmm experiment memory --quick --out runs/memory");
  on_selected(*command, action, o, run_memory_experiment);
}

// The options that all experiments of grids have.
CLI::App* add_grid_options(CLI::App& experiments, const std::shared_ptr<GridExperiment>& o, const char* name,
                           const char* summary) {
  CLI::App* command = experiments.add_subcommand(name, summary);
  command->add_option("--out", o->out, "folder of runs, tables and charts, made if missing")
      ->type_name("DIR")
      ->check(kNotEmpty)
      ->capture_default_str();
  command->add_option("--seeds", o->seeds, "seeds in place of the grid's own, separated by commas")
      ->delimiter(',')
      ->check(kUnsigned);
  add_settings_option(*command, o->settings);
  command->add_flag("--quick", o->quick, "a corner of each grid, at most 5 minutes on 2 cores");
  command->add_flag("--draw", o->only_draws, "train nothing: tables and charts of what is finished in DIR");
  add_svg_option(*command, o->svg);
  command->add_option("--jobs", o->jobs, "trainings at a time")
      ->check(CLI::Range(1, 1024).description(""))
      ->capture_default_str();
  command->add_option("--threads", o->threads, "threads of a training (default: processors / jobs)")
      ->check(CLI::Range(1, 1024).description(""));
  return command;
}

// Adds the command of grids whose parts are shipped.
CLI::App* add_shipped_grids(CLI::App& experiments, const std::shared_ptr<GridExperiment>& o, const char* name,
                            const char* summary) {
  o->name = name;
  o->folder = fmt::format("experiments/{}", name);
  o->out = fmt::format("runs/{}", name);
  CLI::App* command = add_grid_options(experiments, o, name, summary);
  command->add_option("--folder", o->folder, "folder of its parts, a TOML file each")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory.description(""))
      ->capture_default_str();
  command->add_option("--parts", o->parts, "pattern of the parts that are run")->capture_default_str();
  return command;
}

int run_own_grid(const GridExperiment& given) {
  GridExperiment o = given;
  o.name = std::filesystem::path(o.file).stem().string();
  if (o.out.empty()) o.out = fmt::format("runs/{}", o.name);
  return run_grid_experiment(o);
}

void add_own_grid(CLI::App& experiments, Action& action) {
  auto o = std::make_shared<GridExperiment>();
  CLI::App* command = add_grid_options(experiments, o, kOwnGrid, "A grid of your own, from a TOML file");
  command->add_option("PATH", o->file, "what varies, what is drawn and what is expected")->required();
  command->footer(
      R"(A grid needs configs, and something that varies: presets, axes or seeds. A whole one, mine.toml:
  configs = ["resnet8_drawn"]            # names, or files as seen from the current folder
  presets = ["fp32", "lpmm-min"]
  baseline = "fp32"                      # the preset that gaps are measured against
  seeds = [1, 2]
  set = ["train.steps=100"]
  [axes]                                 # keys of a config; the spec of a role is a value like any other
  "memory.momentum" = ["soft4:block128:sr", "soft4:block128:qr"]
  [[chart]]
  x = "memory.momentum.rounding"
  y = "accuracy"
`lpmm experiment mine.toml` trains it into runs/mine, or the folder that --out names, and leaves mine.csv
and mine.png there. experiments/sweep/grid_experiment.h in lpmm's sources lists all keys of charts and
expectations.)");
  on_selected(*command, action, o, run_own_grid);
}

void add_grid(CLI::App& experiments, Action& action, const char* name, const char* summary) {
  auto o = std::make_shared<GridExperiment>();
  CLI::App* command = add_shipped_grids(experiments, o, name, summary);
  command->footer(fmt::format(
      "Stopped, it goes on with the same command. What was expected and found: experiments/{0}/README.md.\n"
      "Example:\n  lpmm experiment {0} --quick --out runs/{0}_quick",
      name));
  on_selected(*command, action, o, run_grid_experiment);
}

void add_glue(CLI::App& experiments, Action& action) {
  auto o = std::make_shared<GlueExperiment>();
  const std::shared_ptr<GridExperiment> grid(o, &o->grid);
  CLI::App* command =
      add_shipped_grids(experiments, grid, "glue", "Fine-tune an imported model for five tasks of sentences");
  command->add_option("--init", o->init, "run or checkpoint that every training starts from")
      ->required()
      ->type_name("CHECKPOINT");
  command
      ->add_option("--pytorch", o->pytorch,
                   "what experiments/zoo/glue.py printed (default: DIR/pytorch.jsonl, where it is)")
      ->type_name("FILE");
  command->footer(
      R"(A part for each task: sst2, cola, mrpc, rte, stsb. DIR/glue.md, .csv and .png have every task that
is done, also by an earlier command. Stopped, it goes on with the same command. What came out:
experiments/glue/README.md.
Example:
  lpmm import all-MiniLM-L6-v2/ --out runs/minilm --preset fp32
  lpmm experiment glue --init runs/minilm --parts rte --seeds 1,2,3 --out runs/glue)");
  on_selected(*command, action, o, run_glue_experiment);
}

}  // namespace

void add_experiment_command(CLI::App& program, Action& action) {
  CLI::App* command =
      program.add_subcommand("experiment", "Run an experiment: its trainings, tables and charts");
  command->require_subcommand(1);
  add_grid(*command, action, "underflow",
           "Rounding, bits of every role and step modes: what underflows, and what it costs");
  add_grid(*command, action, "microbatch",
           "Microbatches and accumulators: same samples per update, same update, same microbatch");
  add_grid(*command, action, "convergence", "Loss and accuracy of every preset over the run");
  add_memory(*command, action);
  add_grid(*command, action, "frontier", "Quality against bits per parameter over a search of policies");
  add_grid(*command, action, "optimizers", "Every rule under every preset, each at its best learning rate");
  add_glue(*command, action);
  add_own_grid(*command, action);
}

}  // namespace lpmm
