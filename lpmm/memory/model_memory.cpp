#include "lpmm/memory/model_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "kernels/orthogonal.h"
#include "kernels/sums.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/step_results.h"
#include "lpmm/memory/update_watch.h"

namespace lpmm {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kHistoryBytes = sizeof(GradientHistory);
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

bool has_history(const OptimizerConfig& optimizer, const std::string& tensor) {
  return optimizer.percentile_clip > 0 && !is_frozen(optimizer, tensor);
}

// Counts one tensor; spec_of(role) is null where it has no such role.
template <class SpecOf>
void add_to(Ledger& ledger, const TensorInfo& info, bool exempt, const SpecOf& spec_of) {
  ledger.parameters += info.elements();
  for (const Role r : kEveryRole) {
    const Spec* spec = spec_of(r);
    if (spec == nullptr) continue;
    (exempt ? ledger.exempt : ledger.role_codes[r]) += code_bytes(spec->format, info.values(r));
    ledger.role_steps[r] += step_bytes(*spec, info.values(r));
  }
}

void check_tensor(const TensorInfo& info) {
  if (info.elements() > kMostElements) {
    throw UsageError(fmt::format("tensor {}: {} elements, but the noise counter holds {}", info.name,
                                 info.elements(), kMostElements));
  }
  if (info.parts < 1 || info.traits().rows % info.parts != 0) {
    throw UsageError(fmt::format("tensor {}: its {} rows are not {} matrices of as many rows each", info.name,
                                 info.traits().rows, info.parts));
  }
}

}  // namespace

Ledger memory_ledger(std::span<const TensorInfo> tensors, const Policy& policy,
                     const OptimizerConfig& optimizer) {
  Ledger ledger;
  for (const TensorInfo& t : tensors) {
    const RoleSpecs specs = specs_for(policy, t);
    add_to(ledger, t, is_exempt(policy, t),
           [&](Role role) { return has_role(policy, optimizer, t, role) ? &specs[role] : nullptr; });
    if (has_history(optimizer, t.name)) ledger.buffers += kHistoryBytes;
  }
  return ledger;
}

std::int64_t update_workspace_bytes(std::span<const TensorInfo> tensors, const OptimizerConfig& optimizer,
                                    const Device& device) {
  std::int64_t most = 0;
  for (const TensorInfo& t : tensors) {
    if (is_frozen(optimizer, t.name)) continue;
    const Rule rule = make_rule(optimizer, t, optimizer.learning_rate, 1, 1, false);
    most = std::max(most, kernels::update_workspace_bytes(device, rule));
  }
  return most;
}

std::int64_t column_sums_bytes(std::span<const TensorInfo> tensors, const Policy& policy,
                               const OptimizerConfig& optimizer) {
  std::int64_t most = 0;
  for (const TensorInfo& t : tensors) {
    if (!has_role(policy, optimizer, t, Role::kColumnVariance)) continue;
    most = std::max(most, column_sum_bytes(t.traits().rows, t.traits().columns));
  }
  return most;
}

struct ModelMemory::State {
  struct Tensor {
    TensorInfo info;
    bool exempt = false, frozen = false;
    bool folds_into_momentum = false;
    bool at_once = false;  // gradients of it are applied at once
    RoleArray<kernels::RoleView> view;
    TensorStats* step_stats = nullptr;  // of the step under way, where they are wanted
    TensorStats stats;                  // since the last take
  };

  // An update that may have met what cannot be stored.
  struct Pending {
    const bool* storable;
    int tensor;
  };

  State(Policy p, OptimizerConfig o, std::uint64_t run_seed, int k, Device& on)
      : policy(std::move(p)),
        optimizer(std::move(o)),
        seed(run_seed),
        microbatches(k),
        device(on),
        results(on),
        step_stats(on),
        watch(on) {}

  std::vector<Tensor> tensors;
  std::vector<std::optional<GradientHistory>> histories;  // of the tensors
  Policy policy;
  OptimizerConfig optimizer;
  std::uint64_t seed;
  int microbatches;
  Device& device;
  RoleArray<DeviceMemory> pages;  // all memory of a role: zeros, and what is never touched costs no RSS
  std::int64_t workspace_bytes = 0;
  DeviceMemory workspace;  // of updates, one after another
  StepResults results;
  SharedResults<TensorStats> step_stats;
  UpdateWatch watch;
  std::vector<int> left_out;  // tensors

  std::uint32_t step = 0;
  bool stepping = false, failed = false, broken = false;
  std::string failure;
  std::vector<Pending> pending;            // of the step under way
  double learning_rate = kNoLearningRate;  // the same, where it is known
  std::int64_t updates = 0;
  double last_learning_rate = kNoLearningRate;

