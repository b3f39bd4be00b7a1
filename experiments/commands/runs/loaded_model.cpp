#include "experiments/commands/runs/loaded_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/run_folder.h"
#include "lpmm/run/setup.h"
#include "models/families.h"

namespace lpmm {
std::string config_beside(const std::string& checkpoint) {
  std::string path = config_of_run(checkpoint);
  if (path.empty()) {
    throw UsageError(
        fmt::format("{}: has no config.toml of its run, which lies beside the folder checkpoints: name it "
                    "within its run's folder, or copy that whole, with config.toml and {}",
                    checkpoint, kModelFiles));
  }
  check_config_seal(path);
  return path;
}

RunConfig evaluated_config(const std::string& checkpoint, const TaskRow& task,
                           const std::vector<std::string>& settings, bool averages) {
  RunConfig config = load_config(config_beside(checkpoint), with_families({.settings = settings}));
  const TaskRow& own = task_of(config.model);
  if (&own != &task) {
    throw UsageError(fmt::format("{}: is a {}, which reads {}; this needs a model of {}", checkpoint,
                                 config.model.name, own.reads, task.reads));
  }
  config.optimizer.frozen = true;
  if (averages) take_averages(config.policy, checkpoint);
  return config;
}

void add_average_option(CLI::App& command, bool& averages) {
  command.add_flag("--average", averages,
                   "take the average of the weights that train.average kept, in place of the last weights");
}

RunError no_tokenizer(const std::string& checkpoint) {
  return RunError(
      fmt::format("{}/state.json: has no tokenizer, so this model reads ids but no text", checkpoint));
}

LoadedModel::LoadedModel(const std::string& path, int threads, const TaskRow& task, bool averages)
    : checkpoint(find_checkpoint(path)),
      config(evaluated_config(checkpoint, task, {}, averages)),
      device(threads),
      model(make_model(config.model)),
      memory(model->tensors(), config.policy, config.optimizer, config.train.seed, config.train.microbatches,
             device) {
  Buffers none(model->buffers(), device);
  load_checkpoint(checkpoint, config.model.name, memory, none);
}

const Tokenizer& LoadedModel::tokenizer() {
  if (tokenizer_ == nullptr) tokenizer_ = saved_tokenizer(checkpoint, config);
  if (tokenizer_ == nullptr) throw no_tokenizer(checkpoint);
  return *tokenizer_;
}

void LoadedModel::infer(std::span<const std::int32_t> tokens, Inference& state) {
  const std::size_t length = tokens.size();
  std::unique_ptr<Program>& program = length == 1 ? one_ : several_;
  if (program == nullptr || (length != 1 && length != length_)) {
    program = nullptr;  // its memory goes first
    program = model->build_inference(static_cast<int>(length), config.train.compute, device);
    if (length != 1) length_ = length;
  }
  program->infer(memory, tokens, state);
}

}  // namespace lpmm
