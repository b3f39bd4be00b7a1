// Training of a model, as a run: a folder with config.toml, log.jsonl, checkpoints/.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lpmm/program/program.h"
#include "lpmm/run/setup.h"

namespace lpmm {

struct TrainOptions {
  std::string out;      // the run's folder, made if missing
  bool resume = false;  // go on from the newest checkpoint, or start where there is none
  bool quiet = false;   // no progress
};

struct TrainResult {
  bool interrupted = false;  // by Ctrl-C; a checkpoint was saved
  bool diverged = false;     // it came to its end, but its loss is lost
  std::string summary;       // the last record of the log, one JSON object
  double seconds = 0;        // with tests and saves; of processes before this one, their steps alone
};

// Trains to the end of the configured steps. The run is bit-equal for any number of threads and however often
// it was stopped and resumed. SIGINT and SIGTERM end it at the next step boundary; a second one exits at
// once. Throws UsageError for a folder that holds a run already (without `resume`) or another run (with it),
// RunError where memory or disk do not suffice or gradients failed too often in a row.
//
// Ranks train it together: all call this, with one machine's files and equal settings. The first one has the
// folder, the log and the terminal, and its result counts. Stored bytes and losses are those of any number.
TrainResult train(const Setup& setup, const Model& model, const TrainOptions& options,
                  Ranks& ranks = alone());

}  // namespace lpmm
