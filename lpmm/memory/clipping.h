// Clipping of gradients: of all by their common norm, and of each tensor's by the norms it had (percentile
// clipping, as bitsandbytes had it until 2026).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lpmm {

struct OptimizerConfig;

// The square sums of a tensor's last gradients, before they were clipped. 400 bytes of the host, which the
// ledger counts and checkpoints keep.
class GradientHistory {
 public:
  static constexpr int kLength = 100;

  // Takes the gradient of update `t`, from 1: the first fills all places, the others place t mod 100. Returns
  // its factor, min(1, clip / norm), where `percentile` norms of the history, in 1 to 99, are below clip. A
  // clip of 0 cuts nothing: a tensor whose gradients were 0 so far would never leave that.
  double add(double square_sum, std::int64_t t, int percentile);

  std::span<const float> squares() const { return squares_; }
  // Returns true if they can be a history's places: 100, finite, not negative.
  static bool can_be(std::span<const float> squares);
  void set(std::span<const float> squares);

 private:
  std::array<float, kLength> squares_ = {};
};

// Returns true if the tensor has a history.
bool has_history(const OptimizerConfig& optimizer, const std::string& tensor);

// The square sums of the accumulated gradient.
struct GradientSquares {
  std::vector<double> tensor;
  double all = 0;
};

// The factors of one step. A tensor's gradient is to be multiplied by its own: its history's times
// clip_factor, which is computed after the histories, so that a spike of one tensor does not shrink the
// others' gradients.
struct Clip {
  std::vector<double> factors;
  double clip_factor = 1;
  std::int64_t clipped_tensors = 0;  // by their histories
};
// `histories`: of the tensors, where they have one; they take update `t`.
Clip clip(const OptimizerConfig& optimizer, const GradientSquares& gradient, std::int64_t t,
          std::span<std::optional<GradientHistory>> histories);

}  // namespace lpmm
