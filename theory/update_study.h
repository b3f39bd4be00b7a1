// The effect of storing one of Adam's states in few bits on the next step: u = m / (sqrt(v / c) + epsilon)
// with the state as stored, against u with both exact. One write, no feedback through later steps.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "lpmm/memory/spec.h"

namespace lpmm::theory {

// Adam's states of one tensor.
struct AdamState {
  std::vector<float> momentum, variance;
};

struct UpdateStudy {
  Role stored = Role::kVariance;  // or the momentum
  Spec spec;                      // signed for the momentum, unsigned for the variance
  // If set, stores values in another way than by the spec, and returns the values read back.
  std::function<std::vector<float>(const std::vector<float>& values, Device& device)> store = {};
  double correction = 1;  // c, 1 - beta2^t
  double epsilon = 1e-8;
  std::uint64_t seed = 1;
};

struct UpdateStudyResult {
  double error = 0;   // ||u_stored - u|| / ||u|| over all tensors
  double length = 1;  // <u_stored, u> / ||u||^2: longer or shorter steps
  double worst = 0;   // the error of the tensor where it is largest
};

UpdateStudyResult run_update_study(const UpdateStudy& study, std::span<const AdamState> tensors,
                                   Device& device);

}  // namespace lpmm::theory
