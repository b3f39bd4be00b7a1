// `lpmm advise`: what theory says of a configuration after a short probe.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "experiments/commands.h"
#include "experiments/probe.h"
#include "kernels/codec.h"
#include "kernels/maps.h"
#include "lpmm/error.h"
#include "lpmm/host.h"
#include "lpmm/plan.h"
#include "lpmm/spec.h"
#include "models/models.h"
#include "theory/floors.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;
using Tensors = std::vector<TensorProbe>;

// Rounding may as much as double the noise that gradients have anyway.
constexpr double kMostGrowth = 2, kMostFoldNoise = 1;

struct Options {
  ConfigArguments config;
  std::int64_t steps = 100;
  bool json = false;
};

double momentum_of(const OptimizerConfig& o) {
  return o.rule == RuleName::kSgd ? o.momentum : o.beta1;
}

// What storing a tensor's parameters does to its updates.
struct ParameterForecast {
  double underflow = 0;  // share of updates that change no code
  double growth = 1;     // of the noise floor
};
// Updates of `rate` times those of the probe. Linear maps only. Updates below a step are lost, and make
// noise, by their mean size: theory's normal updates take that of the probe's.
ParameterForecast forecast(const TensorProbe& tensor, const Spec& spec, double momentum, double rate = 1) {
  const auto unit = static_cast<std::size_t>(spec.block / TensorProbe::kUnit);
  const double limit = map_limit(spec.format);
  double lost = 0, elements = 0, squares = 0, noise = 0;
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
    const double room = spec.step_mode == StepMode::kSticky ? double{kStickyRoom} : 1.0;
    const double step = room * largest / limit, spread = std::sqrt(std::numbers::pi / 2) * moves / n;
    elements += n;
    lost += n * theory::underflow_share(spec.rounding, step, spread);
    noise += n * theory::grid_error(spec.rounding, step, spread);
  }
  return {lost / elements, theory::floor_growth(noise, squares, momentum)};
}

// Noise that K folds add to the gradient, over the noise that it has anyway (variances).
double fold_noise_share(const TensorProbe& tensor, const Spec& spec, int folds) {
  if (!is_packed(spec.format)) return 0;
  const double noise = tensor.gradient_noise * std::sqrt(static_cast<double>(folds) / tensor.microbatches);
  if (noise == 0) return 0;
  return theory::fold_noise(spec, map_table(spec.format), folds, tensor.mean_gradient, noise) /
         (noise * noise / folds);
}

// Over all tensors, by their elements.
template <class Value>
double mean_over(const Tensors& tensors, const Value& value) {
  double sum = 0, elements = 0;
  for (const TensorProbe& t : tensors) {
    sum += static_cast<double>(t.elements) * value(t);
    elements += static_cast<double>(t.elements);
  }
  return sum / elements;
}
double growth_of(const Tensors& tensors, const Spec& spec, double momentum, double rate = 1) {
  return mean_over(tensors, [&](const TensorProbe& t) { return forecast(t, spec, momentum, rate).growth; });
}
double fold_noise_of(const Tensors& tensors, const Spec& spec, int folds) {
  return mean_over(tensors, [&](const TensorProbe& t) { return fold_noise_share(t, spec, folds); });
}

std::int64_t elements_of(const Tensors& tensors) {
  std::int64_t sum = 0;
  for (const TensorProbe& t : tensors) sum += t.elements;
  return sum;
}

// The fewest bits an element, of the specs that `suffices` accepts; empty where it accepts none.
template <class Suffices>
std::string least(const std::vector<std::string>& specs, std::int64_t elements, const Suffices& suffices) {
  std::string best;
  double least_bits = INFINITY;
  for (const std::string& text : specs) {
    const Spec spec = parse_spec(text);
    const double bits = bits_per_element(spec, elements);
    if (bits >= least_bits || !suffices(spec)) continue;
    least_bits = bits;
    best = text;
  }
  return best;
}

std::vector<std::string> parameter_candidates() {
  std::vector<std::string> out;
  for (int bits = 2; bits <= 16; ++bits) {
    for (const int block : {64, 128, 256, 512})
      out.push_back(fmt::format("int{}:block{}:sr:sticky", bits, block));
  }
  return out;
}
std::vector<std::string> accumulator_candidates() {
  std::vector<std::string> out;
  for (const char* format : {"int2", "int3", "soft4", "int5", "int6", "int8", "int12"}) {
    for (const int block : {64, 128, 256}) out.push_back(fmt::format("{}:block{}:sr", format, block));
  }
  return out;
}

// The smallest learning rate, as a multiple of the probe's, at which the floor grows no more than allowed.
double least_rate(const Tensors& tensors, const Spec& spec, double momentum) {
  double low = 1e-6, high = 1e3;
  if (growth_of(tensors, spec, momentum, high) > kMostGrowth) return INFINITY;
  while (high / low > 1.01) {
    const double middle = std::sqrt(low * high);
    (growth_of(tensors, spec, momentum, middle) > kMostGrowth ? low : high) = middle;
  }
  return high;
}

