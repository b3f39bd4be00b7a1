#include "lpmm/run/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/device.h"
#include "lpmm/base/error.h"
#include "lpmm/base/host.h"
#include "lpmm/base/progress.h"
#include "lpmm/run/watch/watch.h"

namespace lpmm {
namespace {

constexpr std::int64_t kBatches = 5;  // the prefetcher's slots and one test batch
// Measured on machines with AVX2 (29 MB) and AVX-512 (35): pages of the program and its libraries that a run
// touches, code that oneDNN makes, and what a thread's stack and the heap keep besides what is counted.
constexpr std::int64_t kOverhead = 35'000'000, kThreadOverhead = 500'000;
// The host's memory of CUDA's runtime, cuBLASLt and cuDNN. Not measured yet: others report this.
constexpr std::int64_t kGpuOverhead = 500'000'000;

std::vector<ExemptTensors> exempt_tensors(const Policy& policy, const Model& model) {
  std::vector<ExemptTensors> all;
  for (const TensorInfo& t : model.tensors()) {
    const std::string why = why_exempt(policy, t);
    if (why.empty()) continue;
    auto row = std::find_if(all.begin(), all.end(), [&](const ExemptTensors& e) { return e.because == why; });
    if (row == all.end()) row = all.insert(row, {why});
    ++row->tensors;
    row->parameters += t.elements();
  }
  return all;
}

// "model 1 GB, activations 2 GB, workspace 3 MB", and what is translated for tests where it is.
std::string computing_parts(const Plan& plan) {
  const std::int64_t translations = plan.translation_bytes;
  return fmt::format("model {}, activations {}, workspace {}{}", format_bytes(plan.ledger.model_memory()),
                     format_bytes(plan.ledger.activations), format_bytes(plan.ledger.workspace),
                     translations > 0 ? fmt::format(", translations {}", format_bytes(translations)) : "");
}
std::string advice(const Plan& plan) {
  return fmt::format("Use a smaller preset, train.batch or model, or more train.microbatches{}",
                     plan.translation_bytes > 0 ? "; data.bleu = false translates nothing" : "");
}

}  // namespace

Plan make_plan(const Setup& setup, const Model& model, Device& device, int ranks, int rank) {
  const RunConfig& config = setup.config;
  const Sharding sharding{config.slots(), ranks, rank, config.ranks.stage};
  check_model_memory(model.tensors(), config.policy, config.optimizer, config.train.microbatches, sharding);
  Plan plan;
  plan.ledger = memory_ledger(model.tensors(), config.policy, config.optimizer, sharding);
  plan.sent = sent_bytes(model.tensors(), config.policy, config.optimizer, sharding);
  plan.exempt = exempt_tensors(config.policy, model);
  const std::int64_t histories = plan.ledger.buffers;  // of clipping, the host's
  const std::int64_t statistics = buffer_bytes(model.buffers());
  plan.ledger.buffers += statistics;
  const int examples = config.train.batch / config.train.microbatches;
  const auto program = model.build(examples, config.train.compute, device, setup.size.longest);
  plan.read_bytes = config.train.microbatches / ranks * program->passes() * plan.sent.pass;
  plan.largest_transient_bytes = program->largest_transient_bytes();
  plan.ledger.activations = program->activation_bytes();
  plan.ledger.workspace =
      program->workspace_bytes() + statistics +  // a step's proposals
      update_workspace_bytes(model.tensors(), config.optimizer, device) +
      slot_workspace_bytes(model.tensors(), config.policy, config.optimizer, sharding, device) +
      first_pass_bytes(model.tensors(), config.policy, config.optimizer);
  plan.data_bytes = setup.size.bytes + kBatches * examples * setup.size.example_bytes;
  plan.overhead_bytes = kOverhead + device.host_threads() * kThreadOverhead;
  if (device.own_bytes()) plan.overhead_bytes += kGpuOverhead;
  plan.translation_bytes = setup.task->scoring_bytes(config, model, device);
  const std::int64_t computing =
      plan.ledger.model_memory() + plan.ledger.activations + plan.ledger.workspace + plan.translation_bytes;
  const std::optional<std::int64_t> own = device.own_bytes();
  if (own) plan.device_bytes = computing - histories + *own;
  plan.watch_bytes = watch_bytes(config, std::ssize(model.tensors()));
  const std::int64_t running = (own ? histories : computing) + plan.data_bytes + plan.watch_bytes;
  plan.peak_bytes = std::max(running, setup.size.loading_bytes) + plan.overhead_bytes;
  const bool is_read =
      setup.task->tokenizer() != nullptr && setup.size.loading_bytes > 0;  // a token file is mapped
  plan.needed_bytes = running + plan.overhead_bytes - (is_read ? setup.size.bytes : 0);
  return plan;
}

Plan make_plan(const Setup& setup, const Model& model) {
  return make_plan(setup, model, *make_device(setup.config.train.device, setup.config.train.threads));
}

void check_memory(const Plan& plan, std::int64_t available) {
  if (plan.needed_bytes <= available) return;
  throw RunError(
      fmt::format("not enough memory: the run takes {} ({}, data {}), {} are available, {} too few. {}",
                  format_bytes(plan.needed_bytes), computing_parts(plan), format_bytes(plan.data_bytes),
                  format_bytes(available), format_bytes(plan.needed_bytes - available), advice(plan)));
}

void check_memory(const Plan& plan, Device& device, int ranks) {
  check_memory(plan, available_memory() / ranks);
  const std::optional<std::int64_t> available = device.available_memory();
  if (!available || plan.device_bytes <= *available) return;
  throw RunError(fmt::format(
      "not enough memory on the device: the run takes {} ({}, rest {}), {} are free, {} too few. {}",
      format_bytes(plan.device_bytes), computing_parts(plan), format_bytes(device.own_bytes().value_or(0)),
      format_bytes(*available), format_bytes(plan.device_bytes - *available), advice(plan)));
}

std::array<std::string, kMemoryParts> memory_parts() {
  std::array<std::string, kMemoryParts> parts;
  for (const Role role : kEveryRole) parts[static_cast<std::size_t>(role)] = to_string(role);
  parts[kRoles] = "exempt";
  parts[kRoles + 1] = "peaks";
  parts[kRoles + 2] = "buffers";
  parts[kRoles + 3] = kAverageName;
  return parts;
}

nlohmann::ordered_json model_memory_json(const Ledger& ledger) {
  const auto parts = memory_parts();
  nlohmann::ordered_json j;
  for (const Role r : kEveryRole) j[parts[static_cast<std::size_t>(r)]] = ledger.role_bytes(r);
  j[parts[kRoles]] = ledger.exempt;
  j[parts[kRoles + 1]] = ledger.peaks;
  j[parts[kRoles + 2]] = ledger.buffers;
  j[parts[kRoles + 3]] = ledger.averages;
  j["total"] = ledger.model_memory();
  return j;
}

nlohmann::ordered_json plan_json(const Plan& plan) {
  auto exempt = nlohmann::ordered_json::array();
  for (const ExemptTensors& e : plan.exempt) {
    exempt.push_back({{"because", e.because}, {"tensors", e.tensors}, {"parameters", e.parameters}});
  }
  return {{"parameters", plan.ledger.parameters},
          {"bits_per_parameter", plan.ledger.bits_per_parameter()},
          {"model_memory_bytes", model_memory_json(plan.ledger)},
          {"exempt", exempt},
          {"activation_bytes", plan.ledger.activations},
          {"workspace_bytes", plan.ledger.workspace},
          {"largest_transient_bytes", plan.largest_transient_bytes},
          {"translation_bytes", plan.translation_bytes},
          {"data_bytes", plan.data_bytes},
          {"watch_bytes", plan.watch_bytes},
          {"overhead_bytes", plan.overhead_bytes},
          {"peak_bytes", plan.peak_bytes},
          {"device_bytes", plan.device_bytes},
          {"sent_bytes",
           {{"accumulators", plan.sent.accumulators},
            {"parameters", plan.sent.parameters},
            {"reads", plan.read_bytes}}}};
}

}  // namespace lpmm
