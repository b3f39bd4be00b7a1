#include "experiments/bench/update.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "experiments/bench/ceilings.h"
#include "kernels/orthogonal.h"
#include "lpmm/base/error.h"
#include "lpmm/base/host.h"
#include "lpmm/files/toml_table.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/roles.h"
#include "lpmm/run/config.h"
#include "models/families.h"

namespace lpmm {
namespace {

constexpr int kRepetitions = 3;
constexpr std::int64_t kFill = 1 << 18;  // elements made at once when a tensor is filled
constexpr std::int64_t kFp32Moved = 28;  // bytes of an element that AdamW reads and writes
constexpr std::uint32_t kGradientSample = kRoles;

template <class Body>
double seconds(Device& device, const Body& body) {
  device.synchronize();
  const auto start = std::chrono::steady_clock::now();
  body();
  device.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One role of a tensor in memory of its own.
struct OwnedRole {
  DeviceMemory codes, steps;
  kernels::RoleView view;

  OwnedRole(Device& device, const Codec& codec, std::int64_t elements)
      : codes(benchmark_memory(device, code_bytes(codec.format, elements))),
        steps(benchmark_memory(device, step_bytes(codec, elements))),
        view{codec, reinterpret_cast<std::uint8_t*>(codes.get()),
             reinterpret_cast<std::uint16_t*>(steps.get()), elements} {}
};

// Bell-shaped values from the project's own noise: twelve uniform numbers minus their mean. Variances, which
// are means of squares, are not far below those of a momentum of that size: else steps would be as no
// training makes them.
std::vector<float> sample(float scale, bool positive, std::uint32_t tensor) {
  std::vector<float> values(kFill);
  for (std::int64_t i = 0; i < kFill; ++i) {
    float sum = -6.0F;
    for (std::uint32_t k = 0; k < 12; ++k) {
      sum += noise_uniform(noise_draw({1, tensor, k, static_cast<std::uint32_t>(Stream::kTest)}, i));
    }
    values[static_cast<std::size_t>(i)] = positive ? scale * (1 + sum * sum) : scale * sum;
  }
  return values;
}

// write(first, count, values) for all elements, kFill values at once.
template <class Write>
void fill(Device& device, std::int64_t elements, const std::vector<float>& values, const Write& write) {
  const DeviceMemory room = benchmark_memory(device, room_on(device, 4 * kFill));
  const float* there = on_device(device, values.data(), kFill, room.get());
  for (std::int64_t at = 0; at < elements; at += kFill) write(at, std::min(kFill, elements - at), there);
}

// Lets VmHWM start again from what is resident now.
void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << 5;
}

// The roles that an update of the tensor reads and writes.
struct Tensor {
  RoleArray<std::optional<OwnedRole>> roles;
  RoleArray<kernels::RoleView> views;
  double bytes = 0;
  double fp32_bytes = 4;  // per element, all roles in fp32, read and written; the accumulator is only read

