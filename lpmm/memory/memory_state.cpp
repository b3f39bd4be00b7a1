#include "lpmm/memory/memory_state.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr int kMostContributions = 1 << 14;  // what the noise stream holds

// A running offset that refuses to overflow.
struct RunningOffset {
  std::size_t end = 0;
  std::size_t add(std::int64_t bytes, std::size_t alignment, const std::string& tensor) {
    const std::size_t at = (end + alignment - 1) / alignment * alignment;
    if (bytes < 0 || at < end ||
        static_cast<std::size_t>(bytes) > std::numeric_limits<std::size_t>::max() / 4 - at) {
      throw UsageError(fmt::format("tensor {}: the model is too large for this machine's addresses", tensor));
    }
    end = at + static_cast<std::size_t>(bytes);
    return at;
  }
};

// For updates that keep it.
kernels::RoleView gradient_view(std::span<const float> values) {
  auto* codes = reinterpret_cast<std::uint8_t*>(const_cast<float*>(values.data()));
  return {Spec{}, codes, nullptr, std::ssize(values)};
}

}  // namespace

// A range that kernels may work on alone: whole blocks and whole packing groups.
const kernels::RoleView& ModelMemory::State::checked(int tensor, Role role, std::int64_t first,
                                                     std::size_t count) const {
  if (tensor < 0 || static_cast<std::size_t>(tensor) >= tensors.size()) {
    throw UsageError(fmt::format("there is no tensor {}: the model has {}", tensor, tensors.size()));
  }
  const Tensor& of = tensors[static_cast<std::size_t>(tensor)];
  const bool is_gradient = role == Role::kAccumulator && of.at_once;  // it meets every role at once
  const kernels::RoleView& v = of.view[is_gradient ? Role::kParameter : role];
  std::int64_t unit = std::max<std::int64_t>(kGroup, piece_of_blocks(v.codec));
  for (const Role other : kEveryRole) {
    if (is_gradient) unit = std::max<std::int64_t>(unit, piece_of_blocks(of.view[other].codec));
  }
  const auto n =
      static_cast<std::int64_t>(std::min<std::size_t>(count, std::numeric_limits<std::int64_t>::max()));
  if (first < 0 || first > v.elements || n > v.elements - first || first % unit != 0 ||
      ((first + n) % unit != 0 && first + n != v.elements)) {
    throw UsageError(
        fmt::format("tensor {}: elements {} to {} are no range of its {}: it must lie inside the {} "
                    "elements and start and end at multiples of {} or at the end",
                    of.info.name, first, first + n, to_string(role), v.elements, unit));
  }
  return v;
}

void ModelMemory::State::allocate_roles() {
  for (const Role role : kEveryRole) {
    std::vector<Tensor*> owners;
    for (Tensor& t : tensors) {
      if (has_role(policy, optimizer, t.info, role)) owners.push_back(&t);
    }
    if (owners.empty()) continue;
    // All codes first, then all steps: only codes need the alignment.
    RunningOffset layout;
    std::vector<std::size_t> codes, steps;
    for (Tensor* owner : owners) {
      Tensor& t = *owner;
      t.view[role] = {specs_for(policy, t.info)[role], nullptr, nullptr, values_of(optimizer, t.info, role)};
      if (kRoleRows[role].extent == Extent::kRows) t.view[role].shares = shares_of(optimizer, t.info);
      codes.push_back(
          layout.add(code_bytes(t.view[role].codec.format, t.view[role].elements), kAlignment, t.info.name));
    }
    for (const Tensor* t : owners) {
      steps.push_back(layout.add(step_bytes(t->view[role].codec, t->view[role].elements),
                                 sizeof(std::uint16_t), t->info.name));
    }
    pages[role] = allocate(device, static_cast<std::int64_t>(layout.end),
                           fmt::format("role {}", to_string(role)), "a smaller model or preset");
    auto* const data = reinterpret_cast<std::uint8_t*>(pages[role].get());
    for (std::size_t i = 0; i < owners.size(); ++i) {
      kernels::RoleView& v = owners[i]->view[role];
      v.codes = data + codes[i];
      if (v.codec.block != 0) v.steps = reinterpret_cast<std::uint16_t*>(data + steps[i]);
    }
  }
  for (Tensor& t : tensors) {
    if (t.folds_into_momentum) t.view[Role::kAccumulator] = t.view[Role::kMomentum];
  }
}

