// Forecasts of a configuration's rounding errors, made by theory from a probe's measurements.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "experiments/advise/probe.h"
#include "lpmm/run/config.h"

namespace lpmm {

// {underflow, floor_growth, fold_noise, advice {parameter, accumulator, most_microbatches,
// least_learning_rate}, tensors [{name, elements, underflow, floor_growth, fold_noise}]}; null is what theory
// does not cover. `tensors` has at least one.
nlohmann::ordered_json forecast_run(const RunConfig& config, const std::vector<TensorProbe>& tensors);

}  // namespace lpmm
