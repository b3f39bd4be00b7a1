#include "lpmm/run/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/formats/maps.h"
#include "lpmm/memory/roles.h"
#include "lpmm/memory/spec.h"
#include "lpmm/ranks/ranks.h"

namespace lpmm {
namespace {

// Elements over which sizes are estimated; blocks are alike enough within a tensor.
constexpr std::int64_t kSample = kernels::kTile;

bool loses(const Codec& codec) {
  return codec.rounding == Rounding::kNearest && codec.format.map != Map::kFp32;
}

// Returns the role with the smallest part of an update: rounding loses what it drops there.
Role finest_term(const ModelMemory& memory, std::size_t tensor) {
  const bool compensates = memory.view(static_cast<int>(tensor), Role::kCompensation).codes != nullptr;
  return compensates ? Role::kCompensation : Role::kParameter;
}

// The distance between neighbouring values: of `int` the step, of a table about 2 / 2^bits of its range, of
// bf16 2^-8 of a number of typical `size`, of ulp8 about a 254th of that.
double code_size(PackedDevice& device, const kernels::RoleView& v, std::int64_t count, double size) {
  if (v.codec.format.map == Map::kUlp) return std::ldexp(size, -9) / 127;
  if (v.codec.block == 0) return std::ldexp(size, -8);
  const std::int64_t steps = steps_of(v.codec, has_blocks(v.codec) ? count : v.elements);
  std::vector<std::uint16_t> words(static_cast<std::size_t>(v.codec.step_bits / 16 * steps));
  device.download(words.data(), v.steps, 2 * std::ssize(words));
  double sum = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto step =
        divides_first(v.codec)
            ? load_step(v.codec, words.data(), i)
            : scale_of(v.codec.format, map_table(v.codec.format), words[static_cast<std::size_t>(i)]).step;
    sum += static_cast<double>(step);
  }
  const double code = v.codec.format.map == Map::kLinear ? 1.0 : std::ldexp(2.0, -v.codec.format.bits);
  return code * sum / static_cast<double>(steps);
}

// What a rank expects of a tensor, or of its part.
struct SampledLoss {
  int tensor = 0, compensates = 0;
  std::int64_t elements = 0;
  double share = 0;
};

void add(LostUpdates& total, double& lost, const std::string& name, double share, std::int64_t elements) {
  total.elements += elements;
  lost += share * static_cast<double>(elements);
  if (share > total.worst_share) {
    total.worst_share = share;
    total.worst = name;
  }
}

LostUpdates finish(LostUpdates total, double lost) {
  if (total.elements > 0) total.share = lost / static_cast<double>(total.elements);
  return total;
}

// The name of the role that would keep these increments if it had more bits.
std::string_view finest_name(bool compensates) {
  return to_string(compensates ? Role::kCompensation : Role::kParameter);
}

// The formats of this width for values that are never 0, as a list.
std::string zero_free_formats(std::uint8_t bits) {
  std::vector<std::string> names;
  for (const MapRow& row : kMaps) {
    if (!is_zero_free(row.map) || (row.widths >> bits & 1U) == 0) continue;
    names.push_back(to_string(Format{row.map, bits}));
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

// The storage of a tensor's states.
struct StoredState {
  const Policy& policy;
  const OptimizerConfig& optimizer;
  const TensorInfo& tensor;

  std::string_view rule() const { return optimizer.rule.text(); }
  // fp32 where there is no such state.
  Spec spec(Role role) const {
    return has_role(policy, optimizer, tensor, role) ? specs_for(policy, tensor)[role] : Spec{};
  }
};

std::string zero_variance(const StoredState& state) {
  const Format format = state.spec(Role::kVariance).format;
  if (is_signed(format.map) || is_zero_free(format.map) || format.bits > 6) return {};
  return fmt::format(
      "the variance of {} is stored as {}, which rounds small ones to 0: {} then divides by epsilon "
      "alone and may diverge; use {}",
      state.tensor.name, to_string(format), state.rule(), zero_free_formats(format.bits));
}

// Levels of equal ratios: where the share that stays is near 1, a step changes a value by less than half of
// one.
std::string nearest_variance(const StoredState& state) {
  const Spec spec = state.spec(Role::kVariance);
  const bool grows = rule_row(state.optimizer.rule).variance_grows;  // which is told of in any format
  if (grows || spec.format.map != Map::kLog || spec.rounding != Rounding::kNearest) return {};
  Spec better = spec;
  better.rounding = Rounding::kStochastic;
  return fmt::format(
      "the variance of {} is stored as {}: rounding to nearest loses nearly every change of it, as {} "
      "changes it by less than half the ratio of two values per step; use {}",
      state.tensor.name, to_string(spec), state.rule(), to_string(better));
}

std::string growing_variance(const StoredState& state) {
  const Spec spec = state.spec(Role::kVariance);
  if (!rule_row(state.optimizer.rule).variance_grows || spec.format.map == Map::kFp32) return {};
  const bool loses = spec.rounding == Rounding::kNearest, in_update = is_of_variance(spec.rounding);
  const bool moves = is_packed(spec.format) && spec.step_mode != StepMode::kSticky && spec.format.bits <= 4;
  if (!loses && !in_update && !moves) return {};
  return fmt::format(
      "the variance of {} is stored as {}, and that of {} is a sum that only grows: {}; use "
      "sqrt08:block128:sr:sticky or sqrt04:block128:sr:sticky",
      state.tensor.name, to_string(spec), state.rule(),
      loses       ? "nearest rounding loses what is added"
      : in_update ? fmt::format("{} lifts it a little with every write", to_string(spec.rounding))
                  : "steps that move lift it far above what was added");
}

std::string slow_momentum(const StoredState& state) {
  constexpr double kMostNoise = 0.1;
  const OptimizerConfig& optimizer = state.optimizer;
  const double kept = rule_row(optimizer.rule).slow_momentum_kept(optimizer.settings);
  const Spec spec = state.spec(Role::kSlowMomentum);
  if (spec.format.map == Map::kFp32) return {};
  // Relative to a block's largest value; in bf16, to the value itself.
  const double gap = spec.format.map == Map::kBf16 ? 0x1p-8 : 1.0 / code_limit(spec.format.bits);
  const bool loses = spec.rounding == Rounding::kNearest && 1 - kept < gap / 2;
  const double noise = gap / std::sqrt(6 * (1 - kept * kept));
  if (!loses && noise <= kMostNoise) return {};
  return fmt::format(
      "the slow momentum of {} is stored as {}, and {} keeps {} of it per step: {}; use "
      "int12:block128:qr:sticky",
      state.tensor.name, to_string(spec), state.rule(), kept,
      loses ? std::string("nearest rounding loses what a gradient adds")
            : fmt::format("the noise of rounding adds up to {:.0f} % of its largest values", 100 * noise));
}

}  // namespace

LostUpdates expect_lost_updates(const ModelMemory& memory, double learning_rate) {
  if (memory.policy().error_feedback) return {};  // what rounding takes comes back
  std::vector<SampledLoss> found;
  for (int i = 0; i < memory.tensors(); ++i) {
    const Role role = finest_term(memory, static_cast<std::size_t>(i));
    const kernels::RoleView v = memory.view(i, role);
    if (!loses(v.codec) || v.elements == 0 || memory.is_frozen(i)) continue;
    // The sample is taken from what lies here.
    const std::int64_t first = v.elements == memory.info(i).elements() ? 0 : memory.own_first(i);
    std::vector<float> sample(static_cast<std::size_t>(std::min(v.elements, kSample)));
    memory.read(i, first, sample);
    double squares = 0;
    for (const float x : sample) squares += static_cast<double>(x) * static_cast<double>(x);
    const double size = std::sqrt(squares / static_cast<double>(sample.size()));
    const auto count = static_cast<std::int64_t>(sample.size());
    double code = code_size(memory.device(), v, count, size);
    // A bf16 compensation is a share of half a gap of its parameter, in gaps of 2^-8 of itself.
    if (role == Role::kCompensation && v.codec.format.map == Map::kBf16) {
      code = std::ldexp(code_size(memory.device(), memory.view(i, Role::kParameter), count, size), -9);
    }
    const double update = rule_row(memory.optimizer().rule).typical_move(learning_rate, size);
    const double share = code == 0 ? 0.0 : update == 0 ? 1.0 : std::erf(code / (2 * std::sqrt(2.0) * update));
    found.push_back({i, static_cast<int>(role == Role::kCompensation), v.elements, share});
  }
  LostUpdates total;
  double lost = 0;
  for (const SampledLoss& f : memory.ranks().all_of<SampledLoss>(found)) {
    total.compensates = total.compensates || f.compensates != 0;
    add(total, lost, memory.info(f.tensor).name, f.share, f.elements);
  }
  return finish(total, lost);
}

LostUpdates count_lost_updates(const ModelMemory& memory, std::span<const TensorStats> stats) {
  if (memory.policy().error_feedback) return {};
  LostUpdates total;
  double lost = 0;
  for (std::size_t i = 0; i < stats.size(); ++i) {
    const Role role = finest_term(memory, i);
    const kernels::ChangeStats& s = stats[i].role[role];
    if (s.increments == 0 || !loses(memory.view(static_cast<int>(i), role).codec)) continue;
    total.compensates = total.compensates || role == Role::kCompensation;
    add(total, lost, memory.info(static_cast<int>(i)).name,
        static_cast<double>(s.underflows) / static_cast<double>(s.increments), s.increments);
  }
  return finish(total, lost);
}

std::string underflow_warning(const LostUpdates& lost, bool expected) {
  if (lost.elements == 0 || lost.share <= kLostShare) return {};
  return fmt::format(
      "nearest rounding {} {:.0f} % of the parameter updates (worst: {}, {:.0f} %): they are smaller "
      "than half a code; use stochastic rounding (sr) or more {} bits",
      expected ? "would lose about" : "loses", 100 * lost.share, lost.worst, 100 * lost.worst_share,
      finest_name(lost.compensates));
}

std::string stall_warning(const ModelMemory& memory, std::span<const TensorStats> stats) {
  std::int64_t elements = 0, increments = 0;
  for (std::size_t i = 0; i < stats.size(); ++i) {
    const kernels::ChangeStats& s = stats[i].role[finest_term(memory, i)];
    elements += s.elements;
    increments += s.increments;
  }
  if (elements > 0 && increments == 0) {
    return "no parameter changes any more: every update is exactly 0 (gradients or learning rate vanished)";
  }
  const LostUpdates lost = count_lost_updates(memory, stats);
  if (lost.elements > 0 && lost.share > kStalledShare) {
    return fmt::format(
        "the packed parameters stand still: nearest rounding lost {:.2f} % of their updates; use "
        "stochastic rounding (sr), more {} bits or a larger learning rate",
        100 * lost.share, finest_name(lost.compensates));
  }
  std::int64_t packed = 0, moved = 0;
  bool compensates = false;
  for (std::size_t i = 0; i < stats.size(); ++i) {
    const Role role = finest_term(memory, i);
    const kernels::ChangeStats& s = stats[i].role[role];
    if (memory.view(static_cast<int>(i), role).codec.format.map == Map::kFp32) continue;
    compensates = compensates || role == Role::kCompensation;
    packed += s.increments;
    moved += s.increments - s.underflows;
  }
  if (packed == 0 || moved > 0) return {};
  return fmt::format(
      "the packed parameters stand still: none of {} updates changed a code; use more {} bits or a larger "
      "learning rate",
      packed, finest_name(compensates));
}

std::vector<std::string> UnderflowWarnings::add(const ModelMemory& memory,
                                                std::span<const TensorStats> stats) {
  std::vector<std::string> warnings;
  const std::string stall = stall_warning(memory, stats);
  if (!stall.empty() && !std::exchange(stalled_, true)) warnings.push_back(stall);
  const std::string loss = underflow_warning(count_lost_updates(memory, stats), false);
  if (!loss.empty() && stall.empty() && !std::exchange(loses_, true)) warnings.push_back(loss);
  return warnings;
}

std::vector<std::string> storage_warnings(const Policy& policy, const OptimizerConfig& optimizer,
                                          std::span<const TensorInfo> tensors) {
  std::vector<std::string> warnings;
  for (std::string (*warning)(const StoredState&) :
       {zero_variance, nearest_variance, growing_variance, slow_momentum}) {
    for (const TensorInfo& tensor : tensors) {
      std::string text = warning({policy, optimizer, tensor});
      if (text.empty()) continue;
      warnings.push_back(std::move(text));  // of the first tensor: the others are alike
      break;
    }
  }
  return warnings;
}

}  // namespace lpmm
