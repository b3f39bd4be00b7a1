// lpmm's packed kernels for Python. Arrays and tensors come as addresses, because a tensor that requires
// gradients has no DLPack, and numpy knows no bf16. Whoever passes an address keeps the memory until the call
// returns, and has checked type, size and layout (lpmm/python/lpmm/).
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "kernels/cpu_packed.h"
#include "kernels/orthogonal.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/memory_state.h"
#include "lpmm/version.h"

namespace nb = nanobind;

namespace lpmm {
namespace {

using Address = std::uintptr_t;

// ---- the device ----------------------------------------------------------------------------------------------------
// Calls keep the one they began with, while another number of threads makes a new one.
std::mutex device_lock;
std::shared_ptr<CpuPackedDevice> shared_device;
int device_threads = 0;

// Threads do not outlive a fork: the child leaves the device where it is, and makes its own.
void survive_forks() {
  pthread_atfork([] { device_lock.lock(); }, [] { device_lock.unlock(); },
                 [] {
                   new (&shared_device) std::shared_ptr<CpuPackedDevice>();
                   device_lock.unlock();
                 });
}

std::shared_ptr<CpuPackedDevice> device() {
  const std::lock_guard lock(device_lock);
  if (shared_device == nullptr) shared_device = std::make_shared<CpuPackedDevice>(device_threads);
  return shared_device;
}

void set_threads(int threads) {
  if (threads < 0)
    throw UsageError("threads is " + std::to_string(threads) + ", but must be 0 (all processors) or more");
  std::shared_ptr<CpuPackedDevice> old;  // ends after the lock
  const std::lock_guard lock(device_lock);
  if (threads == device_threads) return;
  device_threads = threads;
  old.swap(shared_device);
}

// Small tensors: a thread each, as waking threads takes longer than their work. One thread's device has no
// state.
constexpr std::int64_t kSmall = 65536;
CpuPackedDevice& one_thread() {
  static CpuPackedDevice device(1);
  return device;
}

// body(device, i) for each of so many items: the small ones side by side, each of the others by all threads.
template <class IsSmall, class Body>
void for_each_tensor(std::int64_t items, const IsSmall& is_small, const Body& body) {
  const auto all = device();
  std::vector<std::int64_t> small;
  for (std::int64_t i = 0; i < items; ++i) {
    if (is_small(i)) {
      small.push_back(i);
    } else {
      body(static_cast<PackedDevice&>(*all), i);
    }
  }
  all->host_pool().for_each(std::ssize(small), [&](std::int64_t i, int) {
    body(static_cast<PackedDevice&>(one_thread()), small[static_cast<std::size_t>(i)]);
  });
}

// ---- what a tensor stores ------------------------------------------------------------------------------------------
Role role_of(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Role role : kEveryElementRole) {
    if (kRoleRows[role].name == name) return role;
    names.push_back(kRoleRows[role].name);
  }
  throw UsageError("there is no role '" + name + "' with a spec: there are " + join(names) +
                   did_you_mean(nearest_name(name, names)));
}

// A rule with settings, as the group of parameters has them in this step.
OptimizerConfig make_config(const std::string& rule, double learning_rate, double weight_decay,
                            const std::map<std::string, double>& settings) {
  const auto found = RuleName::find(rule);
  if (!found) throw UsageError("there is no rule '" + rule + "': there are " + join(rule_names()));
  OptimizerConfig config;
  config.rule = *found;
  config.learning_rate = learning_rate;
  config.weight_decay = weight_decay;
  for (const auto& [key, value] : settings) {
    const SettingRow* row = nullptr;
    for (const SettingRow& s : rule_row(*found).settings) {
      if (s.key.text() == key) row = &s;
    }
    if (row == nullptr) throw UsageError(rule + " has no setting '" + key + "'");
    config.settings[row->key] = value;
  }
  check_optimizer(config);
  return config;
}

// The storage of a tensor whose parameter the framework keeps, or that is packed as a whole. Gradients have
// an accumulator of their own, as in a run that clips: a loop may ask for their norm.
struct Plan {
  TensorInfo info;
  OptimizerConfig config;
  Policy policy;
  TensorPlan roles;
  std::uint32_t first_group = 0;  // of the noise of a shard

