// The matrix product, which networks and the rules with an orthogonal step need alike.
#pragma once

#include <cstdint>

namespace lpmm {

enum class ValueType : std::uint8_t {
  kFp32,
  kBf16
};  // of activations, gradients and matrix products' inputs

}  // namespace lpmm

namespace lpmm::kernels {

inline constexpr std::int64_t kAlign = 64;
inline std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}
inline std::int64_t value_bytes(ValueType type) {
  return type == ValueType::kFp32 ? 4 : 2;
}

// c[m][n] = (accumulate ? c : bias[n]) + op(a)[m][k] * op(b)[k][n], row-major; op transposes where said. m,
// n, k >= 1. Factors are of `type`, c of `c_type`: fp32, or the factors' where it does not accumulate. All
// sums are fp32, rounded once. Factors of bf16 are multiplied by the processor's instructions for them, or
// widened piece by piece where it has none.
struct MatrixArgs {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  ValueType type = ValueType::kFp32;
  const void* a = nullptr;
  std::int64_t a_stride = 0;
  const void* b = nullptr;
  std::int64_t b_stride = 0;
  void* c = nullptr;
  std::int64_t c_stride = 0;
  ValueType c_type = ValueType::kFp32;
  const float* bias = nullptr;  // null: none; a device may round it to c's type; not where it accumulates
  bool accumulate = false;
};

class MatrixKernels {
 public:
  virtual void matmul(const MatrixArgs& args, void* scratch) = 0;
  // Depends on m, n and the types alone; a part of the product takes no more.
  virtual std::int64_t matmul_scratch_bytes(const MatrixArgs& args) const = 0;

 protected:
  MatrixKernels() = default;
  ~MatrixKernels() = default;
};

}  // namespace lpmm::kernels
