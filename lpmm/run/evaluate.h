// The test set through a model.
#pragma once

#include <cstdint>
#include <string>

#include "lpmm/base/progress.h"
#include "lpmm/program/program.h"
#include "lpmm/run/run_progress.h"
#include "lpmm/run/setup.h"

namespace lpmm {

struct Tested {
  Meter meter;
  DataSource::Scores scores;  // the set's other scores
  DataSource::Scores losses;  // of each file of several (DataSource::test_parts)
};
// All test examples, so many at a time. The ranks of the memory share them and all get the same.
Tested run_test(Program& program, const ModelMemory& memory, const Buffers& buffers, const DataSource& data,
                int examples, const ProgressCall& progress = {});
struct EvalResult {
  double loss = 0, accuracy = 0;
  std::int64_t items = 0;  // images, tokens or pairs, as `unit` says
  std::string unit;
  std::string checkpoint;
  DataSource::Scores scores, losses;
  bool has_accuracy = true;    // else the scores say it
  bool has_perplexity = true;  // where the loss is of text: else it is of pairs of answers
};
// The same of a checkpoint, with memory for the parameters alone and all scores that there are. `progress`
// counts images or sequences. Throws UsageError where the data has other classes than the model.
EvalResult evaluate(const Setup& setup, const Model& model, const std::string& checkpoint,
                    const ProgressCall& progress = {});

}  // namespace lpmm
