#include "experiments/bench/train.h"

#include <algorithm>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/data/batch.h"
#include "lpmm/program/program.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/train_step.h"

namespace lpmm {
TrainSpeed bench_train(const RunConfig& config, const DataSource& data, Device& device, std::int64_t steps,
                       std::int64_t warm_up, const ProgressCall& progress) {
  const auto& t = config.train;
  const auto model = make_model(config);
  ModelMemory memory(model->tensors(), config.policy, config.optimizer, t.seed, t.microbatches, device,
                     config.slots());
  Buffers buffers(model->buffers(), device);
  model->initialize(memory, t.seed, {});
  const auto program = model->build(t.batch / t.microbatches, t.compute, device);
  Prefetcher prefetcher(data, {t.seed, t.batch, t.microbatches, config.data.augment}, 0, 0);

  TrainSpeed speed;
  std::vector<double> step_seconds;
  for (std::int64_t step = 1; step <= warm_up + steps; ++step) {
    StepOptions options;
    options.step = static_cast<std::uint32_t>(step);
    options.learning_rate = peak_rate(config.optimizer);
    const StepResult done = train_step(*program, memory, buffers, prefetcher, options);
    if (progress) progress(step, warm_up + steps);
    if (step <= warm_up) continue;
    step_seconds.push_back(done.seconds());
    speed.seconds += done.seconds();
    speed.data_seconds += done.data_seconds;
    speed.compute_seconds += done.compute_seconds;
    speed.update_seconds += done.update_seconds;
  }
  std::nth_element(step_seconds.begin(), step_seconds.begin() + steps / 2, step_seconds.end());
  speed.median_step_seconds = step_seconds[static_cast<std::size_t>(steps / 2)];
  speed.items_per_second = static_cast<double>(steps * t.batch * data.labels()) / speed.seconds;
  return speed;
}

}  // namespace lpmm
