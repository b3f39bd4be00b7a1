// The operations of a compute library: convolution and matrix product of one shard by the calling thread
// alone. onednn.cpp or eigen.cpp implements it; CMake compiles one of them (LPMM_ONEDNN).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/compute.h"

namespace lpmm::kernels::backend {

const char* name();

// Serial; see kernels::matmul. c is fp32, and without a bias.
void matmul(const MatrixArgs& args);

// True if products of bf16 are left to matmul: where the processor has instructions for them. Tests set it.
bool& multiplies_bf16();

// A product of bf16 and the same in fp32, where a library has none.
struct Widened {
  explicit Widened(const MatrixArgs& of);
  std::vector<float> a, b;
  MatrixArgs args;
};

// A convolution of shape.batch images, NHWC. `native` bf16 takes bf16 activations; otherwise they are fp32.
class ShardConvolution {
 public:
  static bool has_native_bf16(const ConvShape& shape);

  ShardConvolution(const ConvShape& shape, bool native_bf16, int threads);
  ~ShardConvolution();

  // Weights in the library's own layouts, one for each direction.
  std::int64_t packed_forward_bytes() const;
  std::int64_t packed_backward_bytes() const;
  void pack_forward(const float* oihw, void* packed) const;
  void pack_backward(const float* oihw, void* packed) const;

  // Weight gradients stay in the library's layout (fp32) until all shards are summed.
  std::int64_t gradient_floats() const;
  void unpack_gradient(const float* packed, float* oihw) const;

  std::int64_t scratch_bytes() const;  // one call's
  void forward(int thread, const void* x, const void* packed, void* y, void* scratch) const;
  void backward_data(int thread, const void* dy, const void* packed, void* dx, void* scratch) const;
  void backward_weights(int thread, const void* x, const void* dy, float* gradient, void* scratch) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lpmm::kernels::backend
