#include "experiments/advise/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/packed.h"
#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "lpmm/program/program.h"
#include "lpmm/run/train_step.h"

namespace lpmm {
namespace {

constexpr std::int64_t kSample = 8 * kernels::kTile;  // elements of a tensor that are looked at

std::vector<float> decoded(Device& device, const kernels::RoleView& view, std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  device.decode(view, 0, count, out.data());
  return out;
}

// The values that are followed for one tensor.
struct Watch {
  int tensor = 0;
  TensorProbe sums;                 // over the steps measured so far; of gradients, of their squares
  std::vector<float> before;        // parameters before the step
  std::vector<float> folded;        // the accumulator after the last microbatch
  std::vector<double> sum, square;  // over the step's microbatches, of their gradients
};

Watch watch(int tensor, const TensorInfo& info, int microbatches) {
  Watch w{.tensor = tensor, .sums = {}, .before = {}, .folded = {}, .sum = {}, .square = {}};
  TensorProbe& sums = w.sums;
  sums.info = info;
  sums.sampled = std::min(info.elements(), kSample);
  sums.microbatches = microbatches;
  const auto blocks = static_cast<std::size_t>((sums.sampled + TensorProbe::kUnit - 1) / TensorProbe::kUnit);
  for (auto* of_blocks : {&sums.largest, &sums.moves, &sums.squares}) of_blocks->resize(blocks);
  const auto count = static_cast<std::size_t>(sums.sampled);
  w.folded.resize(count);
  w.sum.resize(count);
  w.square.resize(count);
  return w;
}

void begin(Watch& w, std::vector<float> parameters) {
  w.before = std::move(parameters);
  std::fill(w.folded.begin(), w.folded.end(), 0.0F);
  std::fill(w.sum.begin(), w.sum.end(), 0.0);
  std::fill(w.square.begin(), w.square.end(), 0.0);
}

// The accumulator grew by a K-th of the microbatch's gradient.
void add_microbatch(Watch& w, const std::vector<float>& accumulator) {
  for (std::size_t i = 0; i < accumulator.size(); ++i) {
    const double g =
        w.sums.microbatches * (static_cast<double>(accumulator[i]) - static_cast<double>(w.folded[i]));
    w.sum[i] += g;
    w.square[i] += g * g;
  }
  w.folded = accumulator;
}

void end(Watch& w, const std::vector<float>& after) {
  const auto count = static_cast<double>(after.size()), k = static_cast<double>(w.sums.microbatches);
  std::vector<double> largest(w.sums.largest.size());
  double mean_square = 0, variance = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::size_t block = i / static_cast<std::size_t>(TensorProbe::kUnit);
    const double value = static_cast<double>(after[i]), update = value - static_cast<double>(w.before[i]);
    largest[block] = std::max(largest[block], std::abs(value));
    w.sums.moves[block] += std::abs(update);
    w.sums.squares[block] += update * update;
    const double mean = w.sum[i] / k;
    mean_square += mean * mean / count;
    variance += (w.square[i] / k - mean * mean) * k / (k - 1) / count;
  }
  for (std::size_t b = 0; b < largest.size(); ++b) w.sums.largest[b] += largest[b];
  // The mean of K still holds a K-th of their noise.
  w.sums.mean_gradient += std::max(0.0, mean_square - variance / k);
  w.sums.gradient_noise += variance;
}

TensorProbe result_of(const Watch& w, double steps) {
  TensorProbe out = w.sums;
  for (auto* of_blocks : {&out.largest, &out.moves, &out.squares}) {
    for (double& v : *of_blocks) v /= steps;
  }
  out.mean_gradient = std::sqrt(out.mean_gradient / steps);
  out.gradient_noise = std::sqrt(out.gradient_noise / steps);
  return out;
}

}  // namespace

std::vector<TensorProbe> probe_training(const RunConfig& config, const DataSource& data, Device& device,
                                        std::int64_t steps, Progress& progress) {
  const auto& t = config.train;
  const int microbatches = std::max(2, t.microbatches);
  if (t.batch % microbatches != 0) {
    throw UsageError(
        fmt::format("train.batch is {}: a probe cuts it into {} microbatches; make it a multiple", t.batch,
                    microbatches));
  }
  const auto model = make_model(config.model);  // with an accumulator, whatever the config says
  ModelMemory memory(model->tensors(), make_policy(kPlainPreset), config.optimizer, t.seed, microbatches,
                     device);
  Buffers buffers(model->buffers(), device);
  model->initialize(memory, t.seed, {});
  const auto program = model->build(t.batch / microbatches, t.compute, device);
  Prefetcher prefetcher(data, {t.seed, t.batch, microbatches, config.data.augment}, 0, 0);

  std::vector<Watch> watches;
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    if (is_exempt(config.policy, info) || memory.is_frozen(i)) continue;
    watches.push_back(watch(i, info, microbatches));
  }
  const std::int64_t warm_up = steps / 2;
  const auto sample = [&](const Watch& w, Role role) {
    return decoded(device, memory.view(w.tensor, role), std::ssize(w.folded));
  };
  for (std::int64_t step = 1; step <= steps; ++step) {
    if (progress.due()) progress.show(fmt::format("probe: step {} of {}", step, steps));
    const bool measured = step > warm_up;
    for (Watch& w : watches) {
      if (!measured) break;
      begin(w, sample(w, Role::kParameter));
    }
    StepOptions options;
    options.step = static_cast<std::uint32_t>(step);
    options.learning_rate =
        peak_rate(config.optimizer) * std::min(1.0, static_cast<double>(step) / static_cast<double>(warm_up));
    const auto sample_gradients = [&] {
      for (Watch& w : watches) {
        if (measured) add_microbatch(w, sample(w, Role::kAccumulator));
      }
    };
    const StepReport report =
        train_step(*program, memory, buffers, prefetcher, options, {.after_microbatch = sample_gradients})
            .report;
    if (!report.applied) {
      throw RunError(fmt::format("step {} of the probe: {} is not finite; lower the learning rate", step,
                                 report.failed_tensor));
    }
    for (Watch& w : watches) {
      if (measured) end(w, sample(w, Role::kParameter));
    }
  }
  std::vector<TensorProbe> out;
  for (const Watch& w : watches) {
    out.push_back(result_of(w, static_cast<double>(steps - warm_up)));
  }
  return out;
}

}  // namespace lpmm
