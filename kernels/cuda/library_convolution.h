// A convolution of bf16 that a library does in place of our own kernel.
#pragma once

#include <compare>
#include <cstdint>

#include "kernels/compute.h"

namespace lpmm::kernels {

// The tensors of a convolution, or their gradients, in the order in which they are handed over.
enum class ConvTensor : std::uint8_t { kX, kWeights, kY };

// One pass: which of the tensors is computed from the other two. It replaces what is there, or, for x, may be
// added to it.
struct ConvPass {
  ConvShape shape;
  ConvTensor result = ConvTensor::kY;
  bool accumulate = false;
  std::int64_t workspace_bytes = 0;                   // that the library may have
  auto operator<=>(const ConvPass&) const = default;  // NOLINT(modernize-use-nullptr): there is none
};

class LibraryConvolution {
 public:
  virtual ~LibraryConvolution() = default;
  // Weights are rows of an output's (ky, kx, input), in bf16 as all is, either way: of their gradient, too,
  // only sums are fp32. Tensors lie at multiples of 16 bytes, the workspace at one of kWorkspaceAlignment.
  virtual void run(const void* first, const void* second, void* result, void* workspace) const = 0;
  static constexpr std::int64_t kWorkspaceAlignment = 256;
};

}  // namespace lpmm::kernels
