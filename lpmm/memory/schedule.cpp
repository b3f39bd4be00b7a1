#include "lpmm/memory/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lpmm {

double schedule_factor(const ScheduleConfig& schedule, std::int64_t step, std::int64_t total) {
  const auto warmup = static_cast<double>(std::max<std::int64_t>(schedule.warmup_steps, 0));
  const auto at = static_cast<double>(step);
  if (at < warmup) return (at + 1) / (warmup + 1);
  const double length = static_cast<double>(total) - warmup;
  const double progress = length > 0 ? std::clamp((at - warmup) / length, 0.0, 1.0) : 1.0;
  const double f = schedule.final_scale;
  switch (schedule.kind) {
    case ScheduleKind::kConstant:
      return 1;
    case ScheduleKind::kStep: {
      const auto passed =
          std::count_if(schedule.milestones.begin(), schedule.milestones.end(),
                        [&](double milestone) { return at >= milestone * static_cast<double>(total); });
      return std::pow(schedule.gamma, static_cast<double>(passed));
    }
    case ScheduleKind::kCosine:
      return f + (1 - f) * (1 + std::cos(std::numbers::pi * progress)) / 2;
    case ScheduleKind::kLinear:
      return 1 - (1 - f) * progress;
    case ScheduleKind::kInverseSquareRoot: {
      const double scale = std::max(warmup, 1.0);
      return std::sqrt(scale / (scale + at - warmup));
    }
  }
  return 1;
}

}  // namespace lpmm
