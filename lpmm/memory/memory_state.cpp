#include "lpmm/memory/memory_state.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "lpmm/base/error.h"
#include "lpmm/ranks/ranks.h"

namespace lpmm {
namespace {

constexpr std::size_t kAlignment = 64;

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

}  // namespace

kernels::RoleView view_of(const kernels::Values& values) {
  auto* codes = static_cast<std::uint8_t*>(const_cast<void*>(values.data));
  const Format format = values.type == ValueType::kFp32 ? Format{} : Format{Map::kBf16, 16};
  return {Spec{format}, codes, nullptr, values.count};
}

kernels::TensorUpdate assignment(const kernels::RoleView& parameter, const kernels::RoleView& compensation,
                                 const kernels::Values& values, const Noise& noise, bool* storable) {
  Muon assign;
  assign.pass = Muon::Pass::kCombine;
  assign.kept = 0;
  assign.moved = 1;
  kernels::UpdateArgs args;
  args.roles[Role::kParameter] = parameter;
  args.roles[Role::kCompensation] = compensation;
  args.roles[Role::kAccumulator] = view_of(values);
  args.keeps_gradient = true;
  args.noise = noise;
  return {assign, args, storable};
}

void MemoryState::check_no_step(const std::string& what) const {
  if (!stepping) return;
  throw UsageError(fmt::format("{} in step {}: commit the step before, or drop it", what, step));
}

// A range that kernels may work on alone: whole blocks and whole packing groups.
const kernels::RoleView& MemoryState::checked(int tensor, Role role, std::int64_t first,
                                              std::int64_t count) const {
  if (tensor < 0 || static_cast<std::size_t>(tensor) >= tensors.size()) {
    throw UsageError(fmt::format("there is no tensor {}: the model has {}", tensor, tensors.size()));
  }
  const Tensor& of = tensors[static_cast<std::size_t>(tensor)];
  const bool is_gradient = role == Role::kAccumulator && of.at_once;  // it meets every role at once
  const kernels::RoleView& v = of.view[is_gradient ? Role::kParameter : role];
  const std::int64_t all = role == Role::kParameter ? of.info.elements() : v.elements;
  std::int64_t unit = std::max<std::int64_t>(kGroup, piece_of_blocks(v.codec));
  for (const Role other : kEveryRole) {
    if (is_gradient) unit = std::max<std::int64_t>(unit, piece_of_blocks(of.view[other].codec));
  }
  if (first < 0 || first > all || count < 0 || count > all - first || first % unit != 0 ||
      ((first + count) % unit != 0 && first + count != all)) {
    throw UsageError(
        fmt::format("tensor {}: elements {} to {} are no range of its {}: it must lie inside the {} "
                    "elements and start and end at multiples of {} or at the end",
                    of.info.name, first, first + count, to_string(role), all, unit));
  }
  if (role == Role::kParameter) wait_for_parameter(tensor);
  return v;
}

void MemoryState::read_parameter(int tensor, std::int64_t first, std::int64_t count,
                                 const Home::Body& body) const {
  if (divides_parameter(tensor)) return home->read(tensor, first, count, body);
  body(view(tensor, Role::kParameter), first, first, count);
}

void MemoryState::allocate_roles() {
  std::vector<TensorPlan> plans;
  for (const Tensor& t : tensors) plans.push_back(plan_tensor(policy, optimizer, t.info));
  if (slots) {
    keep_own(plans, slots->shares(), ranks.rank());
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
      tensors[static_cast<std::size_t>(i)].own_first = slots->shares().first(i, ranks.rank());
    }
  }
  for (const Role role : kEveryRole) {
    std::vector<Tensor*> owners;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!plans[i][role]) continue;
      tensors[i].view[role] = *plans[i][role];
      owners.push_back(&tensors[i]);
    }
    if (owners.empty()) continue;
    // All codes first, then all steps: only codes need the alignment.
    RunningOffset layout;
    std::vector<std::size_t> codes, steps;
    for (const Tensor* t : owners) {
      codes.push_back(layout.add(code_bytes(t->view[role].codec.format, t->view[role].elements), kAlignment,
                                 t->info.name));
    }
    for (const Tensor* t : owners) {
      steps.push_back(layout.add(step_bytes(t->view[role].codec, t->view[role].elements),
                                 sizeof(std::uint16_t), t->info.name));
    }
    const int copies =
        slots && role == Role::kAccumulator ? slots->copies_of(layout.add(0, kAlignment, "")) : 1;
    pages[role] = allocate(device, copies * static_cast<std::int64_t>(layout.end),
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

void MemoryState::allocate_averages() {
  struct Place {
    kernels::RoleView& view;
    const std::string& name;
    std::size_t codes, steps;
  };
  RunningOffset layout;
  std::vector<Place> places;
  for (Tensor& t : tensors) {
    const auto plan = plan_average(policy, optimizer, t.info);
    if (!plan) continue;
    t.average = *plan;
    if (slots)
      t.average.elements = slots->shares().count(static_cast<int>(&t - tensors.data()), ranks.rank());
    const std::int64_t bytes = code_bytes(t.average.codec.format, t.average.elements);
    places.push_back({t.average, t.info.name, layout.add(bytes, kAlignment, t.info.name), 0});
  }
  if (places.empty()) return;
  for (Place& p : places) {
    p.steps = layout.add(step_bytes(p.view.codec, p.view.elements), sizeof(std::uint16_t), p.name);
  }
  averages = allocate(device, static_cast<std::int64_t>(layout.end), "averages of weights",
                      "a smaller model, or train.average = 0");
  auto* const data = reinterpret_cast<std::uint8_t*>(averages.get());
  for (const Place& p : places) {
    p.view.codes = data + p.codes;
    if (p.view.codec.block != 0) p.view.steps = reinterpret_cast<std::uint16_t*>(data + p.steps);
  }
}

// An update in which the average is the parameter, and the parameter what moves it. Draws are those of
// tensors behind the last one: with those of the parameter both would be rounded the same way, and the
// average would be off by what that took.
void MemoryState::update_averages() {
  std::vector<kernels::TensorUpdate> all;
  Muon move;
  move.pass = Muon::Pass::kCombine;
  move.kept = static_cast<float>(kept_average(policy.average, updates + 1));
  move.moved = 1 - move.kept;  // exact, so that the average of equal weights is they
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (t.average.codes == nullptr || t.average.elements == 0) continue;
    kernels::UpdateArgs args;
    args.roles[Role::kParameter] = t.average;
    args.roles[Role::kAccumulator] = part_of(
        t.view[Role::kParameter], t.own_first - parameter_first(static_cast<int>(i)), t.average.elements);
    args.keeps_gradient = true;
    args.noise = noise(static_cast<int>(tensors.size() + i), 0);
    args.noise.first_group = static_cast<std::uint32_t>(t.own_first / kGroup);
    bool* storable = &results.next()->finite;
    pending.emplace_back(storable, static_cast<int>(i));
    all.push_back({move, args, storable});
  }
  if (!all.empty()) device.update(all);
}

void MemoryState::allocate_peaks() {
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

}  // namespace lpmm