void ModelMemory::State::allocate_peaks() {
  std::int64_t bytes = 0;
  for (Tensor& t : tensors) {
    t.peaks = peaks_of(policy, optimizer, t.info);
    bytes += t.peaks * peak_bytes(t.info);
  }
  peaks = allocate(device, bytes, "the watch", "watch.every = false");
  auto* codes = reinterpret_cast<std::uint8_t*>(peaks.get());
  for (Tensor& t : tensors) {
    if (t.peaks > 0) t.peak_codes = codes;
    codes += t.peaks * peak_bytes(t.info);
  }
}

std::optional<kernels::Fold> ModelMemory::State::next_fold(int tensor, std::int64_t first,
                                                           std::span<const float> gradient, int microbatch,
                                                           int contribution, bool is_last) {
  if (tensor >= 0 && tensor < std::ssize(tensors) && is_left_out(tensor)) return {};
  const kernels::RoleView& v = checked(tensor, Role::kAccumulator, first, gradient.size());
  if (!stepping) throw UsageError(fmt::format("tensor {}: a gradient outside a step", name_of(tensor)));
  if (microbatch < 0 || microbatch >= microbatches || contribution < 0 ||
      contribution >= kMostContributions) {
    throw UsageError(fmt::format("tensor {}: microbatch {}, contribution {} of a step of {} microbatches",
                                 name_of(tensor), microbatch, contribution, microbatches));
  }
  Tensor& t = tensors[static_cast<std::size_t>(tensor)];
  if (t.at_once) look_at_results();
  if (failed) return {};
  if (t.at_once) {
    apply(tensor, first, gradient);
    return {};
  }
  const auto count = std::ssize(gradient);
  const bool want_sum = clips(optimizer) && is_last && microbatch == microbatches - 1;
  if (count > 0 && t.finished.meets(first, first + count)) {
    throw UsageError(fmt::format(
        "tensor {}: microbatch {} of step {} has a gradient of elements {} to {}, of which some had their "
        "last one, by which gradients are clipped; fold microbatch {} after the others",
        t.info.name, microbatch, step, first, first + count, microbatches - 1));
  }
  if (want_sum && count > 0) t.finished.add(first, first + count);
  t.folded = true;
  const auto is_of_tensor = [&](const kernels::Fold& f) { return f.accumulator.codes == v.codes; };
  if (std::any_of(waiting.begin(), waiting.end(), is_of_tensor)) fold_waiting();
  kernels::FoldArgs args;
  args.scale = static_cast<float>(fold_weight(optimizer, t.folds_into_momentum, updates + 1, microbatches));
  args.noise = noise(tensor, fold_stream(t.folds_into_momentum, microbatch, contribution));
  args.want_square_sum = want_sum;
  if (t.step_stats != nullptr) args.stats = &t.step_stats->role[Role::kAccumulator];
  kernels::FoldResult* result = results.next_fold(tensor, first, count, want_sum && count > 0);
  return kernels::Fold{v, first, count, gradient.data(), args, result};
}

void ModelMemory::State::fold_waiting() {
  const auto folds = std::exchange(waiting, {});
  if (!failed && !folds.empty()) device.fold_all(folds);
}

// Whether a fold or a loss failed, of those so far; the first one is named.
void ModelMemory::State::look_at_results() {
  fold_waiting();
  const std::optional<int> tensor = results.next_failure();
  if (failed || !tensor) return;
  failed = true;
  failure = *tensor == StepResults::kLoss ? "the loss" : name_of(*tensor);
}

Rule ModelMemory::State::rule_of(int tensor, double rate, double clip) const {
  return make_rule(optimizer, tensors[static_cast<std::size_t>(tensor)].info, rate, updates + 1, clip,
                   policy.error_feedback, last_learning_rate);
}

kernels::TensorUpdate ModelMemory::State::update_of(int tensor, double rate, double clip) {
  Tensor& t = tensors[static_cast<std::size_t>(tensor)];
  kernels::UpdateArgs args{t.view, noise(tensor, 0), t.step_stats != nullptr ? &t.step_stats->role : nullptr};
  if (t.folds_into_momentum) args.roles[Role::kAccumulator] = {};
  bool* storable = &results.next()->finite;
  pending.push_back({storable, tensor});
  kernels::TensorUpdate update{rule_of(tensor, rate, clip), args, storable, workspace.get()};
  if (!peaks_rise) return update;
  if (t.peaks > 0) update.peaks = {t.peak_codes, nullptr, step % kStepsPerFall == 0};
  if (t.peaks == kPeaks) update.peaks.ratio = t.peak_codes + peak_bytes(t.info);
  return update;
}

