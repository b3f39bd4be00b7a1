#include "lpmm/run/watch/replay.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/schedule.h"
#include "lpmm/run/beside/reference.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/plan.h"
#include "lpmm/run/stored_weights.h"
#include "lpmm/run/train_step.h"
#include "lpmm/run/watch/watch.h"

namespace lpmm {
namespace {

void check_machine(std::span<const Json> log, const Device& device) {
  const Json here = computed_by(device);
  for (const Json& record : log) {
    if (record.value("type", "") != "system") continue;
    const Json there = record.value("computed_by", Json());
    if (there == here) continue;
    throw RunError(fmt::format(
        "the run was computed by {}, this program computes by {}: what it made again would be another run; "
        "use that program on such a machine",
        there.dump(), here.dump()));
  }
}

bool is_same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

[[noreturn]] void refuse_loss(std::int64_t step, const std::string& before, double now) {
  throw RunError(fmt::format(
      "step {}: the run had a loss of {}, made again it is {}: this is not the run as it was; were its data, "
      "its config or the program changed?",
      step, before, now));
}

}  // namespace

struct Replay::State {
  State(const Setup& s, const Model& m, const RunFolder& f, std::unique_ptr<Device> d)
      : setup(s),
        config(s.config),
        model(m),
        folder(f),
        device(std::move(d)),
        data(with_kept_reference(load_data(s, device->host_pool()), f.root)),
        program(m.build(config.train.batch / config.train.microbatches, config.train.compute, *device,
                        s.size.longest)) {}

  const Setup& setup;
  const RunConfig& config;
  const Model& model;
  const RunFolder& folder;
  std::unique_ptr<Device> device;
  std::shared_ptr<const DataSource> data;
  std::optional<ModelMemory> memory;
  std::optional<Buffers> buffers;
  std::unique_ptr<Program> program;
  Meter window;
  std::vector<std::vector<ElementMove>> elements;

  void begin(std::int64_t step);
  ReplayedStep make(std::int64_t step, Prefetcher& batches);
};

// Restores the state of the run after this step.
void Replay::State::begin(std::int64_t step) {
  buffers.emplace(model.buffers(), *device);
  memory.emplace(model.tensors(), config.policy, config.optimizer, config.train.seed,
                 config.train.microbatches, *device, config.slots());
  window = {};
  if (step > 0) {
    const std::string path = folder.checkpoints / checkpoint_name(step);
    check_same_data(checkpoint_run(path), setup, path);
    const Json saved = load_checkpoint(path, config.model.name, *memory, *buffers);
    window =
        parse_state(saved, config, steps_per_epoch(*data, config.train.batch, config.data.keeps_last), path)
            .window;
    return;
  }
  set_initial_parameters(config, model, *memory, *buffers, setup.class_names);
}

ReplayedStep Replay::State::make(std::int64_t step, Prefetcher& batches) {
  StepOptions options;
  options.step = static_cast<std::uint32_t>(step);
  options.learning_rate =
      peak_rate(config.optimizer) * schedule_factor(config.schedule, step - 1, steps_of(setup));
  options.want_stats = options.want_watch = true;
  ReplayedStep made;
  try {
    const StepResult done = train_step(*program, *memory, *buffers, batches, options);
    const bool applied = done.report.applied;
    if (applied) made.meter = done.meter;
    made.statistics =
        measure_update(*memory, step, applied ? done.meter.loss() : std::nan(""), done.report.failed_tensor);
    add_bias(made.statistics, memory->take_stats());
  } catch (const RunError& e) {
    made.statistics = measure_update(*memory, step, std::nan(""), e.what());
  }
  return made;
}

Replay::Replay(const Setup& setup, const Model& model, const RunFolder& folder, std::span<const Json> log) {
  auto device = make_device(setup.config.train.device, setup.config.train.threads);
  check_machine(log, *device);
  check_memory(make_plan(setup, model, *device), *device);
  state_ = std::make_unique<State>(setup, model, folder, std::move(device));
}
Replay::~Replay() = default;

std::vector<ReplayedStep> Replay::go(const ReplayPlan& plan, const ProgressCall& progress) {
  State& s = *state_;
  s.begin(plan.from);
  const RunConfig& c = s.config;
  const std::int64_t per_epoch = steps_per_epoch(*s.data, c.train.batch, c.data.keeps_last);
  Prefetcher batches(*s.data,
                     {c.train.seed, c.train.batch, c.train.microbatches, c.data.augment, c.data.keeps_last},
                     plan.from / per_epoch, plan.from % per_epoch);
  std::vector<ReplayedStep> steps;
  std::optional<ElementWatch> elements;
  for (std::int64_t step = plan.from + 1; step <= plan.to; ++step) {
    const bool is_measured = step >= plan.first_measured && step <= plan.last_measured;
    if (is_measured && !elements) elements.emplace(*s.memory);
    InterruptGuard::check();
    const bool without = step >= plan.first_left_out && step <= plan.last_left_out;
    // Up to the steps in question they are those of the run.
    s.memory->let_peaks_rise(is_measured || is_watched(c, step));
    s.memory->leave_out(without ? plan.left_out : std::vector<int>());
    steps.push_back(s.make(step, batches));
    if (is_measured) elements->measure(step);
    if (progress) progress(step - plan.from, plan.to - plan.from);
    // An update that could not be stored ended the run.
    if (!steps.back().statistics.failed.empty() && !steps.back().statistics.tensors.empty()) break;
  }
  if (elements) s.elements = elements->moves();
  return steps;
}

const std::vector<std::vector<ElementMove>>& Replay::elements() const {
  return state_->elements;
}

const Meter& Replay::window() const {
  return state_->window;
}
int check_losses(std::span<const ReplayedStep> steps, Meter window, std::span<const Json> log,
                 std::span<const UpdateStatistics> kept) {
  if (steps.empty()) return 0;
  const std::int64_t first = steps.front().statistics.step, last = steps.back().statistics.step;
  int compared = 0;
  for (const UpdateStatistics& s : kept) {
    if (s.step < first || s.step > last) continue;
    const UpdateStatistics& again = steps[static_cast<std::size_t>(s.step - first)].statistics;
    if (!is_same(s.loss, again.loss)) refuse_loss(s.step, fmt::format("{}", s.loss), again.loss);
    ++compared;
  }
  std::int64_t next = first;
  for (const Json& record : log) {
    if (record.value("type", "") != "step" || record.contains("failed")) continue;
    const std::int64_t step = to_count(record.at("step"), "step");
    if (step < first || step > last) continue;
    for (; next <= step; ++next) window += steps[static_cast<std::size_t>(next - first)].meter;
    const Json& loss = record.at("loss");
    const double before = loss.is_null() ? std::nan("") : loss.get<double>();
    if (!is_same(before, window.loss())) refuse_loss(step, loss.dump(), window.loss());
    window = {};
    ++compared;
  }
  return compared;
}

}  // namespace lpmm
