#include "lpmm/run/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "lpmm/ranks/ranks.h"
#include "lpmm/run/beside/reference.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/stored_weights.h"

namespace lpmm {

namespace {

struct TestBatch {
  std::int64_t first, count;
  std::size_t part;
};

// Each is of one part.
std::vector<TestBatch> test_batches(std::span<const TestPart> parts, std::int64_t examples) {
  std::vector<TestBatch> all;
  std::int64_t first = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (const std::int64_t end = first + parts[part].examples; first < end; first += all.back().count) {
      all.push_back({first, std::min(examples, end - first), part});
    }
  }
  return all;
}

}  // namespace

Tested run_test(Program& program, const ModelMemory& memory, const Buffers& buffers, const DataSource& data,
                int examples, const ProgressCall& progress) {
  Tested tested;
  Batch batch;
  std::vector<float> outputs, more;
  std::vector<BatchResult> results;
  Ranks& ranks = memory.ranks();
  const std::vector<TestPart> parts = data.test_parts();
  const std::vector<TestBatch> all = test_batches(parts, examples);
  // Neighbouring batches are of one rank, so that what ranks found is in order.
  const std::int64_t batches = std::ssize(all), end = batches * (ranks.rank() + 1) / ranks.size();
  for (std::int64_t i = batches * ranks.rank() / ranks.size(); i < end; ++i) {
    const auto [first, count, part] = all[static_cast<std::size_t>(i)];
    data.make_test_batch(first, count, batch);
    results.push_back(program.evaluate(memory, buffers, batch, data.has_scores() ? &more : nullptr));
    if (data.has_scores()) outputs.insert(outputs.end(), more.begin(), more.end());
    if (progress) progress(first + count, data.test_examples());
  }
  ranks.now_in(memory.last_step(), "test");
  std::vector<Meter> of_parts(parts.size());
  std::size_t at = 0;
  for (const BatchResult& result : ranks.all_of<BatchResult>(results)) {
    tested.meter += result;
    of_parts[all[at++].part] += result;
  }
  const auto has_some = [](const TestPart& part) { return part.examples > 0; };
  const bool are_several = std::ranges::count_if(parts, has_some) > 1;
  for (std::size_t i = 0; are_several && i < parts.size(); ++i) {
    if (has_some(parts[i])) tested.losses.emplace_back(parts[i].name, of_parts[i].loss());
  }
  if (data.has_scores()) outputs = ranks.all_of<float>(outputs);
  if (data.has_scores()) tested.scores = data.score(outputs);
  if (data.referred() != nullptr) {
    tested.scores = {{"accuracy", tested.meter.accuracy()}, {"margin", tested.meter.margin()}};
  }
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

// The data as the run of a checkpoint compares it: with the reference that it keeps, else, as other data has
// none there, with what the model says that the run began with. That is loaded into `memory` and leaves it.
std::shared_ptr<const DataSource> referred_to_start(const std::shared_ptr<const DataSource>& data,
                                                    const Setup& setup, const Model& model,
                                                    const std::string& checkpoint, Program& program,
                                                    ModelMemory& memory, Buffers& buffers,
                                                    const ProgressCall& progress) {
  const ReferredData* referred = data->referred();
  if (referred == nullptr) return data;
  const std::string own = config_of_run(checkpoint);
  if (own.empty()) {
    throw UsageError(fmt::format(
        "{}: has no run's config.toml beside it, which says what model its answers are compared with",
        checkpoint));
  }
  const std::string run = std::filesystem::path(own).parent_path();
  std::string why;
  auto kept = kept_reference(run, *referred, why);
  if (kept) return referred->with_reference(*std::move(kept));
  const std::string weights = referred_weights(run);
  if (weights.empty()) {
    throw UsageError(fmt::format(
        "{}; pairs of answers are compared with the model that a run on {} began with, which it keeps there",
        why, setup.config.data.set));
  }
  if (!setup.config.policy.averaged.empty()) {
    throw UsageError(fmt::format("{}; an average (--average) is compared on the run's own pairs only", why));
  }
  set_initial_parameters(load_config(own, {.families = setup.config.families}), model, memory, buffers,
                         setup.class_names);
  if (weights_checksum(memory) != weights) {
    throw UsageError(
        fmt::format("{}; and train.init has other weights than those that the run began with: put them back, "
                    "as a checkpoint of that run",
                    why));
  }
  const int examples = setup.config.train.batch / setup.config.train.microbatches;
  return referred->with_reference(ask_reference(*referred, program, memory, buffers, examples, progress));
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
  auto data = load_data(setup, device->host_pool());
  if (data->test_examples() == 0) {
    throw UsageError(fmt::format(
        "{}: has nothing to test on (data.validation_share); name other data (--data)", data->name()));
  }
  const int examples = config.train.batch / config.train.microbatches;
  const auto program = model.build(examples, config.train.compute, *device, setup.size.longest);
  data = referred_to_start(data, setup, model, checkpoint, *program, memory, buffers, progress);
  load_checkpoint(checkpoint, config.model.name, memory, buffers);
  Tested tested = run_test(*program, memory, buffers, *data, examples, progress);
  setup.task->add_scores({config, model, memory, *device}, false, progress, tested.scores);
  const bool is_of_pairs = data->referred() != nullptr;
  return {
      tested.meter.loss(), tested.meter.accuracy(), data->test_items(), data->test_unit(),
      checkpoint,          tested.scores,           tested.losses,      !data->has_scores() && !is_of_pairs,
      !is_of_pairs};
}

}  // namespace lpmm