// An update that gives a range of a parameter of two terms these values: its rule takes the gradient as it
// is.
kernels::TensorUpdate ModelMemory::State::assignment(int tensor, std::int64_t first,
                                                     std::span<const float> values, bool* storable) const {
  Muon assign;
  assign.pass = Muon::Pass::kCombine;
  assign.kept = 0;
  assign.moved = 1;
  kernels::UpdateArgs args;
  for (const Role role : {Role::kParameter, Role::kCompensation}) {
    args.roles[role] = part_of(checked(tensor, role, first, values.size()), first, std::ssize(values));
  }
  args.roles[Role::kAccumulator] = gradient_view(values);
  args.keeps_gradient = true;
  args.noise = {seed, static_cast<std::uint32_t>(tensor), 0, 0, static_cast<std::uint32_t>(first / kGroup)};
  return {assign, args, storable};
}

// Updates a range of a tensor by its gradient, where that is finite.
void ModelMemory::State::apply(int tensor, std::int64_t first, std::span<const float> gradient) {
  const auto count = std::ssize(gradient);
  Tensor& t = tensors[static_cast<std::size_t>(tensor)];
  if (count > 0 && !t.finished.add(first, first + count)) {
    throw UsageError(fmt::format(
        "tensor {}: gradients of elements {} to {} came in step {}, some of them a second time; where "
        "they are applied at once, each must come once",
        t.info.name, first, first + count, step));
  }
  const kernels::RoleView whole = gradient_view(gradient);
  kernels::FoldResult* found = results.next_fold(tensor, first, count, false);
  device.square_sum(whole, 0, count, &found->square_sum);
  device.synchronize();
  found->finite = found->square_sum <= double{kMaxMagnitude} * kMaxMagnitude;
  look_at_results();
  if (failed || count == 0) return;
  kernels::TensorUpdate update = update_of(tensor, learning_rate, 1);
  for (const Role r : kEveryRole) update.args.roles[r] = part_of(update.args.roles[r], first, count);
  update.args.roles[Role::kAccumulator] = whole;
  update.args.keeps_gradient = true;
  update.args.noise.first_group = static_cast<std::uint32_t>(first / kGroup);
  broken = true;  // until all is known to be well
  device.update({&update, 1});
}

// If gradients of some elements are missing, the step differs from one with an accumulator.
void ModelMemory::State::check_finished() const {
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    const Tensor& t = tensors[static_cast<std::size_t>(i)];
    if (!t.at_once || is_left_out(i) || t.finished.is_all_of(t.info.elements())) continue;
    throw UsageError(fmt::format(
        "tensor {}: not all gradients of its {} elements came in step {}; where they are applied at "
        "once, zeros must come as well",
        t.info.name, t.info.elements(), step));
  }
}

void ModelMemory::State::finish_updates() {
  device.synchronize();
  for (const Pending& p : pending) {
    if (*p.storable) continue;
    throw RunError(
        fmt::format("tensor {}: step {} made a parameter or state that is NaN, infinite or above 2^120; "
                    "lower the learning rate, or clip gradients (optimizer.clip_norm)",
                    name_of(p.tensor), step));
  }
  broken = false;
}

Clip ModelMemory::State::clip_gradients(StepReport& report) {
  if (!clips(optimizer)) return {std::vector<double>(tensors.size(), 1.0)};
  std::vector<kernels::RoleView> accumulators;
  for (const Tensor& t : tensors) accumulators.push_back(t.view[Role::kAccumulator]);
  const GradientSquares squares = results.gradient_squares(accumulators);
  Clip found = clip(optimizer, squares, updates + 1, histories);
  report.gradient_norm = std::sqrt(squares.all);
  report.clip_factor = found.clip_factor;
  report.clipped_tensors = found.clipped_tensors;
  return found;
}

// A momentum that gradients are accumulated in has no other part of them to go back to.
void ModelMemory::State::empty_accumulators() {
  for (Tensor& t : tensors) {
    const kernels::RoleView& accumulator = t.view[Role::kAccumulator];
    if (accumulator.codes == nullptr || (t.folds_into_momentum && !t.folded)) continue;
    device.clear(accumulator);
  }
}

// Nothing of it is left but updates that were applied at once.
void ModelMemory::State::leave_step() {
  waiting.clear();
  empty_accumulators();
  stepping = false;
  finish_updates();
}

}  // namespace lpmm
