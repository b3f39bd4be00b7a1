// Runs that start from a model: what a command line with --init leaves open.
#pragma once

#include <string>

#include "experiments/commands/arguments.h"
#include "lpmm/run/setup.h"

namespace lpmm {

struct StartArguments {
  ConfigArguments config;  // whose path is empty where no CONFIG was given
  std::string init;        // a run or checkpoint to start from, or empty
};
// CONFIG, which may be left out, and --init.
void add_start_arguments(CLI::App& command, StartArguments& arguments);

// CONFIG, with the sizes of the model of --init where it names another one of that family. Without CONFIG:
// the recipe for what that model reads (experiments/configs/tune_*.toml), which standard error is told of
// unless `quiet`. `own` is the config.toml of a run that goes on, or empty: it stands for a CONFIG that is
// left out, and for --init, which may be gone.
RunConfig load_config(const StartArguments& arguments, const std::string& own, bool quiet);

// Where a recipe decides the batch, and the data has fewer examples than that: takes one that fits, which
// standard error is told of unless `quiet`.
void fit_batch(const StartArguments& arguments, Setup& setup, bool quiet);

}  // namespace lpmm
