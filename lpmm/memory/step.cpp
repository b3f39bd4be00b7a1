#include "lpmm/memory/step.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/memory/memory_state.h"
#include "lpmm/ranks/ranks.h"

namespace lpmm {
namespace {

constexpr int kMostContributions = 1 << 14;  // the noise stream has room for these

// The microbatches of a share, of `all`; with slots that of this rank.
Share checked_share(Share share, int all, const Slots* slots, std::uint32_t step) {
  if (slots != nullptr) {
    const Share own = slots->own_microbatches();
    if (share.count == 0 || (share.first == own.first && share.count == own.count)) return own;
    throw UsageError(
        fmt::format("step {}: with slots a share is that of the rank, {} microbatches from {} on", step,
                    own.count, own.first));
  }
  if (share.count == 0) share.count = all - std::max(share.first, 0);
  if (share.first < 0 || share.count < 1 || share.first > all - share.count) {
    throw UsageError(
        fmt::format("step {}: {} microbatches from {} on are no share of {}, which are counted from 0", step,
                    share.count, share.first, all));
  }
  return share;
}

}  // namespace

std::optional<kernels::Fold> MemoryState::next_fold(int tensor, std::int64_t first,
                                                    const kernels::Values& gradient, int microbatch,
                                                    int contribution, bool is_last) {
  if (tensor >= 0 && tensor < std::ssize(tensors) && is_left_out(tensor)) return {};
  const kernels::RoleView& whole = checked(tensor, Role::kAccumulator, first, gradient.count);
  const int end = share.first + share.count;
  if (microbatch < share.first || microbatch >= end || contribution < 0 ||
      contribution >= kMostContributions) {
    throw UsageError(fmt::format(
        "tensor {}: microbatch {}, contribution {}, of step {}, which takes microbatches {} to {} and "
        "contributions 0 to {}",
        name_of(tensor), microbatch, contribution, step, share.first, end - 1, kMostContributions - 1));
  }
  Tensor& t = tensors[static_cast<std::size_t>(tensor)];
  if (t.at_once) check_results();
  if (failed) return {};
  if (t.at_once) {
    apply(tensor, first, gradient);
    return {};
  }
  const std::int64_t count = gradient.count;
  const int slot = slots ? slots->slot_of(microbatch) : 0;
  const kernels::RoleView v = slots ? slots->accumulator(whole, slot) : whole;
  const bool completes = is_last && microbatch == end - 1 && (clips(optimizer) || slots);
  const bool want_sum = completes && !slots;
  if (count > 0 && t.finished.meets(first, first + count)) {
    throw UsageError(fmt::format(
        "tensor {}: microbatch {} of step {} has a gradient of elements {} to {}, of which some had their "
        "last one; fold microbatch {} after the others",
        t.info.name, microbatch, step, first, first + count, end - 1));
  }
  t.folded = true;
  const auto is_of_tensor = [&](const kernels::Fold& f) { return f.accumulator.codes == v.codes; };
  if (std::any_of(waiting.begin(), waiting.end(), is_of_tensor)) fold_waiting();
  if (completes && count > 0) {
    t.finished.add(first, first + count);
    if (t.finished.is_all_of(t.info.elements())) complete.push_back(tensor);
  }
  kernels::FoldArgs args;
  args.scale = static_cast<float>(fold_weight(optimizer, t.folds_into_momentum, updates + 1, microbatches));
  args.noise = noise(tensor, fold_stream(t.folds_into_momentum, microbatch, contribution));
  args.want_square_sum = want_sum;
  if (!t.step_stats.empty()) {
    args.stats = &t.step_stats[static_cast<std::size_t>(slot)]->role[Role::kAccumulator];
  }
  kernels::FoldResult* result = results.next_fold(tensor, first, count, want_sum && count > 0);
  return kernels::Fold{v, first, gradient, args, result};
}

void MemoryState::fold(std::span<const kernels::Fold> folds) {
  device.fold(folds);
  if (!behind || !waiting.empty()) return;
  for (const int tensor : std::exchange(complete, {})) behind->complete(tensor);
}

void MemoryState::fold_waiting() {
  const auto folds = std::exchange(waiting, {});
  if (!failed && !folds.empty()) fold(folds);
}

// Checks whether a fold or a loss failed so far, and keeps the name of the first.
void MemoryState::check_results() {
  fold_waiting();
  const std::optional<int> tensor = results.next_failure();
  if (failed || !tensor) return;
  failed = true;
  failure = *tensor == StepResults::kLoss ? "the loss" : name_of(*tensor);
}

// The first rank that failed says why: its microbatches come first.
void MemoryState::agree() {
  check_results();
  if (std::exchange(agreed, true) || ranks.size() == 1) return;
  if (behind) behind->wait_for_accumulators();
  for (const std::string& said : ranks.gather(failed ? "!" + failure : "")) {
    if (said.empty()) continue;
    failed = true;
    failure = said.substr(1);
    return;
  }
}

kernels::TensorUpdate MemoryState::update_of(int tensor, double clip, TensorStats* found) {
  Tensor& t = tensors[static_cast<std::size_t>(tensor)];
  kernels::UpdateArgs args{t.view, noise(tensor, 0), found != nullptr ? &found->role : nullptr};
  if (t.folds_into_momentum) args.roles[Role::kAccumulator] = {};
  bool* storable = &results.next()->finite;
  pending.emplace_back(storable, tensor);
  const Rule rule = make_rule(optimizer, t.info, learning_rate, updates + 1, clip, policy.error_feedback,
                              last_learning_rate);
  kernels::TensorUpdate update{rule, args, storable, workspace.get()};
  if (!peaks_rise) return update;
  if (t.peaks > 0) update.peaks = {t.peak_codes, nullptr, step % kStepsPerFall == 0};
  if (t.peaks == kPeaks) update.peaks.ratio = t.peak_codes + peak_bytes(t.info);
  return update;
}

// Updates a range of a tensor by its gradient, where that is finite.
void MemoryState::apply(int tensor, std::int64_t first, const kernels::Values& gradient) {
  const std::int64_t count = gradient.count;
  Tensor& t = tensors[static_cast<std::size_t>(tensor)];
  if (count > 0 && !t.finished.add(first, first + count)) {
    throw UsageError(fmt::format(
        "tensor {}: gradients of elements {} to {} came in step {}, some of them a second time; where "
        "they are applied at once, each must come once",
        t.info.name, first, first + count, step));
  }
  const kernels::RoleView whole = view_of(gradient);
  kernels::FoldResult* found = results.next_fold(tensor, first, count, false);
  device.square_sum(whole, 0, count, &found->square_sum);
  device.synchronize();
  found->finite = found->square_sum <= double{kMaxMagnitude} * kMaxMagnitude;
  check_results();
  if (failed || count == 0) return;
  kernels::TensorUpdate update = update_of(tensor, 1, t.step_stats.empty() ? nullptr : t.step_stats[0]);
  for (const Role r : kEveryRole) update.args.roles[r] = part_of(update.args.roles[r], first, count);
  update.args.roles[Role::kAccumulator] = whole;
  update.args.keeps_gradient = true;
  update.args.noise.first_group = static_cast<std::uint32_t>(first / kGroup);
  broken = true;  // until all is known to be well
  device.update({&update, 1});
}

// If gradients of some elements are missing, the step differs from one with an accumulator.
void MemoryState::check_finished() const {
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    const Tensor& t = tensors[static_cast<std::size_t>(i)];
    if (!t.at_once || is_left_out(i) || t.finished.is_all_of(t.info.elements())) continue;
    throw UsageError(fmt::format(
        "tensor {}: not all gradients of its {} elements came in step {}; where they are applied at "
        "once, zeros must come as well",
        t.info.name, t.info.elements(), step));
  }
}

