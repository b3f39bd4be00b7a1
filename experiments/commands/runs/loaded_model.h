// A trained language model as commands take it from a checkpoint.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/program/program.h"
#include "lpmm/run/config.h"
#include "lpmm/run/tasks/tasks.h"

namespace lpmm {

// The config that a run keeps beside its checkpoints. Throws UsageError where there is none.
std::string config_beside(const std::string& checkpoint);

// The same as a configuration that trains nothing, for a model that reads `task`. Throws UsageError for
// another.
// `averages`: its parameters are the averages that the checkpoint has (take_averages).
RunConfig evaluated_config(const std::string& checkpoint, const TaskRow& task,
                           const std::vector<std::string>& settings = {}, bool averages = false);
// Adds --average.
void add_average_option(CLI::App& command, bool& averages);

// The error for a text model whose checkpoint holds no tokenizer.
RunError no_tokenizer(const std::string& checkpoint);

// The description of a tokenizer beside a model in Hugging Face's layout; their own file has another form.
inline constexpr const char* kOwnTokenizer = "lpmm_tokenizer.json";

struct LoadedModel {
  // find_checkpoint takes `path`. Memory is taken for the parameters alone. Throws UsageError for a model
  // that reads something else.
  LoadedModel(const std::string& path, int threads, const TaskRow& task = kTextTask, bool averages = false);

  std::string checkpoint;
  RunConfig config;
  CpuDevice device;
  std::unique_ptr<Model> model;
  ModelMemory memory;
  // Throws RunError where the checkpoint was saved without one.
  const Tokenizer& tokenizer();

  // Feeds tokens after those that `state` has seen.
  void infer(std::span<const std::int32_t> tokens, Inference& state);

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Program> one_, several_;  // for single tokens, and for as many as came together last
  std::size_t length_ = 0;                  // the length that several_ is built for
};

}  // namespace lpmm
