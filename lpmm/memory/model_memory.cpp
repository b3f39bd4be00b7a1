#include "lpmm/memory/model_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "kernels/orthogonal.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/memory_state.h"
#include "lpmm/ranks/ranks.h"

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
                        const OptimizerConfig& optimizer, int microbatches, const Sharding& sharding) {
  check_policy(policy, optimizer, tensors);
  check_optimizer(optimizer);
  check_momentum(policy, optimizer);
  check_at_once(policy, optimizer, microbatches);
  check_slots(policy, microbatches, sharding);
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
                         std::uint64_t seed, int microbatches, PackedDevice& device, int slots, Ranks& ranks,
                         int stage) {
  const Sharding sharding{slots, ranks.size(), ranks.rank(), stage};
  check_model_memory(tensors, policy, optimizer, microbatches, sharding);
  const std::int64_t workspace_bytes = update_workspace_bytes(tensors, optimizer, device);
  std::unique_ptr<Slots> divided;
  if (slots > 1)
    divided = std::make_unique<Slots>(tensors, policy, optimizer, microbatches, sharding, device, ranks);
  std::optional<Buckets> buckets;
  if (sharding.divides_parameters()) buckets.emplace(tensors, policy, divided->shares(), ranks.size());
  state_ = std::make_unique<MemoryState>(std::move(policy), std::move(optimizer), seed, microbatches, device,
                                         ranks, sharding);
  state_->slots = std::move(divided);
  for (TensorInfo& info : tensors) {
    MemoryState::Tensor t;
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
  state_->allocate_averages();
  state_->peers = Peers::open(*state_);
  if (state_->slots) state_->slots->allocate_exchange(*state_);
  if (buckets) state_->home = std::make_unique<Home>(*state_, state_->slots->shares(), *std::move(buckets));
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
Ranks& ModelMemory::ranks() const {
  return state_->ranks;
}
Sharding ModelMemory::sharding() const {
  return state_->sharding;
}
Share ModelMemory::own_microbatches() const {
  return state_->slots ? state_->slots->own_microbatches() : Share{0, state_->microbatches};
}
std::int64_t ModelMemory::own_first(int tensor) const {
  return state_->tensors.at(static_cast<std::size_t>(tensor)).own_first;
}
std::vector<std::int64_t> ModelMemory::owned_ends(int tensor) const {
  if (!state_->slots) return {info(tensor).elements()};
  return state_->slots->owned_ends(tensor);
}
bool ModelMemory::divides_parameter(int tensor) const {
  return state_->divides_parameter(tensor);
}
kernels::RoleView ModelMemory::view(int tensor, Role role) const {
  if (role == Role::kParameter) state_->wait_for_parameter(tensor);
  return state_->view(tensor, role);
}

kernels::RoleView ModelMemory::average(int tensor) const {
  return state_->tensors.at(static_cast<std::size_t>(tensor)).average;
}

void ModelMemory::initialize(int tensor, std::int64_t first, const kernels::Values& values) {
  const std::int64_t count = values.count;
  const kernels::RoleView& v = state_->checked(tensor, Role::kParameter, first, count);
  const std::int64_t stored_first = state_->parameter_first(tensor);
  Noise noise{state_->seed, static_cast<std::uint32_t>(tensor), 0, noise_stream(Role::kParameter)};
  noise.first_group = static_cast<std::uint32_t>(stored_first / kGroup);
  state_->check_no_step(fmt::format("tensor {}: an initial value", info(tensor).name));
  if (std::exchange(state_->others_may_read, false)) (void)state_->ranks.any(false);
  if (state_->home) state_->home->forget();
  const auto* host = static_cast<const float*>(values.data);
  std::vector<float> widened;
  if (values.type == ValueType::kBf16) {
    const auto* halves = static_cast<const std::uint16_t*>(values.data);
    for (std::int64_t i = 0; i < count; ++i) widened.push_back(bf16_to_float(halves[i]));
    host = widened.data();
  }
  state_->results.clear();
  bool* storable = &state_->results.next()->finite;
  PackedDevice& device = state_->device;
  const DeviceMemory room = allocate(device, room_on(device, 4 * count), "initial values", "a smaller model");
  const float* there = on_device(device, host, count, room.get());
  const kernels::RoleView& compensation = state_->view(tensor, Role::kCompensation);
  if (compensation.codes != nullptr && compensation.elements == info(tensor).elements()) {
    state_->checked(tensor, Role::kCompensation, first, count);
  }
  // Elements that lie here have two terms where their compensation does too, else one.
  const std::int64_t begin = std::clamp(stored_first, first, first + count);
  const std::int64_t end = std::clamp(stored_first + v.elements, begin, first + count);
  const std::int64_t own = own_first(tensor);
  const std::int64_t from = compensation.codes == nullptr ? end : std::clamp(own, begin, end);
  const std::int64_t to = std::clamp(own + compensation.elements, from, end);
  bool* const rest_storable = &state_->results.next()->finite;
  device.encode({v, begin - stored_first, from - begin, there + (begin - first), noise, storable});
  device.encode({v, to - stored_first, end - to, there + (to - first), noise, rest_storable});
  bool* const pair_storable = &state_->results.next()->finite;
  if (from < to) {
    Noise of_part{state_->seed, static_cast<std::uint32_t>(tensor), 0, 0};
    of_part.first_group = static_cast<std::uint32_t>(from / kGroup);
    const kernels::TensorUpdate update =
        assignment(part_of(v, from - stored_first, to - from), part_of(compensation, from - own, to - from),
                   {there + (from - first), static_cast<std::size_t>(to - from)}, of_part, pair_storable);
    device.update({&update, 1});
  }
  device.synchronize();
  if (!*storable || !*rest_storable || !*pair_storable) {
    throw RunError(
        fmt::format("tensor {}: an initial value is NaN, infinite or above 2^120", info(tensor).name));
  }
}

void ModelMemory::decode(int tensor, std::int64_t first, std::span<float> out) const {
  state_->checked(tensor, Role::kParameter, first, std::ssize(out));
  const auto to_out = [&](const kernels::RoleView& part, std::int64_t from, std::int64_t element,
                          std::int64_t count) {
    state_->device.decode(part, from, count, out.data() + (element - first));
  };
  state_->read_parameter(tensor, first, std::ssize(out), to_out);
}

void ModelMemory::decode_rows(int tensor, std::int64_t width, const std::int32_t* rows, std::int64_t count,
                              float* out) const {
  if (state_->divides_parameter(tensor)) return state_->home->read_rows(tensor, width, rows, count, out);
  state_->device.decode_rows({view(tensor, Role::kParameter), width, rows, count, out});
}

const float* ModelMemory::decoded(int tensor, std::span<float> room) const {
  const kernels::RoleView& v = state_->checked(tensor, Role::kParameter, 0, std::ssize(room));
  const bool is_here = v.codec.format.map == Map::kFp32 && !state_->divides_parameter(tensor);
  if (is_here) return reinterpret_cast<const float*>(v.codes);
  decode(tensor, 0, room);
  return room.data();
}

void ModelMemory::decode_bf16(int tensor, std::int64_t first, std::span<std::uint16_t> out) const {
  state_->checked(tensor, Role::kParameter, first, std::ssize(out));
  const auto to_out = [&](const kernels::RoleView& part, std::int64_t from, std::int64_t element,
                          std::int64_t count) {
    state_->device.decode_bf16(part, from, count, out.data() + (element - first));
  };
  state_->read_parameter(tensor, first, std::ssize(out), to_out);
}

void ModelMemory::read(int tensor, std::int64_t first, std::span<float> out) const {
  PackedDevice& device = state_->device;
  if (device.is_host()) return decode(tensor, first, out);
  const DeviceMemory room = allocate(device, std::ssize(out) * 4, "decoded values", "a smaller model");
  decode(tensor, first, {reinterpret_cast<float*>(room.get()), out.size()});
  device.download(out.data(), room.get(), std::ssize(out) * 4);
}

Step ModelMemory::begin_step(const StepOptions& options) {
  return {*state_, options};
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
  MemoryState& s = *state_;
  s.check_no_step("progress is set");
  if (s.home) s.home->forget();
  if (s.broken) {
    for (MemoryState::Tensor& t : s.tensors) t.folded = false;  // the momentum is the checkpoint's
    s.empty_accumulators();
    s.device.synchronize();
  }
  s.step = step;
  s.updates = updates;
  s.last_learning_rate = last_learning_rate;
  s.broken = false;
}

GradientHistory* ModelMemory::gradient_history(int tensor) const {
  std::optional<GradientHistory>& history = state_->histories.at(static_cast<std::size_t>(tensor));
  return history ? &*history : nullptr;
}

void ModelMemory::leave_out(std::vector<int> tensors) {
  state_->check_no_step("tensors are left out");
  state_->left_out = std::move(tensors);
}

std::span<const kernels::WatchStats> ModelMemory::watched() const {
  return state_->watch.stats();
}

std::span<std::uint8_t> ModelMemory::peaks(int tensor) const {
  const MemoryState::Tensor& t = state_->tensors.at(static_cast<std::size_t>(tensor));
  return {t.peak_codes, static_cast<std::size_t>(t.peaks * peak_bytes(t.info))};
}

void ModelMemory::let_peaks_rise(bool rise) {
  state_->peaks_rise = rise;
}

std::vector<TensorStats> ModelMemory::take_stats() {
  std::vector<TensorStats> all;
  for (MemoryState::Tensor& t : state_->tensors) all.push_back(std::exchange(t.stats, {}));
  return all;
}

}  // namespace lpmm