std::optional<int> MemoryState::not_storable() const {
  device.synchronize();
  for (const auto& [storable, tensor] : pending) {
    if (!*storable) return tensor;
  }
  return {};
}

void MemoryState::refuse_update(int tensor) const {
  throw RunError(
      fmt::format("tensor {}: step {} made a parameter or state that is NaN, infinite or above 2^120; "
                  "lower the learning rate, or clip gradients (optimizer.clip_norm)",
                  name_of(tensor), step));
}

void MemoryState::finish_updates() {
  if (const std::optional<int> tensor = not_storable()) refuse_update(*tensor);
  broken = false;
}

Clip MemoryState::clip_gradients(StepReport& report) {
  if (!clips(optimizer)) return {std::vector<double>(tensors.size(), 1.0)};
  std::vector<kernels::RoleView> accumulators;
  for (const Tensor& t : tensors) accumulators.push_back(t.view[Role::kAccumulator]);
  const GradientSquares squares =
      slots ? slots->gradient_squares(*this) : results.gradient_squares(accumulators);
  Clip found = clip(optimizer, squares, updates + 1, histories);
  report.gradient_norm = std::sqrt(squares.all);
  report.clip_factor = found.clip_factor;
  report.clipped_tensors = found.clipped_tensors;
  return found;
}

// A momentum that gradients are accumulated in has no other part of them to go back to.
void MemoryState::empty_accumulators() {
  for (Tensor& t : tensors) {
    const kernels::RoleView& accumulator = t.view[Role::kAccumulator];
    if (accumulator.codes == nullptr || (t.folds_into_momentum && !t.folded)) continue;
    for (int slot = 0; slot < (slots ? slots->own() : 1); ++slot) {
      device.clear(slots ? slots->accumulator(accumulator, slot) : accumulator);
    }
  }
}

