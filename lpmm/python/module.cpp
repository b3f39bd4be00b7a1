// lpmm's packed kernels for Python. Arrays and tensors come as addresses, because a tensor that requires
// gradients has no DLPack, and numpy knows no bf16. Whoever passes an address keeps the memory until the call
// returns, and has checked type, size and layout (lpmm/python/lpmm/).
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "kernels/orthogonal.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/memory/memory_state.h"
#include "lpmm/python/places.h"
#include "lpmm/version.h"

namespace nb = nanobind;

namespace lpmm {
namespace {

// body(device, i) for each of so many items: on the host the small ones side by side, each of the others by
// all threads.
template <class IsSmall, class Body>
void for_each_tensor(PackedDevice& on, std::int64_t items, const IsSmall& is_small, const Body& body) {
  std::vector<std::int64_t> small;
  for (std::int64_t i = 0; i < items; ++i) {
    if (on.is_host() && is_small(i)) {
      small.push_back(i);
    } else {
      body(on, i);
    }
  }
  if (small.empty()) return;
  on.host_pool().for_each(std::ssize(small), [&](std::int64_t i, int) {
    body(one_thread(), small[static_cast<std::size_t>(i)]);
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
std::vector<double> square_sums(const Place& place,
                                const std::vector<std::pair<const Plan*, RoleMemory>>& gradients) {
  std::vector<kernels::RoleView> views;
  for (const auto& [plan, memory] : gradients) views.push_back(view_of(*plan, memory));
  const nb::gil_scoped_release release;
  const DeviceAt on(place);
  Results<double> sums(*on, views.size());
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for_each_tensor(
      *on, std::ssize(views), [&](std::int64_t i) { return views[at(i)].elements < kSmall; },
      [&](PackedDevice& to, std::int64_t i) {
        to.square_sum(views[at(i)], 0, views[at(i)].elements, &sums[at(i)]);
      });
  on->synchronize();
  return {&sums[0], &sums[0] + views.size()};
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
  std::int64_t workspace_bytes(const Place& place) const {
    const DeviceAt on(place);
    std::int64_t bytes = 0;
    for (const kernels::TensorUpdate& u : updates_) {
      bytes = std::max(bytes, kernels::update_workspace_bytes(*on, u.rule));
    }
    return bytes;
  }
  // Returns the tensors, by their order, that now hold something else than they should, as a value could not
  // be stored. `workspace` has workspace_bytes(), 64-byte aligned.
  std::vector<std::int64_t> run(const Place& place, Address workspace) {
    std::vector<std::int64_t> failed;
    const nb::gil_scoped_release release;
    const DeviceAt on(place);
    Results<bool> storable(*on, updates_.size());
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      updates_[i].storable = &storable[i];
      updates_[i].workspace = reinterpret_cast<std::byte*>(workspace);
    }
    if (on->is_host()) {
      const auto update = [&](std::int64_t i) -> auto& {
        return updates_[static_cast<std::size_t>(i)];
      };
      const auto is_small = [&](std::int64_t i) {
        const kernels::TensorUpdate& u = update(i);
        return u.args.roles[Role::kParameter].elements < kSmall && !kernels::is_orthogonal(u.rule);
      };
      for_each_tensor(*on, std::ssize(updates_), is_small, [&](PackedDevice& to, std::int64_t i) {
        to.update({&update(i), 1});
      });
    } else {
      on->update(updates_);
      on->synchronize();
    }
    for (std::size_t i = 0; i < updates_.size(); ++i) {
      if (!storable[i]) failed.push_back(static_cast<std::int64_t>(i));
    }
    updates_.clear();
    return failed;
  }

 private:
  std::vector<kernels::TensorUpdate> updates_;
};

// The sum of squares of a packed sum of gradients, as it grows with each fold. The stored sum has a rounding
// error of mean 0, which makes its square too large on average. The gradient does not know that error. So the
// gain from a gradient, before it is rounded, is right on average, and so is the sum of the gains.
class SquareSum {
 public:
  ~SquareSum() {
    try {  // on its own GPU: the thread may have another one when the room is given back
      read_waiting();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a GPU that failed writes no more
    }
  }
  // accumulator += scale * gradient, from an element on. `number` counts the gradients of a tensor in a step;
  // the first finds the accumulator empty.
  void fold(const Place& place, const Plan& plan, Address codes, Address steps, std::int64_t first,
            std::int64_t count, Address gradient, bool is_bf16, double scale, std::uint64_t seed,
            std::uint32_t ordinal, std::uint32_t step, std::uint32_t number) {
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
    const nb::gil_scoped_release release;
    const std::lock_guard hold(lock_);
    const DeviceAt at(place);
    PackedDevice& on = at->is_host() && count < kSmall ? one_thread() : *at;
    if (folds_ == kMostWaiting || place != place_) read_waiting();
    Gain here;
    Gain& gain = at->is_host() ? here : next(*at, place);
    f.result = &gain.result;
    if (number > 0) on.square_sum(f.accumulator, first, count, &gain.before);
    on.fold({&f, 1});
    if (at->is_host()) add(gain);
  }
  // Waits for the folds so far; NaN where something was not finite, and the sum is lost.
  double value() {
    const nb::gil_scoped_release release;
    const std::lock_guard hold(lock_);
    read_waiting();
    return sum_;
  }
  void clear() {
    const nb::gil_scoped_release release;
    const std::lock_guard hold(lock_);
    read_waiting();
    sum_ = 0;
  }

 private:
  struct Gain {
    kernels::FoldResult result;
    double before = 0;  // the sum of squares of what is folded into
  };
  static constexpr std::size_t kMostWaiting = 64;

  Gain& next(PackedDevice& on, const Place& place) {
    if (waiting_ == nullptr) waiting_ = std::make_unique<Results<Gain>>(on, kMostWaiting);
    place_ = place;
    return (*waiting_)[folds_++] = {};
  }
  void add(const Gain& gain) {
    sum_ += gain.result.finite ? gain.result.square_sum - gain.before : std::nan("");
  }
  void read_waiting() {
    if (folds_ == 0) return;
    DeviceAt(place_)->synchronize();
    for (std::size_t i = 0; i < folds_; ++i) add((*waiting_)[i]);
    folds_ = 0;
  }

  std::mutex lock_;
  double sum_ = 0;
  std::size_t folds_ = 0;  // that wait
  std::unique_ptr<Results<Gain>> waiting_;
  Place place_ = {-1, 0};
};

void clear(const Place& place, const Plan& plan, Address codes, Address steps) {
  const nb::gil_scoped_release release;
  DeviceAt(place)->clear(plan.view(Role::kAccumulator, codes, steps));
}

// ---- values in and out ---------------------------------------------------------------------------------------------
void decode(const Place& place, const Plan& plan, int role, Address codes, Address steps, std::int64_t first,
            std::int64_t count, Address out, bool is_bf16) {
  const kernels::RoleView from = plan.view(static_cast<Role>(role), codes, steps);
  const nb::gil_scoped_release release;
  const DeviceAt on(place);
  if (is_bf16) {
    on->decode_bf16(from, first, count, reinterpret_cast<std::uint16_t*>(out));
  } else {
    on->decode(from, first, count, reinterpret_cast<float*>(out));
  }
}

void decode_rows(const Place& place, const Plan& plan, Address codes, Address steps, std::int64_t width,
                 Address rows, std::int64_t count, Address out) {
  const nb::gil_scoped_release release;
  DeviceAt(place)->decode_rows({plan.view(Role::kParameter, codes, steps), width,
                                reinterpret_cast<const std::int32_t*>(rows), count,
                                reinterpret_cast<float*>(out)});
}

// Encodes fp32 values of a whole role with the noise of a step; `nearest` rounds without. Returns false if a
// value is not storable.
bool encode(const Place& place, const Plan& plan, int role, Address codes, Address steps, Address values,
            bool nearest, std::uint64_t seed, std::uint32_t ordinal, std::uint32_t step) {
  const auto r = static_cast<Role>(role);
  kernels::RoleView to = plan.view(r, codes, steps);
  if (nearest) to.codec.rounding = Rounding::kNearest;
  const nb::gil_scoped_release release;
  const DeviceAt on(place);
  Results<bool> storable(*on, 1);
  on->encode({to,
              0,
              to.elements,
              reinterpret_cast<const float*>(values),
              {seed, ordinal, step, noise_stream(r)},
              &storable[0]});
  on->synchronize();
  return storable[0];
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
  m.def("open", [](const Place& place) {
    const nb::gil_scoped_release release;
    const DeviceAt on(place);
  });  // an error now rather than in a step
  m.def("presets", [] { return std::vector<std::string>(preset_names().begin(), preset_names().end()); });
  m.def("rules", [] { return std::vector<std::string>(rule_names().begin(), rule_names().end()); });
  nb::class_<OptimizerConfig>(m, "Config");
  m.def("config", &make_config);
  nb::class_<Plan>(m, "Plan")
      .def(nb::init<std::string, std::vector<std::int64_t>, const std::string&, OptimizerConfig,
                    const std::string&, const std::map<std::string, std::string>&, std::int64_t>())
      .def(nb::init<const std::string&, std::vector<std::int64_t>>())
      .def_prop_ro("elements", [](const Plan& p) { return p.info.elements(); })
      .def("cut", &Plan::cut)
      .def("rows", &Plan::rows);
  nb::class_<Updates>(m, "Updates")
      .def(nb::init<>())
      .def("add", &Updates::add)
      .def("workspace_bytes", &Updates::workspace_bytes)
      .def("run", &Updates::run);
  m.def("square_sums", &square_sums);
  nb::class_<SquareSum>(m, "SquareSum")
      .def(nb::init<>())
      .def("fold", &SquareSum::fold)
      .def("value", &SquareSum::value)
      .def("clear", &SquareSum::clear);
  m.def("clear", &clear);
  m.def("decode", &decode);
  m.def("decode_rows", &decode_rows);
  m.def("encode", &encode);
}
