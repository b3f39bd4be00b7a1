#include "theory/draws.h"

#include <cmath>
#include <numbers>

namespace lpmm::theory {

Uniforms uniforms(const Noise& noise, std::uint32_t call) {
  const PhiloxWords w = noise_words(noise, call);
  Uniforms result{};
  for (int i = 0; i < 4; ++i) {
    result.u[i] = (static_cast<float>(w.x[i] >> 8) + 0.5F) * 0x1p-24F;
  }
  return result;
}

void fill_normal(const Noise& noise, std::span<float> out) {
  for (std::size_t i = 0; i + 3 < out.size(); i += 4) {
    const Uniforms u = uniforms(noise, static_cast<std::uint32_t>(i / 4));
    for (std::size_t pair = 0; pair < 2; ++pair) {
      const float radius = std::sqrt(-2 * std::log(u.u[2 * pair]));
      const float angle = 2 * std::numbers::pi_v<float> * u.u[2 * pair + 1];
      out[i + 2 * pair] = radius * std::cos(angle);
      out[i + 2 * pair + 1] = radius * std::sin(angle);
    }
  }
}

}  // namespace lpmm::theory