// Nothing of it is left but updates that were applied at once.
void MemoryState::leave_step() {
  stepping = false;
  broken = true;  // until all is known to be well
  waiting.clear();
  if (behind) behind->leave_step();
  empty_accumulators();
  finish_updates();
}

void MemoryState::update_tensors(const Clip& clip) {
  std::vector<kernels::TensorUpdate> all;
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    const Tensor& t = tensors[static_cast<std::size_t>(i)];
    if (is_left_out(i) || t.at_once) continue;
    all.push_back(update_of(i, clip.factors[static_cast<std::size_t>(i)],
                            t.step_stats.empty() ? nullptr : t.step_stats[0]));
    watch.measure(all.back(), i, 0);
  }
  device.update(all);
  device.synchronize();
  watch.set(watch.read(), tensors.size());
}

void MemoryState::update_all(StepReport& report) {
  const Clip clip = clip_gradients(report);
  stepping = false;
  broken = true;  // until all is known to be well
  if (slots) {
    slots->update(*this, clip);
  } else {
    update_tensors(clip);
  }
  update_averages();
  finish_updates();
  for (Tensor& t : tensors) {
    for (const TensorStats* found : t.step_stats) t.stats += *found;
  }
  ++updates;
  last_learning_rate = learning_rate;
}

Step::Step(MemoryState& state, const StepOptions& options) : state_(&state) {
  MemoryState& s = state;
  const std::uint32_t number = options.step == 0 ? s.step + 1 : options.step;
  if (s.broken) {
    throw UsageError(
        fmt::format("step {} begins, but the update of step {} failed; load a checkpoint", number, s.step));
  }
  s.check_no_step(fmt::format("step {} begins", number));
  if (number <= s.step) {
    throw UsageError(fmt::format("step {} follows step {}: a step number keys the noise and may not repeat",
                                 number, s.step));
  }
  const double rate = options.learning_rate.value_or(peak_rate(s.optimizer));
  check_rate(rate);
  s.share = checked_share(options.share, s.microbatches, s.slots.get(), number);
  s.learning_rate = rate;
  s.step = number;
  s.pending.clear();
  s.failed = s.agreed = false;
  s.failure.clear();
  s.results.clear();
  s.step_stats.clear();
  s.watch.begin_step(options.want_watch);
  for (MemoryState::Tensor& t : s.tensors) {
    t.step_stats.clear();
    for (int slot = 0; options.want_stats && slot < (s.slots ? s.slots->own() : 1); ++slot) {
      t.step_stats.push_back(s.step_stats.next());
    }
    t.folded = false;
    t.finished.clear();
  }
  s.complete.clear();
  if (s.behind) s.behind->begin_step(number, [&](int tensor) { return s.is_left_out(tensor); });
  s.stepping = s.others_may_read = true;
}

Step::~Step() {
  if (state_ == nullptr || !state_->stepping) return;
  try {
    state_->leave_step();
  } catch (...) {
    // The memory is broken then, and the next step says so.
  }
}

MemoryState& Step::state() const {
  if (state_ == nullptr) throw std::logic_error("a step was committed, or moved away, and is used again");
  return *state_;
}

Share Step::share() const {
  return state().share;
}
void Step::fold(int tensor, std::int64_t first, const kernels::Values& gradient, int microbatch,
                int contribution, bool is_last) {
  const auto f = state().next_fold(tensor, first, gradient, microbatch, contribution, is_last);
  if (f) state().fold({&*f, 1});
}
void Step::fold_later(int tensor, std::int64_t first, const kernels::Values& gradient, int microbatch,
                      int contribution, bool is_last) {
  const auto f = state().next_fold(tensor, first, gradient, microbatch, contribution, is_last);
  if (f) state().waiting.push_back(*f);
}
void Step::fold_waiting() {
  state().fold_waiting();
}
kernels::LossResult* Step::next_loss() {
  return state().results.next_loss();
}
Noise Step::noise(std::uint32_t tensor, std::uint32_t stream) const {
  return {state().seed, tensor, state().step, stream};
}
bool Step::failed() const {
  state().check_results();
  return state().failed;
}
bool Step::failed_anywhere() const {
  state().agree();
  return state().failed;
}
void Step::fail(const std::string& why) {
  if (!failed()) state().failure = why;
  state().failed = true;
}

StepReport Step::commit() && {
  const Step ending = std::move(*this);  // ends here, whatever happens
  MemoryState& s = ending.state();
  StepReport report;
  if (ending.failed_anywhere()) {
    report.failed_tensor = s.failure;
    s.leave_step();
    return report;
  }
  s.check_finished();
  s.update_all(report);
  report.applied = true;
  return report;
}

}  // namespace lpmm
