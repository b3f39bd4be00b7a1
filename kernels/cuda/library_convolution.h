// A convolution of bf16 that a library does in place of our own kernel.
#pragma once

#include <compare>

#include "kernels/compute.h"

namespace lpmm::kernels {

// What is computed: y of x, or the gradient of x of that of y; as it is, or added to what is there.
struct ConvPass {
  ConvShape shape;
  bool is_backward = false, accumulate = false;
  auto operator<=>(const ConvPass&) const = default;  // NOLINT(modernize-use-nullptr): there is none
};

class LibraryConvolution {
 public:
  virtual ~LibraryConvolution() = default;
  // Weights are rows of an output's (ky, kx, input), in bf16 as all is, either way. Tensors lie at multiples
  // of 16 bytes.
  virtual void run(const void* from, const void* weights, void* to) const = 0;
};

}  // namespace lpmm::kernels