  Plan(std::string name, std::vector<std::int64_t> shape, const std::string& kind, OptimizerConfig given,
       const std::string& preset, const std::map<std::string, std::string>& specs, std::int64_t min_elements)
      : info{std::move(name), std::move(shape), kind_of(kind)}, config(std::move(given)) {
    config.clip_norm = 1;
    policy = make_policy(preset, config);
    policy.min_elements = std::max(policy.min_elements, min_elements);
    for (const auto& [role, spec] : specs) policy.specs[role_of(role)] = parse_spec(role_of(role), spec);
    check_model_memory({&info, 1}, policy, config, 1);
    roles = plan_tensor(policy, config, info);
  }
  // A parameter by itself, whose spec is fitted to its shape.
  Plan(const std::string& spec, std::vector<std::int64_t> shape) : info{"a tensor", std::move(shape)} {
    if (info.elements() > kMostElements)
      throw UsageError("an array has more than 2^35 elements; quantize parts of it");
    roles[Role::kParameter] = {fit_spec(parse_spec(spec), info.traits()), nullptr, nullptr, info.elements()};
  }
  // Leaves a shard, where the rule and the formats can do with it.
  void cut(std::int64_t elements, std::uint32_t group) {
    const RuleRow& rule = rule_row(config.rule);
    std::string whole(rule.needs_whole_tensors(config.settings) ? rule.name : "");
    if (!whole.empty() && !rule.needs_whole_tensors({})) whole += " as it is set";
    for (const Role r : kEveryElementRole) {
      if (!roles[r]) continue;
      roles[r]->elements = elements;
      if (!has_blocks(roles[r]->codec))
        whole = std::string(lpmm::to_string(r)) + " as " + lpmm::to_string(roles[r]->codec);
    }
    first_group = group;
    if (whole.empty()) return;
    throw UsageError(info.name + ": " + whole +
                     " needs whole tensors, which FSDP cuts; choose another, or DistributedDataParallel");
  }
  static TensorKind kind_of(const std::string& kind) {
    if (kind == "hidden") return TensorKind::kHidden;
    if (kind == "embedding") return TensorKind::kEmbedding;
    if (kind == "head") return TensorKind::kHead;
    throw UsageError("kind is '" + kind + "', but must be 'hidden', 'embedding' or 'head'");
  }

