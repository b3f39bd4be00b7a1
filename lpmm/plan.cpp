#include "lpmm/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/pool.h"
#include "lpmm/data.h"
#include "lpmm/error.h"
#include "lpmm/progress.h"

namespace lpmm {
namespace {

constexpr std::int64_t kCifarTrain = 50'000, kCifarTest = 10'000;
constexpr std::int64_t kBatches = 5;  // the prefetcher's slots and one test batch
// As seen on one machine, rounded up: pages of the program and its libraries that a run touches, and what a
// thread's stack and the heap keep besides what is counted.
constexpr std::int64_t kOverhead = 12'000'000, kThreadOverhead = 500'000;

}  // namespace

RunConfig resolve_data(const RunConfig& config) {
  RunConfig out = config;
  if (out.data.set == "auto") out.data.set = has_cifar10(data_folder()) ? "cifar10" : "drawn";
  if (reads_tokens(out.model) != (out.data.set == "text")) {
    throw UsageError(fmt::format("model.name = {} reads {}, but data.set = {} holds {}", out.model.name,
                                 reads_tokens(out.model) ? "text" : "images", out.data.set,
                                 out.data.set == "text" ? "text" : "images"));
  }
  if (out.data.set != "text") return out;
  out.model = complete(out.model);
  if (out.data.text.length == 0) out.data.text.length = out.model.context;
  out.model.length = out.data.text.length;
  const std::int64_t vocabulary = TextData(out.data.text).tokenizer()->vocabulary();
  if (out.model.vocabulary == 0) out.model.vocabulary = static_cast<int>(vocabulary);
  if (out.model.vocabulary < vocabulary) {
    throw UsageError(
        fmt::format("model.vocabulary = {}, but the tokens of {} go up to {}", out.model.vocabulary,
                    out.data.text.path.empty() ? "the text" : out.data.text.path, vocabulary - 1));
  }
  return out;
}

DataSize data_size(const RunConfig& config) {
  if (config.data.set == "text") {
    const TextData text(config.data.text);
    return {text.train_examples(), text.test_examples(), text.bytes(),
            text.labels() * 2 * std::int64_t{sizeof(std::int32_t)}};
  }
  const std::int64_t pixels = std::int64_t{config.model.height} * config.model.width * config.model.channels;
  DataSize size{config.data.train_images, config.data.test_images, 0,
                pixels * std::int64_t{sizeof(float)} + std::int64_t{sizeof(std::int32_t)}};
  if (config.data.set == "cifar10") size.train_examples = kCifarTrain, size.test_examples = kCifarTest;
  size.bytes = (size.train_examples + size.test_examples) * (pixels + 1);
  return size;
}

Plan make_plan(const RunConfig& given, const Model& model) {
  const RunConfig config = resolve_data(given);
  check_policy(config.policy, model.tensors());
  check_groups(config.optimizer, model.tensors());
  Plan plan;
  plan.ledger = memory_ledger(model.tensors(), config.policy, config.optimizer);
  const Buffers buffers(model.buffers());
  plan.ledger.buffers = buffers.bytes();
  const int threads = config.train.threads > 0 ? config.train.threads : Pool::usable_processors();
  const int examples = config.train.batch / config.train.microbatches;
  const auto program = model.build(examples, config.train.compute, threads);
  plan.ledger.activations = program->activation_bytes();
  plan.ledger.workspace = program->workspace_bytes() + buffers.bytes();  // a step's proposals
  const DataSize data = data_size(config);
  plan.data_bytes = data.bytes + kBatches * examples * data.example_bytes;
  plan.overhead_bytes = kOverhead + threads * kThreadOverhead;
  plan.peak_bytes = plan.ledger.model_memory() + plan.ledger.activations + plan.ledger.workspace +
                    plan.data_bytes + plan.overhead_bytes;
  return plan;
}

void check_memory(const Plan& plan, std::int64_t available) {
  if (plan.peak_bytes <= available) return;
  throw RunError(
      fmt::format("not enough memory: the run takes {} (model {}, activations {}, workspace {}, data {}), {} "
                  "are available. "
                  "Use a smaller preset, train.batch or model, or more train.microbatches",
                  format_bytes(plan.peak_bytes), format_bytes(plan.ledger.model_memory()),
                  format_bytes(plan.ledger.activations), format_bytes(plan.ledger.workspace),
                  format_bytes(plan.data_bytes), format_bytes(available)));
}

nlohmann::ordered_json model_memory_json(const Ledger& ledger) {
  nlohmann::ordered_json j;
  for (int r = 0; r < kRoles; ++r) {
    j[std::string(to_string(static_cast<Role>(r)))] = ledger.role_bytes(static_cast<Role>(r));
  }
  j["exempt"] = ledger.exempt;
  j["buffers"] = ledger.buffers;
  j["total"] = ledger.model_memory();
  return j;
}

nlohmann::ordered_json plan_json(const Plan& plan) {
  return {{"parameters", plan.ledger.parameters},
          {"bits_per_parameter", plan.ledger.bits_per_parameter()},
          {"model_memory_bytes", model_memory_json(plan.ledger)},
          {"activation_bytes", plan.ledger.activations},
          {"workspace_bytes", plan.ledger.workspace},
          {"data_bytes", plan.data_bytes},
          {"overhead_bytes", plan.overhead_bytes},
          {"peak_bytes", plan.peak_bytes}};
}

}  // namespace lpmm
