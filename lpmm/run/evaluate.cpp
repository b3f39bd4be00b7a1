#include "lpmm/run/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "lpmm/ranks/ranks.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/stored_weights.h"

namespace lpmm {

Tested run_test(Program& program, const ModelMemory& memory, const Buffers& buffers, const DataSource& data,
                int examples, const ProgressCall& progress) {
  Tested tested;
  Batch batch;
  std::vector<float> outputs, more;
  std::vector<BatchResult> results;
  Ranks& ranks = memory.ranks();
  const std::int64_t all = data.test_examples(), batches = (all + examples - 1) / examples;
  // Neighbouring batches are of one rank, so that what ranks found is in order.
  const std::int64_t end = batches * (ranks.rank() + 1) / ranks.size();
  for (std::int64_t i = batches * ranks.rank() / ranks.size(); i < end; ++i) {
    const std::int64_t first = i * examples;
    data.make_test_batch(first, std::min<std::int64_t>(examples, all - first), batch);
    results.push_back(program.evaluate(memory, buffers, batch, data.has_scores() ? &more : nullptr));
    if (data.has_scores()) outputs.insert(outputs.end(), more.begin(), more.end());
    if (progress) progress(std::min(all, first + examples), all);
  }
  ranks.now_in(memory.last_step(), "test");
  for (const BatchResult& result : ranks.all_of<BatchResult>(results)) tested.meter += result;
  if (data.has_scores()) outputs = ranks.all_of<float>(outputs);
  if (data.has_scores()) tested.scores = data.score(outputs);
  return tested;
}

namespace {

// Throws where the data asks for something else than the model tells.
void check_classes(const Setup& setup, const std::string& checkpoint) {
  const ModelConfig& model = setup.config.model;
  if (model.family->head.empty()) return;
  const StoredWeights weights(checkpoint);
  if (weights.model() != model.name) return;  // which is an error of its own
  const int told = stored_classes(weights, model);
  const Json run = checkpoint_run(checkpoint);
  if (told == model.classes && !has_other_classes(run, setup.class_names)) return;
  throw UsageError(fmt::format("{}: {}; name data that has the model's, or fine-tune it (lpmm train --init)",
                               checkpoint, compare_classes(run, told, setup.config, setup.class_names)));
}

}  // namespace

EvalResult evaluate(const Setup& setup, const Model& model, const std::string& checkpoint,
                    const ProgressCall& progress) {
  check_classes(setup, checkpoint);
  RunConfig config = setup.config;
  config.optimizer.frozen = true;
  config.data.bleu = true;
  const auto device = make_device(config.train.device, config.train.threads);
  Setup whole = setup;
  whole.config = config;
  check_memory(make_plan(whole, model, *device), *device);
  ModelMemory memory(model.tensors(), config.policy, config.optimizer, config.train.seed,
                     config.train.microbatches, *device);
  Buffers buffers(model.buffers(), *device);
  load_checkpoint(checkpoint, config.model.name, memory, buffers);
  const auto data = load_data(setup, device->host_pool());
  if (data->test_examples() == 0) {
    throw UsageError(fmt::format(
        "{}: has nothing to test on (data.validation_share); name other data (--data)", data->name()));
  }
  const int examples = config.train.batch / config.train.microbatches;
  const auto program = model.build(examples, config.train.compute, *device, setup.size.longest);
  Tested tested = run_test(*program, memory, buffers, *data, examples, progress);
  setup.task->add_scores({config, model, memory, *device}, false, progress, tested.scores);
  return {tested.meter.loss(), tested.meter.accuracy(), data->test_items(), data->unit(),
          checkpoint,          tested.scores,           !data->has_scores()};
}

}  // namespace lpmm
