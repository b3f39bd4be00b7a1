// The learning rate over a run.
#pragma once

#include <cstdint>
#include <vector>

namespace lpmm {

enum class ScheduleKind : std::uint8_t { kConstant, kStep, kCosine, kLinear, kInverseSquareRoot };

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kConstant;
  std::int64_t warmup_steps = 0;   // linear from 0, added in front of any kind
  double final_scale = 0;          // cosine and linear end at final_scale * learning_rate
  std::vector<double> milestones;  // step: shares of the run, 0..1
  double gamma = 0.1;              // step: factor at each milestone
};

// Factor on the learning rate for update `step` (0-based) of `total`, a pure function. Cosine reaches
// final_scale at step == total: lr(step) = f + (1-f) * (1 + cos(pi * step / total)) / 2 after warm-up.
double schedule_factor(const ScheduleConfig& schedule, std::int64_t step, std::int64_t total);

}  // namespace lpmm
