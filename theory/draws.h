// Random numbers of the studies: functions of their counter alone, as the noise of rounding is.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/noise.h"

namespace lpmm::theory {

// Four uniforms in (0, 1) for one call.
struct Uniforms {
  float u[4];
};
Uniforms uniforms(const Noise& noise, std::uint32_t call);

// out <- N(0, 1), by Box and Muller; its length is a multiple of 4.
void fill_normal(const Noise& noise, std::span<float> out);

}  // namespace lpmm::theory