  Tensor(Device& device, const TensorInfo& info, const Policy& policy, const OptimizerConfig& optimizer) {
    for (const Role role : kEveryRole) {
      if (!has_role(policy, optimizer, info, role)) continue;
      if (is_per_element(role) && (is_state(role) || role == Role::kParameter)) fp32_bytes += 8;
      const Spec spec = fit_spec(policy.specs[role], info.traits());
      const std::int64_t values = values_of(optimizer, info, role);
      views[role] = roles[role].emplace(device, spec, values).view;
      bytes += static_cast<double>(code_bytes(spec.format, values) + step_bytes(spec, values));
    }
  }
};

// Parameters and states as training has them.
void fill_roles(Device& device, const RoleArray<kernels::RoleView>& roles) {
  std::uint32_t made = 0;
  for (const Role role : kEveryRole) {
    const kernels::RoleView& view = roles[role];
    if (role != Role::kParameter && !is_state(role)) continue;
    if (view.codes == nullptr) continue;
    if (is_state(role) && !has_blocks(view.codec)) continue;  // is 0 until the first update, as in training
    const bool is_signed = kRoleRows[role].is_signed;
    const float size = !is_state(role) ? 0.05F : is_signed ? 0.01F : 1e-4F;
    fill(device, view.elements, sample(size, !is_signed, made++),
         [&](std::int64_t at, std::int64_t count, const float* values) {
           device.encode({view, at, count, values, {1, 0, 0, 0}});
         });
  }
}

// Optimizer and memory as a run's config would say them.
RunConfig config_of(const UpdateBenchOptions& options) {
  const std::optional<RuleName> rule = RuleName::find(options.optimizer);
  if (!rule) {
    throw UsageError(fmt::format("bench update: optimizer '{}' is not one of {}", options.optimizer,
                                 fmt::join(rule_names(), ", ")));
  }
  for (const std::string& setting : options.settings) {
    const std::string key = setting.substr(0, setting.find('='));
    if (key == "optimizer.rule" || key == "memory.preset") {
      throw UsageError(fmt::format("bench update: --set {} is said by {}", key,
                                   key == "optimizer.rule" ? "--optimizer" : "--preset"));
    }
    if (!key.starts_with("optimizer.") && !key.starts_with("memory.")) {
      throw UsageError(fmt::format(
          "bench update: --set {} does nothing here; only keys of [optimizer] and [memory] do", key));
    }
  }
  const std::string text = fmt::format(
      "train.steps = 1\n[optimizer]\nrule = {}\nlearning_rate = 1e-3\nweight_decay = "
      "1e-4\n{}[memory]\npreset = {}\n",
      toml_string(options.optimizer), has_setting({.rule = *rule}, "momentum") ? "momentum = 0.9\n" : "",
      toml_string(options.preset));
  RunConfig config = parse_config(text, "bench update", with_families({.settings = options.settings}));
  if (config.policy.apply_at_once) {
    throw UsageError(
        "bench update: memory.accumulator = \"none\" has no update of a whole tensor to measure");
  }
  return config;
}

// A matrix, where the elements allow it, of as many rows as layers have.
std::vector<std::int64_t> shape_of(std::int64_t elements) {
  std::int64_t rows = 1;
  while (rows < 1024 && elements % (2 * rows) == 0) rows *= 2;
  return {rows, elements / rows};
}

// The number of peaks that the watch keeps of each element.
int watched_peaks(const TensorInfo& info, const OptimizerConfig& optimizer) {
  Policy policy = make_policy(kPlainPreset);
  policy.keeps_peaks = true;
  const int peaks = peaks_of(policy, optimizer, info);
  if (peaks == 0) {
    throw UsageError(fmt::format("bench update: the watch cannot measure updates of {} before they are made",
                                 optimizer.rule.text()));
  }
  return peaks;
}

// Updates of one tensor with this gradient.
struct Updates {
  Device& device;
  kernels::TensorUpdate tensor;
  const std::vector<float>& gradient;
  bool into_momentum;