  const kernels::RoleView& role(Role role) const {
    if (!roles[role]) throw std::logic_error("a tensor has no such role");
    return *roles[role];
  }
  kernels::RoleView view(Role r, Address codes, Address steps) const {
    kernels::RoleView v = role(r);
    v.codes = reinterpret_cast<std::uint8_t*>(codes);
    v.steps = reinterpret_cast<std::uint16_t*>(steps);
    return v;
  }
  // Name, spec, bytes of codes, number of steps, bits of a step.
  using Row = std::tuple<std::string, std::string, std::int64_t, std::int64_t, int>;
  std::map<int, Row> rows() const {
    std::map<int, Row> out;
    for (const Role r : kEveryRole) {
      if (!roles[r]) continue;
      const Codec& codec = roles[r]->codec;
      const std::int64_t values = roles[r]->elements, steps = step_bytes(codec, values);
      const int bits = steps == 0 ? 0 : codec.step_bits;
      out[static_cast<int>(r)] = {std::string(lpmm::to_string(r)), lpmm::to_string(codec),
                                  code_bytes(codec.format, values), bits == 0 ? 0 : 8 * steps / bits, bits};
    }
    return out;
  }
};

// ---- a step --------------------------------------------------------------------------------------------------------
// The storage of a role in an update: as planned, or as the framework's own tensor has it.
enum Type : int { kPlanned = -1, kFp32 = 0, kBf16 = 1, kBf16Nearest = 2 };
using RoleMemory = std::tuple<int, Address, Address, int>;  // role, codes, steps, Type

kernels::RoleView view_of(const Plan& plan, const RoleMemory& memory) {
  const auto [index, codes, steps, type] = memory;
  const auto r = static_cast<Role>(index);
  if (type == kPlanned) return plan.view(r, codes, steps);
  Codec codec;
  if (type != kFp32) codec = parse_spec(type == kBf16 ? "bf16:sr" : "bf16:rn");
  return {codec, reinterpret_cast<std::uint8_t*>(codes), nullptr, plan.role(Role::kParameter).elements};
}

// Sums of squares of the gradients of a step; NaN and infinity where one is not finite.
std::vector<double> square_sums(const std::vector<std::pair<const Plan*, RoleMemory>>& gradients) {
  std::vector<kernels::RoleView> views;
  for (const auto& [plan, memory] : gradients) views.push_back(view_of(*plan, memory));
  std::vector<double> sums(views.size());
  const nb::gil_scoped_release release;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for_each_tensor(
      std::ssize(views), [&](std::int64_t i) { return views[at(i)].elements < kSmall; },
      [&](PackedDevice& on, std::int64_t i) {
        on.square_sum(views[at(i)], 0, views[at(i)].elements, &sums[at(i)]);
      });
  return sums;
}

class Updates {
 public:
  void add(const Plan& plan, const OptimizerConfig& config, const std::vector<RoleMemory>& roles,
           std::uint64_t seed, std::uint32_t ordinal, std::uint32_t step, double clip, double last_rate) {
    kernels::UpdateArgs args;
    bool packed_parameter = false;
    for (const RoleMemory& memory : roles) {
      const auto [index, codes, steps, type] = memory;
      const auto role = static_cast<Role>(index);
      args.roles[role] = view_of(plan, memory);
      if (role == Role::kAccumulator) args.keeps_gradient = type != kPlanned;
      if (role == Role::kParameter) packed_parameter = type == kPlanned;
    }
    args.noise = {seed, ordinal, step, 0, plan.first_group};
    const Rule rule = make_rule(config, plan.info, *config.learning_rate, step, clip,
                                plan.policy.error_feedback && packed_parameter, last_rate);
    updates_.push_back({rule, args});
  }
  // The tensors, by their place, that now hold something else than they should, as a value could not be
  // stored.
  std::vector<std::int64_t> run() {
    const std::unique_ptr<bool[]> storable(new bool[updates_.size()]);
    {
      const nb::gil_scoped_release release;
      const auto on = device();
      std::int64_t bytes = 0;
      for (const kernels::TensorUpdate& u : updates_) {
        bytes = std::max(bytes, kernels::update_workspace_bytes(*on, u.rule));
      }
      const DeviceMemory workspace = on->allocate(bytes);
      if (workspace == nullptr && bytes > 0) throw std::bad_alloc();
      const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
      for (std::size_t i = 0; i < updates_.size(); ++i) {
        updates_[i].storable = &storable[i];
        updates_[i].workspace = workspace.get();
      }
      const auto is_small = [&](std::int64_t i) {
        const kernels::TensorUpdate& u = updates_[at(i)];
        return u.args.roles[Role::kParameter].elements < kSmall && !kernels::is_orthogonal(u.rule);
      };
      for_each_tensor(std::ssize(updates_), is_small, [&](PackedDevice& to, std::int64_t i) {
        to.update({&updates_[at(i)], 1});
      });
    }
    std::vector<std::int64_t> failed;
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      if (!storable[i]) failed.push_back(static_cast<std::int64_t>(i));
    }
    updates_.clear();
    return failed;
  }

 private:
  std::vector<kernels::TensorUpdate> updates_;
};

// accumulator += scale * gradient, from an element on. `number` counts the gradients of a tensor in a step;
// the first finds the accumulator empty. Returns by how much this raises the sum of squares, or NaN where
// something is not finite and the sum is lost. The stored sum has a rounding error of mean 0, which makes its
// square too large on average. The gradient does not know that error. So the gain from a gradient, before it
// is rounded, is right on average, and so is the sum of the gains.
double fold(const Plan& plan, Address codes, Address steps, std::int64_t first, std::int64_t count,
            Address gradient, bool is_bf16, double scale, std::uint64_t seed, std::uint32_t ordinal,
            std::uint32_t step, std::uint32_t number) {
  kernels::Fold f;
  f.accumulator = plan.view(Role::kAccumulator, codes, steps);
  f.first = first;
  f.gradient.data = reinterpret_cast<const void*>(gradient);
  f.gradient.count = count;
  f.gradient.type = is_bf16 ? ValueType::kBf16 : ValueType::kFp32;
  f.args.scale = static_cast<float>(scale);
  f.args.want_square_sum = true;
  constexpr std::uint32_t kMost = kMostMicrobatches;
  f.args.noise = {seed, ordinal, step, noise_stream(Role::kAccumulator, number % kMost, number / kMost)};
  kernels::FoldResult result;
  f.result = &result;
  double before = 0;
  const nb::gil_scoped_release release;
  const std::shared_ptr<CpuPackedDevice> all = device();
  CpuPackedDevice& on = count < kSmall ? one_thread() : *all;
  if (number > 0) on.square_sum(f.accumulator, first, count, &before);
  on.fold({&f, 1});
  return result.finite ? result.square_sum - before : std::nan("");
}

