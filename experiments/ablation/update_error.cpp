// What one step loses with the variance or the momentum in few bits, on the states of a real run.
#include <fmt/format.h>

#include <cmath>

#include "experiments/ablation/part.h"
#include "experiments/commands/shipped_configs.h"
#include "experiments/plots/csv.h"
#include "lpmm/program/family.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/train_step.h"
#include "theory/update_study.h"

namespace lpmm {
namespace {

constexpr const char* kConfig = "gpt_tiny_embedded";
constexpr std::int64_t kQuickSteps = 8;

// The packed tensors' states after `percent` of the run.
struct Moment {
  int percent;
  double correction;
  std::vector<theory::AdamState> states;
};

Moment look(const ModelMemory& memory, int percent, double beta2) {
  Moment m{percent, 1 - std::pow(beta2, static_cast<double>(memory.updates())), {}};
  for (int i = 0; i < memory.tensors(); ++i) {
    const TensorInfo& info = memory.info(i);
    if (info.shape.size() < 2) continue;
    theory::AdamState& s = m.states.emplace_back();
    for (auto& [role, values] : {std::pair<Role, std::vector<float>&>(Role::kMomentum, s.momentum),
                                 std::pair<Role, std::vector<float>&>(Role::kVariance, s.variance)}) {
      const float* exact = reinterpret_cast<const float*>(memory.view(i, role).codes);
      values.assign(exact, exact + info.elements());
    }
  }
  return m;
}

// Trains the shipped network in fp32, and looks at its states after each quarter but the last.
std::vector<Moment> train_and_look(const AblationOptions& options) {
  ConfigOptions fp32;
  fp32.preset = "fp32";
  const Setup setup(load_config(find_config(kConfig), fp32));
  const RunConfig& config = setup.config;
  const auto& t = config.train;
  CpuDevice device(options.threads);
  const auto data = load_data(setup, device.host_pool());
  const auto model = make_model(config.model);
  ModelMemory memory(model->tensors(), config.policy, config.optimizer, t.seed, t.microbatches, device);
  Buffers buffers(model->buffers(), device);
  model->initialize(memory, t.seed, {});
  const auto program = model->build(t.batch / t.microbatches, t.compute, device);
  Prefetcher batches(*data, {t.seed, t.batch, t.microbatches, config.data.augment}, 0, 0);

  const std::int64_t total = options.quick ? kQuickSteps : steps_of(setup);
  say_of_part(fmt::format("{} steps of {}", 3 * total / 4, kConfig));
  std::vector<Moment> moments;
  for (std::int64_t step = 0; step < 3 * total / 4; ++step) {
    StepOptions now;
    now.step = static_cast<std::uint32_t>(step + 1);
    now.learning_rate = config.optimizer.learning_rate * schedule_factor(config.schedule, step, total);
    train_step(*program, memory, buffers, batches, now);
    if ((step + 1) % (total / 4) != 0) continue;
    moments.push_back(
        look(memory, static_cast<int>(100 * (step + 1) / total), setting(config.optimizer, "beta2")));
  }
  return moments;
}

struct StateCell {
  const Moment* moment;
  theory::UpdateStudy study;
  theory::UpdateStudyResult result = {};
};

// Every packed format that the role can take, up to 8 bits, with every rounding.
std::vector<StateCell> cells_of(const std::vector<Moment>& moments) {
  std::vector<StateCell> cells;
  for (const Moment& m : moments) {
    for (const Role role : {Role::kVariance, Role::kMomentum}) {
      for (const Format f : all_formats()) {
        if (!is_packed(f) || f.bits > 8 || is_signed(f.map) != (role == Role::kMomentum)) continue;
        for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic, Rounding::kUpdate}) {
          if (rounding == Rounding::kUpdate && !is_zero_free(f.map)) continue;
          const Spec spec = {f, 128, rounding, StepMode::kMoving};
          cells.push_back({&m, {.stored = role, .spec = spec, .correction = m.correction}});
        }
      }
    }
  }
  return cells;
}

// A chart for each role and rounding, a line for each map: at half of the run.
void add_point(std::vector<Chart>& charts, const StateCell& c) {
  const Spec& spec = c.study.spec;
  const std::string title = fmt::format("{}, {}", to_string(c.study.stored), to_string(spec.rounding));
  auto chart = std::find_if(charts.begin(), charts.end(), [&](const Chart& x) { return x.title == title; });
  if (chart == charts.end()) {
    chart = charts.insert(charts.end(),
                          {title, "bits", "error of the update", "set logscale y\nset yrange [1e-3:2]", {}});
  }
  const std::string map(row_of(spec.format.map).name);
  auto line = std::find_if(chart->series.begin(), chart->series.end(),
                           [&](const ChartSeries& s) { return s.title == map; });
  if (line == chart->series.end()) {
    const char* next = kRunColours[chart->series.size() % std::size(kRunColours)];
    line = chart->series.insert(line, {map, fmt::format("linespoints pt 7 lc '{}'", next), {}});
  }
  line->points.emplace_back(spec.format.bits, c.result.error);
}

}  // namespace

void run_update_errors(const AblationOptions& options) {
  const std::vector<Moment> moments = train_and_look(options);
  std::vector<StateCell> cells = cells_of(moments);
  measure_all(options, cells, "ways to store a state", [](StateCell& cell, Device& one) {
    cell.result = theory::run_update_study(cell.study, cell.moment->states, one);
  });
  std::string csv =
      csv_line("percent", "role", "format", "bits", "rounding", "error", "length", "worst_tensor");
  std::vector<Chart> charts;
  for (const StateCell& c : cells) {
    const Spec& spec = c.study.spec;
    csv += csv_line(c.moment->percent, to_string(c.study.stored), to_string(spec.format),
                    static_cast<int>(spec.format.bits), to_string(spec.rounding),
                    fmt::format("{:.5f}", c.result.error), fmt::format("{:.5f}", c.result.length),
                    fmt::format("{:.5f}", c.result.worst));
    if (c.moment->percent == 50) add_point(charts, c);
  }
  write_part(options, "update_error", csv, std::move(charts));
}

}  // namespace lpmm