  void accumulate() {
    const kernels::RoleView& folded = tensor.args.roles[into_momentum ? Role::kMomentum : Role::kAccumulator];
    kernels::FoldArgs fold_args;
    fold_args.noise = tensor.args.noise;
    fold_args.noise.stream = fold_stream(into_momentum, 0, 0);
    fill(device, folded.elements, gradient, [&](std::int64_t at, std::int64_t count, const float* values) {
      const kernels::Fold fold = {folded, at, {values, static_cast<std::size_t>(count)}, fold_args};
      device.fold({&fold, 1});
    });
  }
  // Elements; the best of the repetitions. Raises `extra_bytes` to what resident memory grew by.
  template <class Progress>
  double per_second(const Progress& progress, std::int64_t& extra_bytes) {
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRepetitions; ++i) {
      progress();
      tensor.args.noise = {1, 0, static_cast<std::uint32_t>(i + 1), 0};
      accumulate();
      reset_peak();
      const std::int64_t before = rss_bytes();
      best = std::min(best, seconds(device, [&] { device.update({&tensor, 1}); }));
      extra_bytes = std::max(extra_bytes, peak_rss_bytes() - before);
    }
    return static_cast<double>(tensor.args.roles[Role::kParameter].elements) / best;
  }
};

// By a gradient of fp32 that stays, as the sum over slots is one.
double by_fp32_per_second(Updates updates, std::int64_t elements) {
  const OwnedRole sum(updates.device, Codec(), elements);
  fill(updates.device, elements, updates.gradient,
       [&](std::int64_t at, std::int64_t count, const float* values) {
         updates.device.encode({sum.view, at, count, values, {}});
       });
  kernels::UpdateArgs& args = updates.tensor.args;
  args.roles[Role::kAccumulator] = sum.view;
  args.keeps_gradient = true;
  updates.tensor.watched = nullptr;
  updates.tensor.peaks = {};
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepetitions; ++i) {
    args.noise = {1, 0, static_cast<std::uint32_t>(i + 1), 0};
    best = std::min(best, seconds(updates.device, [&] { updates.device.update({&updates.tensor, 1}); }));
  }
  return static_cast<double>(elements) / best;
}

// The commit of a step whose microbatches lie in slots of their own.
double by_slots_per_second(const TensorInfo& info, const RunConfig& config, int slots,
                           const std::vector<float>& gradient, Device& device) {
  ModelMemory memory({info}, config.policy, config.optimizer, 1, slots, device, slots);
  const std::vector<float> initial = sample(0.05F, false, 0);
  for (std::int64_t at = 0; at < info.elements(); at += kFill) {
    const std::int64_t count = std::min(kFill, info.elements() - at);
    memory.initialize(0, at, {initial.data(), static_cast<std::size_t>(count)});
  }
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepetitions; ++i) {
    Step step = memory.begin_step({static_cast<std::uint32_t>(i + 1), peak_rate(config.optimizer)});
    for (int k = 0; k < slots; ++k) {
      fill(device, info.elements(), gradient, [&](std::int64_t at, std::int64_t count, const float* values) {
        step.fold(0, at, {values, static_cast<std::size_t>(count)}, k);
      });
    }
    best = std::min(best, seconds(device, [&] { std::move(step).commit(); }));
  }
  return static_cast<double>(info.elements()) / best;
}

}  // namespace

UpdateBenchResult bench_update(const UpdateBenchOptions& options, Device& device,
                               const ProgressCall& progress) {
  const std::int64_t n = options.elements;
  if (n <= 0) throw UsageError("bench update: elements must be at least 1");
  const RunConfig config = config_of(options);
  const OptimizerConfig& optimizer = config.optimizer;
  const Policy& policy = config.policy;
  const TensorInfo info = {"", shape_of(n)};
  if (options.slots > 0 && policy.accumulate_in_momentum) {
    throw UsageError(
        "bench update: --slots needs an accumulator: --set memory.accumulator=soft4:block128:sr");
  }
  const int peaks = options.watches ? watched_peaks(info, optimizer) : 0;
  const Rule rule = make_rule(optimizer, info, peak_rate(optimizer), 1000, 1, policy.error_feedback);
  UpdateBenchResult result;
  check_available(device, memory_ledger({&info, 1}, policy, optimizer).model_memory());
  result.copy_gb_per_second = copy_bandwidth(device, kFp32Moved * n) / 1e9;
  const Tensor memory(device, info, policy, optimizer);
  kernels::UpdateArgs args;
  args.roles = memory.views;
  result.packed_bytes_per_element = memory.bytes / static_cast<double>(n);
  fill_roles(device, memory.views);
  const std::vector<float> gradient = sample(0.01F, false, kGradientSample);
  const DeviceMemory workspace = benchmark_memory(device, kernels::update_workspace_bytes(device, rule));
  Updates updates{
      device, {rule, args, nullptr, workspace.get()}, gradient, folds_into_momentum(policy, optimizer, info)};
  int done = 0;
  const int measured = (options.watches ? 3 : 1) * kRepetitions;
  const auto speed = [&] {
    return updates.per_second(
        [&] {
          if (progress) progress(done++, measured);
        },
        result.peak_extra_bytes);
  };
  result.elements_per_second = speed();
  if (options.watches) {
    const DeviceMemory codes = benchmark_memory(device, peaks * peak_bytes(info));
    const DeviceMemory stats = device.allocate_shared(sizeof(kernels::WatchStats));
    if (stats == nullptr) throw RunError("bench update: no memory for update statistics");
    updates.tensor.watched = reinterpret_cast<kernels::WatchStats*>(stats.get());
    result.watched_per_second = speed();
    PeakView& view = updates.tensor.peaks;
    view.update = reinterpret_cast<std::uint8_t*>(codes.get());
    if (peaks == kPeaks) view.ratio = view.update + peak_bytes(info);
    result.watched_with_peaks_per_second = speed();
  }
  if (options.slots > 0) {
    result.by_fp32_per_second = by_fp32_per_second(updates, n);
    result.by_slots_per_second = by_slots_per_second(info, config, options.slots, gradient, device);
  }
  result.fp32_roofline_ratio =
      result.elements_per_second * memory.fp32_bytes / (result.copy_gb_per_second * 1e9);
  return result;
}

