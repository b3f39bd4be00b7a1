// `lpmm advise`: what theory says of a configuration after a short probe.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/advise/forecast.h"
#include "experiments/advise/probe.h"
#include "experiments/commands/arguments.h"
#include "experiments/pack/packed_data.h"
#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/host.h"
#include "lpmm/memory/roles.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/setup.h"

namespace lpmm {
namespace {

using nlohmann::ordered_json;

struct AdviseArguments {
  ConfigArguments config;
  std::int64_t steps = 100;
  bool json = false;
};

// There is advice on packed tensors that train.
void check_packed(const RunConfig& config, std::span<const TensorInfo> tensors) {
  std::vector<std::string> reasons;
  for (const TensorInfo& t : tensors) {
    const std::string why = is_frozen(config.optimizer, t.name) ? "frozen" : why_exempt(config.policy, t);
    if (why.empty()) return;
    if (std::find(reasons.begin(), reasons.end(), why) == reasons.end()) reasons.push_back(why);
  }
  throw UsageError(fmt::format("no tensor that trains is packed, so there is nothing to advise: {}",
                               fmt::join(reasons, "; ")));
}

std::vector<TensorProbe> probe(const RunConfig& config, const AdviseArguments& o) {
  RunConfig plain = config;
  plain.policy = make_policy(kPlainPreset);
  Progress progress(o.json);
  pack_named_pictures(plain, plain.train.init.empty() ? "" : find_checkpoint(plain.train.init), progress);
  const Setup setup = open_data(plain);
  const auto model = make_model(setup.config);
  check_trained(setup, *model);
  check_policy(config.policy, config.optimizer, model->tensors());
  check_packed(config, model->tensors());
  CpuDevice device(config.train.threads);
  check_memory(make_plan(setup, *model, device), device);
  const auto data = load_data(setup, device.host_pool());
  RunConfig probed = setup.config;
  probed.policy = config.policy;
  return probe_training(probed, *data, device, o.steps, progress);
}

void print_advised_tensors(const ordered_json& tensors) {
  fmt::print("{:<32} {:>12} {:>10} {:>13} {:>11}\n", "tensor", "elements", "underflow", "floor growth",
             "fold noise");
  const auto show = [](const ordered_json& row, const char* key) {
    return row[key].is_number() ? fmt::format("{:.3g}", row[key].get<double>()) : std::string("-");
  };
  for (const ordered_json& row : tensors) {
    fmt::print("{:<32} {:>12} {:>10} {:>13} {:>11}\n", row["name"].get<std::string>(),
               row["elements"].get<std::int64_t>(), show(row, "underflow"), show(row, "floor_growth"),
               show(row, "fold_noise"));
  }
}

int run_advise(const AdviseArguments& o) {
  const RunConfig config = o.config.load();
  const auto tensors = probe(config, o);
  ordered_json answer = {{"preset", config.policy.preset},
                         {"error_feedback", config.policy.error_feedback},
                         {"microbatches", config.train.microbatches},
                         {"learning_rate", peak_rate(config.optimizer)},
                         {"probe_steps", o.steps}};
  answer.update(forecast_run(config, tensors));
  if (!o.json) {
    print_advised_tensors(answer["tensors"]);
    answer.erase("tensors");
  }
  print_answer(answer, o.json);
  return kDone;
}

}  // namespace

void add_advise_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<AdviseArguments>();
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
accumulator adds to the gradient's own noise (variances; folds with qr are taken to be those of sr).
Null is what theory does not cover: parameters on maps that are not linear or with a compensation,
floor growth with rn, error feedback or moving qr, fold noise of rn accumulators and of gradients in the
momentum. Advice: the spec with the fewest bits, the smallest learning rate and the most microbatches at
which rounding at most doubles that noise, in the mean of all elements; the parameter's is for a run
without error feedback. A probe sees the start of a training: weights grow and gradients shrink later,
and more bits are needed then. The formulas: theory/README.md 1.5, 1.6, 2 and 4.
Example:
  lpmm advise gpt_tiny_embedded --preset lpmm-min)");
  on_selected(*command, action, o, run_advise);
}

}  // namespace lpmm
