// The order in which tensors moved before a spike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lpmm/run/watch/statistics.h"

namespace lpmm {

// A measure by which a tensor is watched.
struct Measure {
  std::string_view name;
  float UpdateStatistics::Tensor::*value;
};
inline constexpr Measure kMeasures[] = {{"update", &UpdateStatistics::Tensor::update},
                                        {"rms", &UpdateStatistics::Tensor::rms},
                                        {"gradient_norm", &UpdateStatistics::Tensor::gradient_norm}};
// A move is a value above the mean of the steps before by more than 3.2 deviations, and half as large again.
inline constexpr double kMoved = 1.5;
inline constexpr std::size_t kFewestSteps = 8;  // that say what is usual

// Mean and deviation of a measure of a tensor over steps that end kStepsBefore before the spike, at most 128.
struct Usual {
  double mean = 0, deviation = 0;
};
std::optional<Usual> usual(std::span<const UpdateStatistics> statistics, std::int64_t spike,
                           std::size_t tensor, const Measure& measure);

struct Move {
  std::size_t tensor = 0;
  std::int64_t step = 0;  // of the first such value, kStepsBefore before the spike or later
  std::string_view measure;
  double value = 0, usual = 0;  // there
  double reach = 0;             // |u| |g| in that step: the most that this update changes the loss by, about
};
// The first move of each tensor that moved, sorted by step; within one step the furthest reach comes first.
std::vector<Move> rank_moves(std::span<const UpdateStatistics> statistics, std::int64_t spike);

}  // namespace lpmm
