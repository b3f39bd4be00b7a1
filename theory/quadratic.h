// Real packed training on a diagonal quadratic, to hold the predictions of floors.h against: a ModelMemory of
// `blocks` blocks of 128 parameters, gradient curvature * (x - optimum) + gradient_noise * xi from Philox.
// The curvatures of the blocks fall from `curvature` to `curvature / condition` by equal factors.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "lpmm/memory/spec.h"
#include "theory/floors.h"

namespace lpmm::theory {

enum class GridMotion : std::uint8_t {
  kFixed,    // one constant element of 1 a block pins the step
  kShaken,   // that element jumps each step, so that a moving step is new each step
  kNatural,  // no such element: the largest of the noisy elements sets the step
};

struct QuadraticRun {
  double curvature = 1;
  double condition = 1;
  double gradient_noise = 0.1;
  double learning_rate = 0.01;
  double momentum = 0;
  Spec parameter;                    // block 128
  Spec accumulator, momentum_state;  // fp32 unless given
  bool error_feedback = false;
  bool accumulate_in_momentum = false;  // then `accumulator` is not read
  int microbatches = 1;  // noise of their mean as of one; predict() knows several in the momentum alone
  GridMotion motion = GridMotion::kFixed;
  double start = 1;  // free elements start at this share of their optimum
  int blocks = 32;
  int steps = 0;  // measured steps; 0: eight times the time in which the variance settles
  std::uint64_t seed = 1;
};

struct QuadraticResult {
  double variance = 0;   // E[(x - optimum)^2] over the free elements and the measured steps
  double loss = 0;       // E[curvature * (x - optimum)^2 / 2]
  double bias = 0;       // E[x - optimum]
  double step = 0;       // root mean square of the blocks' steps
  double moves = 0;      // share of writes at which a block's step changed
  double underflow = 0;  // share of non-zero updates that left code and step unchanged
  double error = 0;      // about one standard deviation of `variance`, by the number of independent samples
};

// Steps until the variance is within e^-1 of its stationary value, for the smallest curvature.
double settling_steps(const QuadraticRun& run);

QuadraticResult run_quadratic(const QuadraticRun& run, Device& device);

// The predictions of the floor formulas for a run whose step is known (from its result): means over the
// blocks.
Floor predict(const QuadraticRun& run, const QuadraticResult& result);

}  // namespace lpmm::theory