void clear(const Plan& plan, Address codes, Address steps) {
  const nb::gil_scoped_release release;
  device()->clear(plan.view(Role::kAccumulator, codes, steps));
}

// ---- values in and out ---------------------------------------------------------------------------------------------
void decode(const Plan& plan, int role, Address codes, Address steps, std::int64_t first, std::int64_t count,
            Address out, bool is_bf16) {
  const kernels::RoleView from = plan.view(static_cast<Role>(role), codes, steps);
  const nb::gil_scoped_release release;
  const auto on = device();
  if (is_bf16) {
    on->decode_bf16(from, first, count, reinterpret_cast<std::uint16_t*>(out));
  } else {
    on->decode(from, first, count, reinterpret_cast<float*>(out));
  }
}

void decode_rows(const Plan& plan, Address codes, Address steps, std::int64_t width, Address rows,
                 std::int64_t count, Address out) {
  const nb::gil_scoped_release release;
  device()->decode_rows(plan.view(Role::kParameter, codes, steps), width,
                        reinterpret_cast<const std::int32_t*>(rows), count, reinterpret_cast<float*>(out));
}

// Encodes fp32 values of a whole role with the noise of a step; `nearest` rounds without. Returns false if a
// value is not storable.
bool encode(const Plan& plan, int role, Address codes, Address steps, Address values, bool nearest,
            std::uint64_t seed, std::uint32_t ordinal, std::uint32_t step) {
  const auto r = static_cast<Role>(role);
  kernels::RoleView to = plan.view(r, codes, steps);
  if (nearest) to.codec.rounding = Rounding::kNearest;
  bool storable = true;
  const nb::gil_scoped_release release;
  device()->encode(to, 0, to.elements, reinterpret_cast<const float*>(values),
                   {seed, ordinal, step, noise_stream(r)}, &storable);
  return storable;
}

// A parameter of two terms takes fp32 values.
bool assign(const Plan& plan, Address codes, Address steps, Address compensation, Address compensation_steps,
            Address values, std::uint64_t seed, std::uint32_t ordinal) {
  const kernels::RoleView to = plan.view(Role::kParameter, codes, steps);
  const auto count = static_cast<std::size_t>(to.elements);
  bool storable = true;
  const kernels::TensorUpdate update =
      assignment(to, plan.view(Role::kCompensation, compensation, compensation_steps),
                 {reinterpret_cast<const float*>(values), count}, {seed, ordinal, 0, 0}, &storable);
  const nb::gil_scoped_release release;
  device()->update({&update, 1});
  return storable;
}

}  // namespace
}  // namespace lpmm

NB_MODULE(_lpmm, m) {
  using namespace lpmm;
  survive_forks();
  nb::set_leak_warnings(false);  // an optimizer may be alive when Python ends
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const UsageError& e) {
      PyErr_SetString(PyExc_ValueError, e.what());
    }
  });
  m.attr("version") = LPMM_VERSION;
  m.def("set_threads", &set_threads);
  m.def("presets", [] { return std::vector<std::string>(preset_names().begin(), preset_names().end()); });
  m.def("rules", [] { return std::vector<std::string>(rule_names().begin(), rule_names().end()); });
  m.def("spec", [](const std::string& text) { return lpmm::to_string(parse_spec(text)); });
  nb::class_<OptimizerConfig>(m, "Config");
  m.def("config", &make_config);
  nb::class_<Plan>(m, "Plan")
      .def(nb::init<std::string, std::vector<std::int64_t>, const std::string&, OptimizerConfig,
                    const std::string&, const std::map<std::string, std::string>&, std::int64_t>())
      .def(nb::init<const std::string&, std::vector<std::int64_t>>())
      .def_prop_ro("elements", [](const Plan& p) { return p.info.elements(); })
      .def("cut", &Plan::cut)
      .def("rows", &Plan::rows);
  nb::class_<Updates>(m, "Updates").def(nb::init<>()).def("add", &Updates::add).def("run", &Updates::run);
  m.def("square_sums", &square_sums);
  m.def("fold", &fold);
  m.def("clear", &clear);
  m.def("decode", &decode);
  m.def("decode_rows", &decode_rows);
  m.def("encode", &encode);
  m.def("assign", &assign);
}
