#include "experiments/ablation/exact_run.h"

#include <fmt/format.h>

#include "experiments/ablation/part.h"
#include "experiments/commands/shipped_configs.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/train_step.h"
#include "models/families.h"

namespace lpmm {
namespace {

constexpr const char* kConfig = "gpt_tiny_embedded";
constexpr std::int64_t kQuickSteps = 8;

}  // namespace

void train_exactly(
    const AblationOptions& options, const std::vector<std::string>& settings, int percent,
    const std::function<void(const ModelMemory& memory, std::int64_t step, std::int64_t total)>& after_step) {
  const Setup setup =
      open_data(load_config(find_config(kConfig), with_families({.preset = "fp32", .settings = settings})));
  const RunConfig& config = setup.config;
  const auto& t = config.train;
  CpuDevice device(options.threads);
  const auto data = load_data(setup, device.host_pool());
  const auto model = make_model(config);
  ModelMemory memory(model->tensors(), config.policy, config.optimizer, t.seed, t.microbatches, device,
                     config.slots());
  Buffers buffers(model->buffers(), device);
  model->initialize(memory, t.seed, {});
  const auto program = model->build(t.batch / t.microbatches, t.compute, device);
  Prefetcher batches(*data, {t.seed, t.batch, t.microbatches, config.data.augment}, 0, 0);

  const std::int64_t total = options.quick ? kQuickSteps : steps_of(setup);
  const std::int64_t last = total * percent / 100;
  say_of_part(fmt::format("{} steps of {}", last, kConfig));
  for (std::int64_t step = 1; step <= last; ++step) {
    StepOptions now;
    now.step = static_cast<std::uint32_t>(step);
    now.learning_rate = peak_rate(config.optimizer) * schedule_factor(config.schedule, step - 1, total);
    train_step(*program, memory, buffers, batches, now);
    after_step(memory, step, total);
  }
}

std::vector<float> exact_values(const ModelMemory& memory, int tensor, Role role) {
  const float* values = reinterpret_cast<const float*>(memory.view(tensor, role).codes);
  return {values, values + memory.info(tensor).elements()};
}

}  // namespace lpmm
