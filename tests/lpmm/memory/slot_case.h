// Settings, values and gradients of small tensors that are trained in slots.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/spec.h"
#include "tests/lpmm/memory/given.h"

namespace lpmm {

using SlotFloats = std::vector<float>;

// Two that are cut where rules let them be; tails; a frozen one in between.
inline const std::vector<TensorInfo> kSlotTensors = {{"conv", {5, 3, 3, 3}}, {"cut", {260, 256}},
                                                     {"norm", {37}},         {"still", {20, 20}},
                                                     {"long", {70000}},      {"wide", {33, 260}}};

// With three rounds of sums for each of two ranks, two for each of four.
inline const std::vector<TensorInfo> kLargeTensors = [] {
  std::vector<TensorInfo> tensors = kSlotTensors;
  tensors.push_back({"large", {2100, 1024}});
  return tensors;
}();

struct SlotCase {
  const char* preset = "lpmm-min";
  const char* rule = "adamw";
  int microbatches = 4, slots = 4;
  double clip = 0;
  int percentile = 0;
  const char* variance = "";  // spec
  bool feeds_back = false, compensates = false;
  double update_clip = 0, average = 0;
  bool is_large = false;  // then without counts, which fused loops do not take
  int stage = 1;          // of several ranks
  bool drops = false;     // a step in front of each
  bool waits = false;     // folds, in halves

  const std::vector<TensorInfo>& tensors() const { return is_large ? kLargeTensors : kSlotTensors; }
  std::string name() const {
    return fmt::format("{} {} K {} S {} clip {}/{} {} stage {}", preset, rule, microbatches, slots, clip,
                       percentile, variance, stage);
  }
  OptimizerConfig optimizer() const {
    OptimizerConfig c;
    c.rule = RuleName::find(rule).value();
    give(c, "momentum", 0.9);
    if (update_clip > 0) give(c, "update_clip", update_clip);
    c.weight_decay = 0.01;
    c.clip_norm = clip;
    c.percentile_clip = percentile;
    ParameterGroup still;
    still.pattern = "still";
    still.frozen = true;
    c.groups = {still};
    return c;
  }
  Policy policy() const {
    Policy p = make_policy(preset);
    if (*variance != '\0') p.specs[Role::kVariance] = parse_spec(variance);
    if (compensates) p.specs[Role::kCompensation] = parse_spec(Role::kCompensation, "int4:block64:sr");
    p.error_feedback = feeds_back;
    p.average = average;
    return p;
  }
};

inline SlotFloats drawn_of_slots(std::int64_t count, std::uint64_t seed, float scale) {
  // Knuth's MMIX generator, three parts of each number: the standard's engines took most of these tests.
  std::uint64_t state = seed;
  const auto uniform = [&](unsigned shift) {
    return static_cast<float>(state >> shift & 0xFFFF) * 0x1p-15F - 1;
  };
  SlotFloats values(static_cast<std::size_t>(count));
  for (float& x : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    x = scale * uniform(48) * uniform(32) * uniform(16);
  }
  return values;
}
inline SlotFloats initial_of(int tensor) {
  return drawn_of_slots(kLargeTensors[static_cast<std::size_t>(tensor)].elements(),
                        static_cast<std::uint64_t>(tensor), 0.1F);
}
inline SlotFloats gradient_of(int tensor, std::uint32_t step, int microbatch) {
  const auto seed =
      1000 * step + 50 * static_cast<std::uint64_t>(microbatch + 1) + static_cast<std::uint64_t>(tensor);
  return drawn_of_slots(kLargeTensors[static_cast<std::size_t>(tensor)].elements(), seed, 0.01F);
}

}  // namespace lpmm
