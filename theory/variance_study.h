// The effect of storing Adam's variance in few bits on the length of its steps. Rounding keeps the mean of v,
// but a step is m / sqrt(v), and the mean of 1 / sqrt(v) grows with the spread of v (Jensen's inequality):
// packed runs take longer steps, as with a larger learning rate.
//
// Gradients of element i are N(0, s_i), independent over steps; ln s_i is normal within a block. The variance
// goes through ModelMemory as in a run; beside it the exact one is kept.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "lpmm/memory/spec.h"

namespace lpmm::theory {

struct VarianceStudy {
  Spec variance;
  double beta2 = 0.99;
  double spread = 0.6;  // deviation of ln s within a block
  int blocks = 64;      // of 128 elements
  std::uint64_t seed = 1;
};

struct VarianceStudyResult {
  double step_ratio = 1;   // mean of sqrt(s / v), stored over exact
  double value_ratio = 1;  // mean of v / s, stored over exact
  double gap = 0;          // mean distance of the map's values around the exact v, over s; 0 without a map
};

VarianceStudyResult run_variance_study(const VarianceStudy& study, Device& device);

}  // namespace lpmm::theory
