// Matrix products by cuBLASLt. The library, half a gigabyte, is loaded when a device is opened, so that
// programs start without it, fast, and on machines that do not have it.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/compute.h"

namespace lpmm::kernels::cuda {

// The functions used of the library.
struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtGetStatusString) status_text;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulDescCreate) create_operation;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithms;
  decltype(&cublasLtMatmul) multiply;
};
// Throws std::runtime_error where the library is not found or lacks something.
CublasLt load_cublas();
std::string version_of(const CublasLt& library);  // "cuBLASLt 13.1.0"

class Products {
 public:
  // The library wants its workspace aligned to so much; scratch memory has less.
  static constexpr std::int64_t kWorkspaceBytes = 32 << 20, kWorkspaceAlignment = 256;
  static constexpr std::int64_t kScratchBytes = kWorkspaceBytes + kWorkspaceAlignment;

  explicit Products(const CublasLt& library);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // Does what ComputeKernels::matmul does, but with `bias`, null or of c's type, in place of that in `args`.
  // One shape has one algorithm: the same bits each time, on one kind of device. `scratch` has kScratchBytes.
  void multiply(const MatrixArgs& args, const void* bias, void* scratch, CUstream_st* stream);
  // True if the library may be asked to add a bias: it does so for matrices of whole vectors.
  static bool adds_bias(const MatrixArgs& args) {
    constexpr std::int64_t kVectorValues = 8;
    return (args.n | args.k | args.c_stride) % kVectorValues == 0;
  }

 private:
  // The properties that an algorithm is chosen for: all but the addresses, of which only the alignment
  // matters.
  struct Shape {
    bool transpose_a, transpose_b;
    ValueType type, c_type;
    std::int64_t m, n, k, a_stride, b_stride, c_stride;
    std::uint32_t a_alignment, b_alignment, c_alignment, bias_alignment;  // of no bias 0
    auto operator<=>(const Shape&) const = default;  // NOLINT(modernize-use-nullptr): there is none
  };
  struct Plan;
  const Plan& plan_for(const Shape& shape, const void* bias);
  void check(cublasStatus_t status, const char* what) const;

  CublasLt library_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;  // of plans, which take the address of a bias before each product
  std::map<Shape, std::unique_ptr<Plan>> plans_;
};

}  // namespace lpmm::kernels::cuda
