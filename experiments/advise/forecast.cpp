#include "experiments/advise/forecast.h"

#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <numbers>

#include "kernels/formats/codec.h"
#include "kernels/formats/maps.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/spec.h"
#include "theory/floors.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;
using Tensors = std::vector<TensorProbe>;

// Rounding may as much as double the noise that gradients have anyway.
constexpr double kMostGrowth = 2, kMostFoldNoise = 1;

double momentum_of(const OptimizerConfig& o) {
  return rule_row(o.rule).momentum_kept(o.settings);
}

// Share of its updates that gradient noise makes; the rest is the way that all of them go.
double noise_share(const TensorProbe& tensor, double momentum) {
  const double noise =
      tensor.gradient_noise * tensor.gradient_noise / tensor.microbatches * (1 - momentum) / (1 + momentum);
  const double drift = tensor.mean_gradient * tensor.mean_gradient;
  return noise + drift > 0 ? noise / (noise + drift) : 1;
}

// The effects that storing a tensor's parameters has on its updates.
struct ParameterForecast {
  double underflow = 0;  // share of updates that change no code
  double growth = 1;     // factor of the noise floor
};
// Updates of `rate` times those of the probe. Linear maps only. Updates below a step are lost, and make
// noise, by their mean size: theory's normal updates take that of the probe's.
ParameterForecast forecast(const TensorProbe& tensor, const Spec& spec, double momentum, double rate = 1) {
  const auto unit = static_cast<std::size_t>(spec.block / TensorProbe::kUnit);
  const double limit = map_limit(spec.format);
  const bool sticky = spec.step_mode == StepMode::kSticky;
  double lost = 0, elements = 0, squares = 0, noise = 0, steps = 0, spreads = 0;
  for (std::size_t first = 0; first < tensor.largest.size(); first += unit) {
    double largest = 0, moves = 0;
    const std::size_t last = std::min(tensor.largest.size(), first + unit);
    for (std::size_t i = first; i < last; ++i) {
      largest = std::max(largest, tensor.largest[i]);
      moves += rate * tensor.moves[i];
      squares += rate * rate * tensor.squares[i];
    }
    const double n = static_cast<double>(std::min<std::int64_t>(
        tensor.sampled - static_cast<std::int64_t>(first) * TensorProbe::kUnit, spec.block));
    const double step = (sticky ? double{kStickyRoom} : 1.0) * largest / limit;
    const double spread = std::sqrt(std::numbers::pi / 2) * moves / n;
    elements += n;
    lost += n * theory::underflow_share(spec.rounding, step, spread);
    noise += n * (sticky ? theory::grid_error(spec.rounding, step, spread) : step * step / 6);
    steps += n * step;
    spreads += n * spread;
  }
  if (spec.rounding == Rounding::kQuasiStochastic && sticky) {
    noise *= theory::quasi_share(steps / elements, spreads / elements, momentum);
  }
  const double of_noise = squares * noise_share(tensor, momentum);
  return {lost / elements, theory::floor_growth(noise, of_noise, momentum)};
}

// Noise that K folds with sr add to the gradient, over the noise that it has anyway (variances).
double fold_noise_share(const TensorProbe& tensor, const Spec& spec, int folds) {
  if (!is_packed(spec.format)) return 0;
  const double noise = tensor.gradient_noise * std::sqrt(static_cast<double>(folds) / tensor.microbatches);
  if (noise == 0) return 0;
  return theory::fold_noise(spec, map_table(spec.format), folds, tensor.mean_gradient, noise) /
         (noise * noise / folds);
}

// A tensor's specs, and which forecasts the theory makes for them. Its floors and folds are those of sr, its
// floors also those of qr with sticky steps. Error feedback gives back what rounding takes, and with a
// compensation it stays.
struct Stored {
  Spec parameter, accumulator;
  bool has_underflow, has_growth, has_folds;
};
Stored stored(const RunConfig& config, const TensorInfo& info) {
  const Policy& policy = config.policy;
  const RoleSpecs specs = specs_for(policy, info);
  Stored out{specs[Role::kParameter], specs[Role::kAccumulator], false, false, false};
  out.has_underflow = out.parameter.format.map == Map::kLinear && !has_compensation(specs);
  out.has_growth = out.has_underflow && !policy.error_feedback &&
                   theory::has_floor(out.parameter.rounding, out.parameter.step_mode);
  out.has_folds = !folds_into_momentum(policy, config.optimizer, info) && !policy.apply_at_once &&
                  (!is_packed(out.accumulator.format) || takes_draws(out.accumulator.rounding));
  return out;
}

// Over all tensors, by their elements; NaN where `value` has none for one of them.
template <class Value>
double mean_over(const Tensors& tensors, const Value& value) {
  double sum = 0, elements = 0;
  for (const TensorProbe& t : tensors) {
    const auto n = static_cast<double>(t.info.elements());
    sum += n * value(t);
    elements += n;
  }
  return sum / elements;
}
// These assume that all tensors are stored alike.
double growth_of(const Tensors& tensors, const Spec& spec, double momentum) {
  return mean_over(tensors, [&](const TensorProbe& t) { return forecast(t, spec, momentum).growth; });
}
double fold_noise_of(const Tensors& tensors, const Spec& spec, int folds) {
  return mean_over(tensors, [&](const TensorProbe& t) { return fold_noise_share(t, spec, folds); });
}