  const kernels::RoleView& view(int tensor, Role role) const {
    return tensors.at(static_cast<std::size_t>(tensor)).view[role];
  }
  const kernels::RoleView& checked(int tensor, Role role, std::int64_t first, std::size_t count) const;
  Noise noise(int tensor, std::uint32_t stream) const {
    return {seed, static_cast<std::uint32_t>(tensor), step, stream};
  }
  void allocate_roles();
  const std::string& name_of(int tensor) const { return tensors[static_cast<std::size_t>(tensor)].info.name; }
  bool is_left_out(int tensor) const {
    return tensors[static_cast<std::size_t>(tensor)].frozen ||
           std::find(left_out.begin(), left_out.end(), tensor) != left_out.end();
  }
  void look_at_results();
  Rule rule_of(int tensor, double rate, double clip) const;
  kernels::TensorUpdate update_of(int tensor, double rate, double clip);
  void apply(int tensor, std::int64_t first, std::span<const float> gradient);
  void finish_updates();
  Clip clip_gradients(StepReport& report);
  void empty_accumulators();
};

// A range that kernels may work on alone: whole blocks and whole packing groups.
const kernels::RoleView& ModelMemory::State::checked(int tensor, Role role, std::int64_t first,
                                                     std::size_t count) const {
  if (tensor < 0 || static_cast<std::size_t>(tensor) >= tensors.size()) {
    throw UsageError(fmt::format("there is no tensor {}: the model has {}", tensor, tensors.size()));
  }
  const Tensor& of = tensors[static_cast<std::size_t>(tensor)];
  const bool is_gradient = role == Role::kAccumulator && of.at_once;  // it meets every role at once
  const kernels::RoleView& v = of.view[is_gradient ? Role::kParameter : role];
  std::int64_t unit = std::max<std::int64_t>(kGroup, v.codec.block);
  for (const Role other : kEveryRole) {
    if (is_gradient) unit = std::max<std::int64_t>(unit, of.view[other].codec.block);
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
      t.view[role] = {specs_for(policy, t.info)[role], nullptr, nullptr, t.info.values(role)};
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

// Whether a fold or a loss failed, of those so far; the first one is named.
void ModelMemory::State::look_at_results() {
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
  return {rule_of(tensor, rate, clip), args, storable, workspace.get()};
}

// Updates a range of a tensor by its gradient, where that is finite.
void ModelMemory::State::apply(int tensor, std::int64_t first, std::span<const float> gradient) {
  const auto count = std::ssize(gradient);
  auto* values = reinterpret_cast<std::uint8_t*>(const_cast<float*>(gradient.data()));  // it keeps them
  const kernels::RoleView whole{Spec{}, values, nullptr, count};
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
  const GradientSquares squares = results.gradient_squares(accumulators, [&](int i) { return name_of(i); });
  Clip found = clip(optimizer, squares, updates + 1, histories);
  report.gradient_norm = std::sqrt(squares.all);
  report.clip_factor = found.clip_factor;
  report.clipped_tensors = found.clipped_tensors;
  return found;
}

void ModelMemory::State::empty_accumulators() {
  for (Tensor& t : tensors) {
    const kernels::RoleView& accumulator = t.view[Role::kAccumulator];
    if (accumulator.codes != nullptr) device.clear(accumulator);
  }
}

ModelMemory::ModelMemory(std::vector<TensorInfo> tensors, Policy policy, OptimizerConfig optimizer,
                         std::uint64_t seed, int microbatches, Device& device) {
  check_policy(policy, tensors);
  check_optimizer(optimizer);
  check_momentum(policy, optimizer);
  check_at_once(policy, optimizer, microbatches);
  check_groups(optimizer, tensors);
  if (microbatches < 1 || microbatches > kMostMicrobatches) {
    throw UsageError(fmt::format("microbatches is {}, but must be 1 to {}", microbatches, kMostMicrobatches));
  }
  for (const TensorInfo& info : tensors) check_tensor(info);
  const std::int64_t workspace_bytes = update_workspace_bytes(tensors, optimizer, device);
  state_ = std::make_unique<State>(std::move(policy), std::move(optimizer), seed, microbatches, device);
  for (TensorInfo& info : tensors) {
    State::Tensor t;
    t.exempt = is_exempt(state_->policy, info);
    t.frozen = lpmm::is_frozen(state_->optimizer, info.name);
    t.folds_into_momentum = folds_into_momentum(state_->policy, state_->optimizer, info);
    t.at_once = state_->policy.apply_at_once && !t.frozen && !info.is_shared;
    state_->histories.emplace_back();
    if (has_history(state_->optimizer, info.name)) state_->histories.back().emplace();
    t.info = std::move(info);
    state_->tensors.push_back(std::move(t));
  }
  state_->workspace_bytes = workspace_bytes;
  state_->workspace = allocate(device, workspace_bytes, "the workspace of updates", "a smaller model");
  state_->allocate_roles();
}

ModelMemory::~ModelMemory() = default;
ModelMemory::ModelMemory(ModelMemory&&) noexcept = default;

int ModelMemory::tensors() const {
  return static_cast<int>(state_->tensors.size());
}
const TensorInfo& ModelMemory::info(int tensor) const {
  return state_->tensors.at(static_cast<std::size_t>(tensor)).info;
}
int ModelMemory::find(std::string_view name) const {
  for (int i = 0; i < tensors(); ++i) {
    if (info(i).name == name) return i;
  }
  return -1;
}
const Policy& ModelMemory::policy() const {
  return state_->policy;
}
const OptimizerConfig& ModelMemory::optimizer() const {
  return state_->optimizer;
}
bool ModelMemory::is_frozen(int tensor) const {
  return state_->tensors.at(static_cast<std::size_t>(tensor)).frozen;
}
int ModelMemory::microbatches() const {
  return state_->microbatches;
}
Device& ModelMemory::device() const {
  return state_->device;
}
kernels::RoleView ModelMemory::view(int tensor, Role role) const {
  return state_->view(tensor, role);
}

Ledger ModelMemory::ledger() const {
  Ledger ledger;
  ledger.workspace = state_->workspace_bytes;
  for (const State::Tensor& t : state_->tensors) {
    add_to(ledger, t.info, t.exempt, [&](Role role) {
      const bool counts = has_role(state_->policy, state_->optimizer, t.info, role);
      return counts ? &t.view[role].codec : nullptr;
    });
  }
  for (const auto& history : state_->histories) {
    if (history) ledger.buffers += kHistoryBytes;
  }
  return ledger;
}

void ModelMemory::initialize(int tensor, std::int64_t first, std::span<const float> values) {
  const kernels::RoleView& v = state_->checked(tensor, Role::kParameter, first, values.size());
  const Noise noise{state_->seed, static_cast<std::uint32_t>(tensor), 0, noise_stream(Role::kParameter)};
  if (state_->stepping)
    throw UsageError(fmt::format("tensor {}: an initial value in a step", info(tensor).name));
  state_->results.clear();
  bool* storable = &state_->results.next()->finite;
  Device& device = state_->device;
  const auto count = std::ssize(values);
  const DeviceMemory room = allocate(device, room_on(device, 4 * count), "initial values", "a smaller model");
  device.encode(v, first, count, on_device(device, values.data(), count, room.get()), noise, storable);
  device.synchronize();
  if (!*storable) {
    throw RunError(
        fmt::format("tensor {}: an initial value is NaN, infinite or above 2^120", info(tensor).name));
  }
}

void ModelMemory::decode(int tensor, std::int64_t first, std::span<float> out) const {
  const kernels::RoleView& v = state_->checked(tensor, Role::kParameter, first, out.size());
  state_->device.decode(v, first, static_cast<std::int64_t>(out.size()), out.data());
}

void ModelMemory::decode_bf16(int tensor, std::int64_t first, std::span<std::uint16_t> out) const {
  const kernels::RoleView& v = state_->checked(tensor, Role::kParameter, first, out.size());
  state_->device.decode_bf16(v, first, static_cast<std::int64_t>(out.size()), out.data());
}

void ModelMemory::read(int tensor, std::int64_t first, std::span<float> out) const {
  Device& device = state_->device;
  if (device.is_host()) return decode(tensor, first, out);
  const DeviceMemory room = allocate(device, std::ssize(out) * 4, "decoded values", "a smaller model");
  decode(tensor, first, {reinterpret_cast<float*>(room.get()), out.size()});
  device.download(out.data(), room.get(), std::ssize(out) * 4);
}

void ModelMemory::begin_step(std::uint32_t step, bool want_stats, bool want_watch, double learning_rate) {
  State& s = *state_;
  if (s.broken) {
    throw UsageError(
        fmt::format("step {} begins, but the update of step {} failed; load a checkpoint", step, s.step));
  }
  if (s.stepping) throw UsageError(fmt::format("step {} begins before step {} is committed", step, s.step));
  if (step <= s.step) {
    throw UsageError(fmt::format("step {} follows step {}: a step number keys the noise and may not repeat",
                                 step, s.step));
  }
  if (s.policy.apply_at_once && !std::isfinite(learning_rate)) {
    throw UsageError(fmt::format("step {} applies gradients at once and needs its learning rate", step));
  }
  s.learning_rate = learning_rate;
  s.pending.clear();
  s.step = step;
  s.stepping = true;
  s.failed = false;
  s.failure.clear();
  s.results.clear();
  s.step_stats.clear();
  s.watch.begin_step(want_watch);
  for (State::Tensor& t : s.tensors) t.step_stats = want_stats ? s.step_stats.next() : nullptr;
}

void ModelMemory::fold(int tensor, std::int64_t first, std::span<const float> gradient, int microbatch,
                       int contribution, bool is_last) {
  State& s = *state_;
  if (tensor >= 0 && tensor < tensors() && s.is_left_out(tensor)) return;
  const kernels::RoleView& v = s.checked(tensor, Role::kAccumulator, first, gradient.size());
  if (!s.stepping) throw UsageError(fmt::format("tensor {}: a gradient outside a step", info(tensor).name));
  if (microbatch < 0 || microbatch >= s.microbatches || contribution < 0 ||
      contribution >= kMostContributions) {
    throw UsageError(fmt::format("tensor {}: microbatch {}, contribution {} of a step of {} microbatches",
                                 info(tensor).name, microbatch, contribution, s.microbatches));
  }
  State::Tensor& t = s.tensors[static_cast<std::size_t>(tensor)];
  if (t.at_once) s.look_at_results();
  if (s.failed) return;
  if (t.at_once) return s.apply(tensor, first, gradient);
  const auto count = static_cast<std::int64_t>(gradient.size());
  const bool want_sum = clips(s.optimizer) && is_last && microbatch == s.microbatches - 1;
  kernels::FoldArgs args;
  args.scale =
      static_cast<float>(fold_weight(s.optimizer, t.folds_into_momentum, s.updates + 1, s.microbatches));
  args.noise = s.noise(tensor, fold_stream(t.folds_into_momentum, microbatch, contribution));
  args.want_square_sum = want_sum;
  if (t.step_stats != nullptr) args.stats = &t.step_stats->role[Role::kAccumulator];
  s.device.fold(v, first, count, gradient.data(), args,
                s.results.next_fold(tensor, first, count, want_sum && count > 0));
}

kernels::LossResult* ModelMemory::next_loss() {
  return state_->results.next_loss();
}

Noise ModelMemory::noise(std::uint32_t tensor, std::uint32_t stream) const {
  return {state_->seed, tensor, state_->step, stream};
}

bool ModelMemory::failed() const {
  state_->look_at_results();
  return state_->failed;
}

void ModelMemory::fail(const std::string& why) {
  if (!failed()) state_->failure = why;
  state_->failed = true;
}

StepReport ModelMemory::commit(double learning_rate) {
  State& s = *state_;
  if (!s.stepping) throw UsageError("a commit outside a step");
  if (!std::isfinite(learning_rate)) fail("the learning rate");
  StepReport report;
  if (failed()) {
    report.failed_tensor = s.failure;
    s.empty_accumulators();
    s.stepping = false;
    s.finish_updates();  // those that were applied at once before
    return report;
  }
  const Clip clip = s.clip_gradients(report);
  std::vector<kernels::TensorUpdate> updates;
  std::vector<int> updated;
  for (int i = 0; i < tensors(); ++i) {
    if (s.is_left_out(i) || s.tensors[static_cast<std::size_t>(i)].at_once) continue;
    updates.push_back(s.update_of(i, learning_rate, clip.factors[static_cast<std::size_t>(i)]));
    updated.push_back(i);
  }
  s.stepping = false;
  s.broken = true;  // until all is known to be well
  s.watch.look_at(updates);
  s.device.update(updates);
  s.device.synchronize();
  s.watch.read(updated, s.tensors.size());
  s.finish_updates();
  for (State::Tensor& t : s.tensors) {
    if (t.step_stats == nullptr) continue;
    for (const Role r : kEveryRole) t.stats.role[r] += t.step_stats->role[r];
  }
  ++s.updates;
  s.last_learning_rate = learning_rate;
  report.applied = true;
  return report;
}

std::int64_t ModelMemory::updates() const {
  return state_->updates;
}
double ModelMemory::last_learning_rate() const {
  return state_->last_learning_rate;
}
void ModelMemory::set_progress(std::uint32_t step, std::int64_t updates, double last_learning_rate) {
  state_->step = step;
  state_->updates = updates;
  state_->last_learning_rate = last_learning_rate;
  state_->stepping = state_->broken = false;
}

GradientHistory* ModelMemory::gradient_history(int tensor) const {
  std::optional<GradientHistory>& history = state_->histories.at(static_cast<std::size_t>(tensor));
  return history ? &*history : nullptr;
}

void ModelMemory::leave_out(std::vector<int> tensors) {
  if (state_->stepping) throw UsageError("tensors are left out between steps, not in one");
  state_->left_out = std::move(tensors);
}

std::span<const kernels::WatchStats> ModelMemory::watched() const {
  return state_->watch.stats();
}

std::vector<TensorStats> ModelMemory::take_stats() {
  std::vector<TensorStats> all;
  for (State::Tensor& t : state_->tensors) all.push_back(std::exchange(t.stats, {}));
  return all;
}

}  // namespace lpmm
