#include "theory/variance_study.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/formats/maps.h"
#include "kernels/packed.h"
#include "lpmm/memory/model_memory.h"
#include "theory/draws.h"

namespace lpmm::theory {
namespace {

// Between the map's values on both sides of y; at its ends, between the last two.
double gap_around(MapTable table, double y) {
  const float* above =
      std::upper_bound(table.values + 1, table.values + table.entries - 1, static_cast<float>(y));
  return above[0] - above[-1];
}

}  // namespace

VarianceStudyResult run_variance_study(const VarianceStudy& study, Device& device) {
  constexpr int kBlock = 128, kMeasured = 200;
  const auto count = static_cast<std::size_t>(study.blocks) * kBlock;
  OptimizerConfig optimizer;
  optimizer.rule = "adam";
  optimizer.settings["beta2"] = study.beta2;
  Policy policy = make_policy(kPlainPreset);
  policy.specs[Role::kVariance] = study.variance;
  ModelMemory memory({{"x", {study.blocks, kBlock}}}, policy, optimizer, study.seed, 1, device);

  const auto stream = static_cast<std::uint32_t>(Stream::kTest);
  std::vector<float> deviation(count), gradient(count), stored(count);
  std::vector<double> exact(count, 0.0);
  fill_normal({study.seed, 1, 0, stream}, deviation);
  for (float& d : deviation) d = std::exp(0.5F * static_cast<float>(study.spread) * d);

  // The first gradients are forgotten to a part in 400.
  const auto warm_up = static_cast<std::uint32_t>(std::ceil(6 / (1 - study.beta2)));
  const MapTable table = map_table(study.variance.format);
  const kernels::RoleView view = memory.view(0, Role::kVariance);
  double stored_step = 0, exact_step = 0, stored_value = 0, exact_value = 0, gaps = 0;
  for (std::uint32_t t = 1; t <= warm_up + kMeasured; ++t) {
    fill_normal({study.seed, 2, t, stream}, gradient);
    for (std::size_t i = 0; i < count; ++i) {
      gradient[i] *= deviation[i];
      exact[i] += (1 - study.beta2) * (static_cast<double>(gradient[i]) * gradient[i] - exact[i]);
    }
    Step step = memory.begin_step({.step = t, .learning_rate = 1e-6});
    step.fold(0, 0, gradient, 0);
    std::move(step).commit();
    if (t <= warm_up) continue;
    device.decode(view, 0, static_cast<std::int64_t>(count), stored.data());
    for (std::size_t i = 0; i < count; ++i) {
      const double s = static_cast<double>(deviation[i]) * deviation[i];
      stored_step += std::sqrt(s / stored[i]);
      exact_step += std::sqrt(s / exact[i]);
      stored_value += stored[i] / s;
      exact_value += exact[i] / s;
      if (table.entries > 1) {
        const Scale scale =
            scale_of(view.codec.format, table, view.steps[i / static_cast<std::size_t>(view.codec.block)]);
        const double step = scale.step;
        gaps += gap_around(scale.table, exact[i] / step) * step / s;
      }
    }
  }
  const double n = static_cast<double>(count) * kMeasured;
  return {stored_step / exact_step, stored_value / exact_value, gaps / n};
}

}  // namespace lpmm::theory