std::int64_t elements_of(const Tensors& tensors) {
  std::int64_t sum = 0;
  for (const TensorProbe& t : tensors) sum += t.info.elements();
  return sum;
}

// The fewest bits per element, and of equally many the least noise, of the specs whose noise is at most
// `most`; null where it is above that for all.
template <class Noise>
ordered_json least(const std::vector<Spec>& specs, std::int64_t elements, double most,
                   const Noise& noise_of) {
  ordered_json best;
  double least_bits = INFINITY, least_noise = INFINITY;
  for (const Spec& spec : specs) {
    const double bits = bits_per_element(spec, elements);
    if (bits > least_bits) continue;
    const double noise = noise_of(spec);
    if (!(noise <= most) || (bits == least_bits && noise >= least_noise)) continue;
    least_bits = bits;
    least_noise = noise;
    best = to_string(spec);
  }
  return best;
}

// Every format that `wanted` picks with each of the blocks, stored with sr.
std::vector<Spec> candidates(bool (*wanted)(Format), std::initializer_list<int> blocks, StepMode steps) {
  std::vector<Spec> out;
  for (const Format format : all_formats()) {
    if (!wanted(format)) continue;
    for (const int block : blocks) out.push_back({format, block, Rounding::kStochastic, steps});
  }
  return out;
}
// The specs that the forecasts cover.
std::vector<Spec> parameter_candidates() {
  return candidates([](Format f) { return f.map == Map::kLinear; }, {64, 128, 256, 512}, StepMode::kSticky);
}
std::vector<Spec> accumulator_candidates() {
  return candidates([](Format f) { return is_packed(f) && is_signed(f.map); }, {64, 128, 256},
                    StepMode::kMoving);
}

// The smallest multiple of the learning rate at which the floor grows no more than allowed; null where none
// is.
template <class Growth>
ordered_json least_rate(double learning_rate, const Growth& growth_at) {
  double low = 1e-6, high = 1e3;
  if (!(growth_at(high) <= kMostGrowth)) return {};
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    (growth_at(middle) > kMostGrowth ? low : high) = middle;
  }
  return high * learning_rate;
}

template <class Noise>
ordered_json most_microbatches(int batch, const Noise& noise_of) {
  ordered_json most;
  for (int k = 1; k <= batch; ++k) {
    if (batch % k == 0 && noise_of(k) <= kMostFoldNoise) most = k;
  }
  return most;
}

ordered_json number(double v) {
  return std::isfinite(v) ? ordered_json(v) : ordered_json();
}

// The theory's forecasts for one tensor as the configuration stores it; NaN where it makes none.
struct TensorForecast {
  const RunConfig& config;
  double momentum = momentum_of(config.optimizer);

  double underflow(const TensorProbe& t) const {
    const Stored s = stored(config, t.info);
    return s.has_underflow ? forecast(t, s.parameter, momentum).underflow : NAN;
  }
  double growth(const TensorProbe& t, double rate = 1) const {
    const Stored s = stored(config, t.info);
    return s.has_growth ? forecast(t, s.parameter, momentum, rate).growth : NAN;
  }
  double fold_noise(const TensorProbe& t, int folds) const {
    const Stored s = stored(config, t.info);
    return s.has_folds ? fold_noise_share(t, s.accumulator, folds) : NAN;
  }
  // over(value) makes one number of what value(tensor) gives.
  template <class Over>
  ordered_json fields(const Over& over) const {
    return {{"underflow", number(over([&](const TensorProbe& t) { return underflow(t); }))},
            {"floor_growth", number(over([&](const TensorProbe& t) { return growth(t); }))},
            {"fold_noise",
             number(over([&](const TensorProbe& t) { return fold_noise(t, config.train.microbatches); }))}};
  }
};

ordered_json advice_of(const TensorForecast& theory, const Tensors& tensors) {
  const RunConfig& config = theory.config;
  ordered_json advice;
  advice["parameter"] = least(parameter_candidates(), elements_of(tensors), kMostGrowth,
                              [&](const Spec& spec) { return growth_of(tensors, spec, theory.momentum); });
  advice["accumulator"] = nullptr;
  if (!config.policy.accumulate_in_momentum && !config.policy.apply_at_once) {
    advice["accumulator"] =
        least(accumulator_candidates(), elements_of(tensors), kMostFoldNoise,
              [&](const Spec& spec) { return fold_noise_of(tensors, spec, config.train.microbatches); });
  }
  advice["most_microbatches"] = most_microbatches(config.train.batch, [&](int k) {
    return mean_over(tensors, [&](const TensorProbe& t) { return theory.fold_noise(t, k); });
  });
  advice["least_learning_rate"] = least_rate(peak_rate(config.optimizer), [&](double rate) {
    return mean_over(tensors, [&](const TensorProbe& t) { return theory.growth(t, rate); });
  });
  return advice;
}

}  // namespace

ordered_json forecast_run(const RunConfig& config, const std::vector<TensorProbe>& tensors) {
  const TensorForecast theory{config};
  ordered_json answer = theory.fields([&](const auto& value) { return mean_over(tensors, value); });
  answer["advice"] = advice_of(theory, tensors);
  answer["tensors"] = ordered_json::array();
  for (const TensorProbe& t : tensors) {
    ordered_json row = {{"name", t.info.name}, {"elements", t.info.elements()}};
    row.update(theory.fields([&](const auto& value) { return value(t); }));
    answer["tensors"].push_back(std::move(row));
  }
  return answer;
}

}  // namespace lpmm
