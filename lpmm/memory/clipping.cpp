#include "lpmm/memory/clipping.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lpmm/memory/optimizer_config.h"
#include "lpmm/memory/roles.h"

namespace lpmm {

double GradientHistory::add(double square_sum, std::int64_t t, int percentile) {
  // Finite, as a checkpoint holds nothing else.
  const auto square = static_cast<float>(std::min<double>(square_sum, std::numeric_limits<float>::max()));
  if (t == 1) squares_.fill(square);
  squares_[static_cast<std::size_t>(t % kLength)] = square;
  std::array<float, kLength> sorted = squares_;
  const auto at = sorted.begin() + percentile;
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at > 0 && *at < square ? std::sqrt(double{*at} / double{square}) : 1.0;
}

bool GradientHistory::can_be(std::span<const float> squares) {
  return squares.size() == kLength &&
         std::all_of(squares.begin(), squares.end(), [](float x) { return std::isfinite(x) && x >= 0; });
}

void GradientHistory::set(std::span<const float> squares) {
  std::copy_n(squares.begin(), kLength, squares_.begin());
}

bool has_history(const OptimizerConfig& optimizer, const std::string& tensor) {
  return optimizer.percentile_clip > 0 && !is_frozen(optimizer, tensor);
}

Clip clip(const OptimizerConfig& optimizer, const GradientSquares& gradient, std::int64_t t,
          std::span<std::optional<GradientHistory>> histories) {
  Clip out{std::vector<double>(histories.size(), 1.0)};
  double left = 0;
  for (std::size_t i = 0; i < histories.size(); ++i) {
    double& factor = out.factors[i];
    if (histories[i]) factor = histories[i]->add(gradient.tensor[i], t, optimizer.percentile_clip);
    if (factor < 1) ++out.clipped_tensors;
    left += factor * factor * gradient.tensor[i];
  }
  if (out.clipped_tensors == 0) left = gradient.all;
  if (optimizer.clip_norm > 0) {
    out.clip_factor = std::min(1.0, optimizer.clip_norm / (std::sqrt(left) + 1e-6));
  }
  for (double& factor : out.factors) factor *= out.clip_factor;
  return out;
}

}  // namespace lpmm