std::vector<CodecBenchRow> bench_codec(const std::vector<Codec>& codecs, std::int64_t elements,
                                       Device& device, const ProgressCall& progress) {
  if (elements <= 0) throw UsageError("bench codec: elements must be at least 1");
  const double copy = copy_bandwidth(device, 8 * elements);
  const DeviceMemory room = benchmark_memory(device, 4 * elements);
  auto* const values = reinterpret_cast<float*>(room.get());
  std::vector<CodecBenchRow> rows;
  for (const Codec& codec : codecs) {
    if (progress) progress(std::ssize(rows), std::ssize(codecs));
    const std::vector<float> chunk = sample(0.01F, !is_signed(codec.format.map), 4);
    fill(device, elements, chunk, [&](std::int64_t at, std::int64_t count, const float* from) {
      device.copy(values + at, from, 4 * count);
    });
    const TensorInfo matrix{"", shape_of(elements)};
    const OwnedRole tensor(device, fit_spec(codec, matrix.traits()), elements);
    const double packed =
        static_cast<double>(code_bytes(codec.format, elements) + step_bytes(tensor.view.codec, elements)) /
        static_cast<double>(elements);
    const auto measure = [&](double bytes, const auto& body) {
      double best = std::numeric_limits<double>::infinity();
      for (int i = 0; i < kRepetitions; ++i) best = std::min(best, seconds(device, body));
      const double rate = static_cast<double>(elements) / best;
      return CodecSpeed{rate, bytes * rate / copy};
    };
    CodecBenchRow row;
    row.codec = codec;
    row.encode = measure(4 + packed, [&] {
      device.encode({tensor.view, 0, elements, values, {1, 0, 1, 0}});
    });
    if (has_blocks(codec)) {
      row.fold = measure(4 + 2 * packed, [&] {
        const kernels::Fold fold = {tensor.view,
                                    0,
                                    {values, static_cast<std::size_t>(elements)},
                                    {1e-3F, {1, 0, 1, noise_stream(Role::kAccumulator, 1)}}};
        device.fold({&fold, 1});
      });
    }
    row.decode = measure(4 + packed, [&] { device.decode(tensor.view, 0, elements, values); });
    // Panel after panel into the same room, as training reads a weight.
    row.decode_bf16 = measure(2 + packed, [&] {
      const std::int64_t panel = device.panel_sizes().weights;
      for (std::int64_t at = 0; at < elements; at += panel) {
        device.decode_bf16(tensor.view, at, std::min(panel, elements - at),
                           reinterpret_cast<std::uint16_t*>(values));
      }
    });
    rows.push_back(row);
  }
  return rows;
}

}  // namespace lpmm
