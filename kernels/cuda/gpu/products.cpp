#include "kernels/cuda/gpu/products.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/gpu/loaded.h"

namespace lpmm::kernels::cuda {
namespace {

cudaDataType library_type(ValueType type) {
  return type == ValueType::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
}

std::uint32_t alignment_of(const void* address) {
  constexpr std::uintptr_t kMost = kAlign;  // all that memory here has, wherever it lies
  return static_cast<std::uint32_t>(std::uintptr_t{1}
                                    << std::countr_zero(reinterpret_cast<std::uintptr_t>(address) | kMost));
}

}  // namespace

CublasLt load_cublas() {
  const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error("cuBLASLt is not found; install it, or name its folder in LD_LIBRARY_PATH (" +
                             std::string(dlerror()) + ")");
  }
  CublasLt c{};
  find(library, file, "cublasLtCreate", c.create);
  find(library, file, "cublasLtDestroy", c.destroy);
  find(library, file, "cublasLtGetVersion", c.version);
  find(library, file, "cublasLtGetStatusString", c.status_text);
  find(library, file, "cublasLtMatrixLayoutCreate", c.create_layout);
  find(library, file, "cublasLtMatrixLayoutDestroy", c.destroy_layout);
  find(library, file, "cublasLtMatmulDescCreate", c.create_operation);
  find(library, file, "cublasLtMatmulDescDestroy", c.destroy_operation);
  find(library, file, "cublasLtMatmulDescSetAttribute", c.set_operation);
  find(library, file, "cublasLtMatmulPreferenceCreate", c.create_preference);
  find(library, file, "cublasLtMatmulPreferenceDestroy", c.destroy_preference);
  find(library, file, "cublasLtMatmulPreferenceSetAttribute", c.set_preference);
  find(library, file, "cublasLtMatmulAlgoGetHeuristic", c.find_algorithms);
  find(library, file, "cublasLtMatmul", c.multiply);
  return c;
}

// The library's columns are our rows: it computes c transposed, b's factor first.
struct Products::Plan {
  explicit Plan(const CublasLt& of) : library(of) {}
  ~Plan() {
    if (operation != nullptr) library.destroy_operation(operation);
    for (const cublasLtMatrixLayout_t layout : {a, b, c}) {
      if (layout != nullptr) library.destroy_layout(layout);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  const CublasLt& library;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

Products::Products(const CublasLt& library) : library_(library) {
  check(library_.create(&handle_), "handle");
}
Products::~Products() {
  plans_.clear();
  library_.destroy(handle_);
}

void Products::check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("cuBLASLt: ") + what + ": " + library_.status_text(status));
}

std::string version_of(const CublasLt& library) {
  const std::size_t v = library.version();
  return "cuBLASLt " + std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

const Products::Plan& Products::plan_for(const Shape& s, const void* bias) {
  std::unique_ptr<Plan>& found = plans_[s];
  if (found != nullptr) return *found;
  auto plan = std::make_unique<Plan>(library_);
  const auto layout = [&](cublasLtMatrixLayout_t* to, cudaDataType type, bool transposed, std::int64_t rows,
                          std::int64_t columns, std::int64_t stride) {
    if (transposed) std::swap(rows, columns);
    check(library_.create_layout(to, type, static_cast<std::uint64_t>(columns),
                                 static_cast<std::uint64_t>(rows), stride),
          "layout");
  };
  const cudaDataType factors = library_type(s.type);
  layout(&plan->a, factors, s.transpose_a, s.m, s.k, s.a_stride);
  layout(&plan->b, factors, s.transpose_b, s.k, s.n, s.b_stride);
  layout(&plan->c, library_type(s.c_type), false, s.m, s.n, s.c_stride);
  check(library_.create_operation(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "operation");
  const auto operate = [&](cublasLtMatmulDescAttributes_t which, auto value) {
    check(library_.set_operation(plan->operation, which, &value, sizeof value), "operation");
  };
  operate(CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  operate(CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (bias != nullptr) {
    operate(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    operate(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);  // the search looks at its alignment
  }

  cublasLtMatmulPreference_t preference = nullptr;
  check(library_.create_preference(&preference), "preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
    check(library_.set_preference(preference, which, &value, sizeof value), "preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspaceBytes));
  // Partial sums are added in fp32 and in a step of their own: in place, their order would be that of the
  // threads.
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (s.c_type == ValueType::kFp32) reductions |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s.b_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s.a_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s.c_alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s.c_alignment);
  cublasLtMatmulHeuristicResult_t best{};
  int count = 0;
  const cublasStatus_t status = library_.find_algorithms(handle_, plan->operation, plan->b, plan->a, plan->c,
                                                         plan->c, preference, 1, &best, &count);
  library_.destroy_preference(preference);
  const bool found_none =
      status == CUBLAS_STATUS_SUCCESS && (count == 0 || best.state != CUBLAS_STATUS_SUCCESS);
  check(found_none ? CUBLAS_STATUS_NOT_SUPPORTED : status,
        ("a product of " + std::to_string(s.m) + " x " + std::to_string(s.k) + " and " + std::to_string(s.k) +
         " x " + std::to_string(s.n))
            .c_str());
  plan->algorithm = best.algo;
  found = std::move(plan);
  return *found;
}

void Products::multiply(const MatrixArgs& args, const void* bias, void* scratch, CUstream_st* stream) {
  const std::lock_guard lock(mutex_);
  const Plan& plan =
      plan_for({args.transpose_a, args.transpose_b, args.type, args.c_type, args.m, args.n, args.k,
                args.a_stride, args.b_stride, args.c_stride, alignment_of(args.a), alignment_of(args.b),
                alignment_of(args.c), bias == nullptr ? 0 : alignment_of(bias)},
               bias);
  if (bias != nullptr) {
    check(library_.set_operation(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
          "bias");
  }
  constexpr auto kAligned = static_cast<std::uintptr_t>(kWorkspaceAlignment);
  std::byte* const workspace = static_cast<std::byte*>(scratch) +
                               (kAligned - reinterpret_cast<std::uintptr_t>(scratch) % kAligned) % kAligned;
  const float one = 1, beta = args.accumulate ? 1.0F : 0.0F;
  check(library_.multiply(handle_, plan.operation, &one, args.b, plan.b, args.a, plan.a, &beta, args.c,
                          plan.c, args.c, plan.c, &plan.algorithm, workspace,
                          static_cast<std::size_t>(kWorkspaceBytes), stream),
        "product");
}

}  // namespace lpmm::kernels::cuda
