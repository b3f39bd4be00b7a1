// A configuration with its data, which is opened once for whoever plans, builds and runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/threads/pool.h"
#include "lpmm/base/host.h"
#include "lpmm/program/program.h"
#include "lpmm/ranks/ranks.h"
#include "lpmm/run/config.h"
#include "lpmm/run/tasks/task.h"

namespace lpmm {

struct Setup {
  std::int64_t rss_at_start = rss_bytes();  // before any data was read
  RunConfig config = {};                    // with what only the data says
  std::shared_ptr<const Task> task = {};
  std::vector<std::string> class_names = {};  // in their order; empty: the data names none
  bool numbers_classes = false;               // their names are the model's, the data has numbers
  DataSize size = {};
  // The files of the run whose model it is for (model_files.h), empty where it keeps none; nothing: those of
  // train.init.
  std::optional<std::string> model_files = {};
};

// Throws UsageError where the model does not read such a set, with what reads it.
void check_set(const ModelConfig& model, const std::string& set, const FamilyList& families);

// Opens the data that `given` names and fits the model to it. Tokens are made by `own`, else by the tokenizer
// of train.init, else as the configuration says. `progress` counts bytes of text encoded. Throws UsageError
// where model and data do not go together, and what Task::open throws.
Setup open_data(const RunConfig& given, std::unique_ptr<Tokenizer> own = nullptr,
                const ProgressCall& progress = {});
// The same, with the data of `other` where both mean the same one.
Setup open_data(const RunConfig& given, const Setup& other);

// Takes settings that only data decides from a run of the same configuration, so that no data is needed.
// Returns false if the tokenizer of train.init decides as well.
bool take_from_run(RunConfig& config, const RunConfig& run);

// The model as a run of that configuration trains it: without accumulators it gathers gradients, unless an
// override gives one to tied tensors.
std::unique_ptr<Model> make_model(const RunConfig& config);

// Steps of the whole run; 0 where a batch is more than the examples and the configuration gives epochs.
std::int64_t steps_of(const Setup& setup);

// train.init as it is found from any folder: what it says is seen from the current one.
void make_init_absolute(RunConfig& config);

// The config.toml of the run that a checkpoint lies in; empty: there is none.
std::string config_of_run(const std::string& checkpoint);

// The files of a tokenizer, for a configuration that names none, are where the run of that checkpoint had
// them.
void take_tokenizer_files(RunConfig& config, const std::string& checkpoint);

// Returns a batch that so many training examples fill at least once, mostly twice.
int batch_for(std::int64_t examples);

// Throws UsageError for what is not trained: a model that only embeds, fewer examples than a batch takes,
// more steps than can be counted, a last batch that is filled up and normalised by its own statistics.
void check_trained(const Setup& setup, const Model& model);

// Throws UsageError where so many ranks cannot share the run.
void check_ranks(const RunConfig& config, int ranks);
// Throws UsageError on a rank whose program, configuration or data is another than that of the first. All
// call it.
void check_agreement(const Setup& setup, Ranks& ranks);
// The threads of each of so many ranks that share those of the run, or of a host; 0: all processors.
int threads_of(const RunConfig& config, int ranks);

// The tokenizer that a run of text or sentences saved with a checkpoint; null where there is none. `config`
// says where its files are. Throws RunError naming the checkpoint.
std::unique_ptr<Tokenizer> saved_tokenizer(const std::string& checkpoint, const RunConfig& config);

inline std::shared_ptr<const DataSource> load_data(const Setup& setup, Pool& pool) {
  return setup.task->source(setup, pool);
}

}  // namespace lpmm