int most_microbatches(const Tensors& tensors, const Spec& spec, int batch) {
  int most = 0;
  for (int k = 1; k <= batch; k *= 2) {
    if (batch % k == 0 && fold_noise_of(tensors, spec, k) <= kMostFoldNoise) most = k;
  }
  return most;
}

ordered_json number_or_null(double v) {
  return std::isfinite(v) ? ordered_json(v) : ordered_json();
}

int run(const Options& o) {
  const RunConfig config = o.config.load();
  RunConfig plain = config;
  plain.policy = make_policy("fp32");
  const Setup setup(plain);
  check_memory(make_plan(setup, *make_model(setup.config.model)), available_memory());
  Pool pool(config.train.threads);
  const auto data = load_data(setup, pool);
  Progress progress(o.json);
  const Tensors tensors = probe_training(setup.config, *data, pool, o.steps, progress);
  if (tensors.empty()) throw UsageError("the model has no tensor that could be packed");

  const double momentum = momentum_of(config.optimizer);
  const Spec parameter = config.policy.specs[static_cast<std::size_t>(Role::kParameter)];
  const Spec accumulator = config.policy.specs[static_cast<std::size_t>(Role::kAccumulator)];
  const bool forecasts = is_packed(parameter.format) && parameter.format.map == Map::kLinear;
  const int folds = config.train.microbatches;
  ordered_json answer = {{"preset", config.policy.preset},
                         {"parameter", to_string(parameter)},
                         {"accumulator", to_string(accumulator)},
                         {"microbatches", folds},
                         {"learning_rate", config.optimizer.learning_rate},
                         {"probe_steps", o.steps}};
  if (forecasts) {
    answer["underflow"] =
        mean_over(tensors, [&](const TensorProbe& t) { return forecast(t, parameter, momentum).underflow; });
    answer["floor_growth"] = growth_of(tensors, parameter, momentum);
  }
  answer["fold_noise"] = fold_noise_of(tensors, accumulator, folds);
  ordered_json& advice = answer["advice"];
  advice["parameter"] = least(parameter_candidates(), elements_of(tensors), [&](const Spec& spec) {
    return growth_of(tensors, spec, momentum) <= kMostGrowth;
  });
  advice["accumulator"] = least(accumulator_candidates(), elements_of(tensors), [&](const Spec& spec) {
    return fold_noise_of(tensors, spec, folds) <= kMostFoldNoise;
  });
  advice["most_microbatches"] = most_microbatches(tensors, accumulator, config.train.batch);
  if (forecasts) {
    advice["least_learning_rate"] =
        number_or_null(config.optimizer.learning_rate * least_rate(tensors, parameter, momentum));
  }
  answer["tensors"] = ordered_json::array();
  for (const TensorProbe& t : tensors) {
    ordered_json row = {{"name", t.name}, {"elements", t.elements}};
    if (forecasts) {
      const ParameterForecast f = forecast(t, parameter, momentum);
      row["underflow"] = f.underflow;
      row["floor_growth"] = f.growth;
    }
    row["fold_noise"] = fold_noise_share(t, accumulator, folds);
    answer["tensors"].push_back(std::move(row));
  }
  if (o.json) {
    print_answer(answer, true);
    return 0;
  }
  fmt::print("{:<32} {:>12} {:>10} {:>13} {:>11}\n", "tensor", "elements", "underflow", "floor growth",
             "fold noise");
  const auto show = [](const ordered_json& row, const char* key) {
    return row.contains(key) ? fmt::format("{:.3g}", row[key].get<double>()) : std::string("-");
  };
  for (const ordered_json& row : answer["tensors"]) {
    fmt::print("{:<32} {:>12} {:>10} {:>13} {:>11}\n", row["name"].get<std::string>(),
               row["elements"].get<std::int64_t>(), show(row, "underflow"), show(row, "floor_growth"),
               show(row, "fold_noise"));
  }
  answer.erase("tensors");
  print_answer(answer, false);
  return 0;
}

}  // namespace

void add_advise_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "advise", "Train a few steps in fp32 and say what the theory of rounding recommends");
  add_config_arguments(*command, o->config);
  command->add_option("--steps", o->steps, "steps of the probe, the first half to warm up")
      ->check(CLI::Range(4, 100000).description(""))
      ->capture_default_str();
  command->add_flag("--json", o->json, "print one JSON object");
  command->footer(
      R"(Of every tensor, at the peak learning rate and as the configuration stores it: underflow, the share
of updates that will change no code (with sr no loss in itself: their mean is kept); floor growth, how
many times rounding raises the noise that stays at a constant rate; fold noise, what rounding the
accumulator adds to the gradient's own noise (variances). Advice: the spec with the fewest bits, the
smallest learning rate and the most microbatches at which rounding at most doubles that noise. The
formulas: theory/README.md 1.5, 2 and 4.
Example:
  lpmm advise experiments/configs/gpt_tiny_embedded.toml --preset lpmm-min)");
  on_selected(*command, action, o, run);
}

}  // namespace lpmm
