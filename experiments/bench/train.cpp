#include "experiments/bench/train.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/data/batch.h"
#include "lpmm/program/program.h"
#include "models/models.h"

namespace lpmm {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

TrainSpeed bench_train(const RunConfig& config, const DataSource& data, Pool& pool, std::int64_t steps,
                       std::int64_t warm_up) {
  const auto& t = config.train;
  const auto model = make_model(config.model);
  ModelMemory memory(model->tensors(), config.policy, config.optimizer, t.seed, t.microbatches, pool);
  Buffers buffers(model->buffers());
  model->initialize(memory, t.seed, {});
  const auto program = model->build(t.batch / t.microbatches, t.compute, pool.threads());
  Prefetcher prefetcher(data, {t.seed, t.batch, t.microbatches, config.data.augment}, 0, 0);

  TrainSpeed speed;
  std::vector<double> step_seconds;
  for (std::int64_t step = 1; step <= warm_up + steps; ++step) {
    double waited = 0, computed = 0;
    const double start = seconds();
    memory.begin_step(static_cast<std::uint32_t>(step));
    buffers.begin();
    double now = start;
    for (int m = 0; m < t.microbatches; ++m) {
      const Batch& batch = prefetcher.next();
      const double ready = seconds();
      waited += ready - now;
      program->train(memory, buffers, batch, m);
      now = seconds();
      computed += now - ready;
    }
    if (memory.commit(config.optimizer.learning_rate).applied) buffers.commit();
    const double end = seconds();
    if (step <= warm_up) continue;
    step_seconds.push_back(end - start);
    speed.seconds += end - start;
    speed.data_seconds += waited;
    speed.compute_seconds += computed;
    speed.update_seconds += end - now;
  }
  std::nth_element(step_seconds.begin(), step_seconds.begin() + steps / 2, step_seconds.end());
  speed.median_step_seconds = step_seconds[static_cast<std::size_t>(steps / 2)];
  speed.items_per_second = static_cast<double>(steps * t.batch * data.labels()) / speed.seconds;
  return speed;
}

}  // namespace lpmm
