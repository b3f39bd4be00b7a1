#include "lpmm/memory/model_memory.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <utility>

#include "kernels/orthogonal.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/memory_state.h"

namespace lpmm {
namespace {

void check_tensor(const TensorInfo& info) {
  if (info.elements() > kMostElements) {
    throw UsageError(fmt::format("tensor {}: {} elements, but the noise counter holds {}", info.name,
                                 info.elements(), kMostElements));
  }
  if (info.parts < 1 || info.traits().rows % info.parts != 0) {
    throw UsageError(fmt::format("tensor {}: its {} rows are not {} matrices of as many rows each", info.name,
                                 info.traits().rows, info.parts));
  }
  const std::int64_t rows = info.traits().rows / info.parts;
  if (info.heads < 0 || (info.heads > 0 && (rows == 0 || rows % info.heads != 0))) {
    throw UsageError(fmt::format("tensor {}: the {} rows of a part are not {} heads of as many rows each",
                                 info.name, rows, info.heads));
  }
}

}  // namespace

void check_model_memory(std::span<const TensorInfo> tensors, const Policy& policy,
                        const OptimizerConfig& optimizer, int microbatches) {
  check_policy(policy, optimizer, tensors);
  check_optimizer(optimizer);
  check_momentum(policy, optimizer);
  check_at_once(policy, optimizer, microbatches);
  check_peaks(policy, optimizer);
  check_groups(optimizer, tensors);
  if (microbatches < 1 || microbatches > kMostMicrobatches) {
    throw UsageError(fmt::format("microbatches is {}, but must be 1 to {}", microbatches, kMostMicrobatches));
  }
  std::set<std::string_view> names;
  for (const TensorInfo& info : tensors) {
    check_tensor(info);
    if (!names.insert(info.name).second) {
      throw UsageError(fmt::format("tensor {}: two have this name, but each needs its own", info.name));
    }
  }
}

ModelMemory::ModelMemory(std::vector<TensorInfo> tensors, Policy policy, OptimizerConfig optimizer,
                         std::uint64_t seed, int microbatches, PackedDevice& device) {
  check_model_memory(tensors, policy, optimizer, microbatches);
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
  state_->allocate_peaks();
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
bool ModelMemory::applies_at_once(int tensor) const {
  return state_->tensors.at(static_cast<std::size_t>(tensor)).at_once;
}
int ModelMemory::microbatches() const {
  return state_->microbatches;
}
std::uint64_t ModelMemory::seed() const {
  return state_->seed;
}
PackedDevice& ModelMemory::device() const {
  return state_->device;
}
kernels::RoleView ModelMemory::view(int tensor, Role role) const {
  return state_->view(tensor, role);
}

void ModelMemory::initialize(int tensor, std::int64_t first, std::span<const float> values) {
  const kernels::RoleView& v = state_->checked(tensor, Role::kParameter, first, values.size());
  const Noise noise{state_->seed, static_cast<std::uint32_t>(tensor), 0, noise_stream(Role::kParameter)};
  if (state_->stepping)
    throw UsageError(fmt::format("tensor {}: an initial value in a step", info(tensor).name));
  state_->results.clear();
  bool* storable = &state_->results.next()->finite;
  PackedDevice& device = state_->device;
  const auto count = std::ssize(values);
  const DeviceMemory room = allocate(device, room_on(device, 4 * count), "initial values", "a smaller model");
  const float* there = on_device(device, values.data(), count, room.get());
  if (view(tensor, Role::kCompensation).codes == nullptr) {
    device.encode(v, first, count, there, noise, storable);
  } else {
    const kernels::TensorUpdate update = state_->assignment(tensor, first, {there, values.size()}, storable);
    device.update({&update, 1});
  }
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

const float* ModelMemory::decoded(int tensor, std::span<float> room) const {
  const kernels::RoleView& v = state_->checked(tensor, Role::kParameter, 0, room.size());
  if (v.codec.format.map == Map::kFp32) return reinterpret_cast<const float*>(v.codes);
  decode(tensor, 0, room);
  return room.data();
}

void ModelMemory::decode_bf16(int tensor, std::int64_t first, std::span<std::uint16_t> out) const {
  const kernels::RoleView& v = state_->checked(tensor, Role::kParameter, first, out.size());
  state_->device.decode_bf16(v, first, static_cast<std::int64_t>(out.size()), out.data());
}

void ModelMemory::read(int tensor, std::int64_t first, std::span<float> out) const {
  PackedDevice& device = state_->device;
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
  if (s.stepping)
    throw UsageError(fmt::format("step {} begins before step {} is committed or abandoned", step, s.step));
  if (step <= s.step) {
    throw UsageError(fmt::format("step {} follows step {}: a step number keys the noise and may not repeat",
                                 step, s.step));
  }
  if (learning_rate != kNoLearningRate) check_rate(learning_rate);
  if (s.policy.apply_at_once && learning_rate == kNoLearningRate) {
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
  for (State::Tensor& t : s.tensors) {
    t.step_stats = want_stats ? s.step_stats.next() : nullptr;
    t.folded = false;
    t.finished.clear();
  }
}

void ModelMemory::fold(int tensor, std::int64_t first, std::span<const float> gradient, int microbatch,
                       int contribution, bool is_last) {
  const auto f = state_->next_fold(tensor, first, gradient, microbatch, contribution, is_last);
  if (f) state_->device.fold(f->accumulator, f->first, f->count, f->contribution, f->args, f->result);
}
void ModelMemory::fold_later(int tensor, std::int64_t first, std::span<const float> gradient, int microbatch,
                             int contribution, bool is_last) {
  const auto f = state_->next_fold(tensor, first, gradient, microbatch, contribution, is_last);
  if (f) state_->waiting.push_back(*f);
}
void ModelMemory::fold_waiting() {
  state_->fold_waiting();
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
  if (!s.waiting.empty()) throw UsageError("a commit while gradients wait: fold_waiting() comes before it");
  check_rate(learning_rate);
  StepReport report;
  if (failed()) {
    report.failed_tensor = s.failure;
    s.leave_step();
    return report;
  }
  s.check_finished();
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

void ModelMemory::abandon_step() {
  if (state_->stepping) state_->leave_step();
}

std::uint32_t ModelMemory::last_step() const {
  return state_->step;
}
std::int64_t ModelMemory::updates() const {
  return state_->updates;
}
double ModelMemory::last_learning_rate() const {
  return state_->last_learning_rate;
}
void ModelMemory::set_progress(std::uint32_t step, std::int64_t updates, double last_learning_rate) {
  State& s = *state_;
  s.waiting.clear();
  if (s.stepping || s.broken) {
    for (State::Tensor& t : s.tensors) t.folded = false;  // the momentum is the checkpoint's
    s.empty_accumulators();
    s.device.synchronize();
  }
  s.step = step;
  s.updates = updates;
  s.last_learning_rate = last_learning_rate;
  s.stepping = s.broken = false;
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

std::span<std::uint8_t> ModelMemory::peaks(int tensor) const {
  const State::Tensor& t = state_->tensors.at(static_cast<std::size_t>(tensor));
  return {t.peak_codes, static_cast<std::size_t>(t.peaks * peak_bytes(t.info))};
}

void ModelMemory::let_peaks_rise(bool rise) {
  state_->peaks_rise = rise;
}

std::vector<TensorStats> ModelMemory::take_stats() {
  std::vector<TensorStats> all;
  for (State::Tensor& t : state_->tensors) all.push_back(std::exchange(t.stats, {}));
  return all;
}

}  // namespace lpmm
