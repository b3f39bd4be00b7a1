// Tests what is asked of cuBLASLt for each product, against a library of our own that does what its manual
// says: column-major matrices, op(A) op(B). Needs CUDA.
#if defined(LPMM_HAS_CUDA)
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/cuda/gpu/products.h"
#include "kernels/formats/codec.h"
#include "tests/normal_values.h"

namespace lpmm::kernels::cuda {
namespace {

struct Counts {
  int alive = 0, searches = 0, handles = 0;
} counts;

struct Layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t stride;
};
struct Operation {
  cublasOperation_t of[2];
  cublasLtEpilogue_t epilogue;
  const void* bias;
};
struct Preference {
  std::uint32_t reductions;
};
template <class Of, class Opaque>
Of& in(Opaque* opaque) {
  static_assert(sizeof(Of) <= sizeof(Opaque));
  return *reinterpret_cast<Of*>(opaque);
}
template <class Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  --counts.alive;
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}

// Into an attribute of its own size.
template <class Attribute>
cublasStatus_t set(Attribute& attribute, const void* from, std::size_t bytes) {
  if (bytes != sizeof attribute) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&attribute, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

double value(const void* data, const Layout& l, std::int64_t at) {
  if (l.type == CUDA_R_32F) return static_cast<const float*>(data)[at];
  return bf16_to_float(static_cast<const std::uint16_t*>(data)[at]);
}
// Element (row, column) of op(matrix).
double element(const void* data, const Layout& l, cublasOperation_t operation, std::uint64_t row,
               std::uint64_t column) {
  if (operation == CUBLAS_OP_T) std::swap(row, column);
  if (row >= l.rows || column >= l.columns) throw std::logic_error("outside of a matrix");
  return value(data, l, static_cast<std::int64_t>(row) + static_cast<std::int64_t>(column) * l.stride);
}

cublasStatus_t multiply(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                        cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                        const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                        cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void* workspace, std::size_t,
                        cudaStream_t) {
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  const auto& op = in<Operation>(operation);
  const Layout &la = in<Layout>(a_layout), &lb = in<Layout>(b_layout), &lc = in<Layout>(c_layout);
  const std::uint64_t depth = op.of[0] == CUBLAS_OP_N ? la.columns : la.rows;
  for (std::uint64_t i = 0; i < lc.rows; ++i) {
    for (std::uint64_t j = 0; j < lc.columns; ++j) {
      double sum = 0;
      for (std::uint64_t k = 0; k < depth; ++k) {
        sum += element(a, la, op.of[0], i, k) * element(b, lb, op.of[1], k, j);
      }
      const auto at = static_cast<std::int64_t>(i) + static_cast<std::int64_t>(j) * lc.stride;
      const float scale = *static_cast<const float*>(beta);
      double result = *static_cast<const float*>(alpha) * sum;
      if (scale != 0) result += scale * value(c, lc, at);
      // A bias for each row, of the type of the result.
      if (op.epilogue == CUBLASLT_EPILOGUE_BIAS) result += value(op.bias, lc, static_cast<std::int64_t>(i));
      if (lc.type == CUDA_R_32F) {
        static_cast<float*>(d)[at] = static_cast<float>(result);
      } else {
        static_cast<std::uint16_t*>(d)[at] = float_to_bf16(static_cast<float>(result));
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

CublasLt own_library() {
  CublasLt l{};
  l.create = [](cublasLtHandle_t*) { return ++counts.handles, CUBLAS_STATUS_SUCCESS; };
  l.destroy = [](cublasLtHandle_t) { return --counts.handles, CUBLAS_STATUS_SUCCESS; };
  l.version = [] { return std::size_t{130107}; };
  l.status_text = [](cublasStatus_t) { return "as the test wants"; };
  l.create_layout = [](cublasLtMatrixLayout_t* to, cudaDataType type, std::uint64_t rows,
                       std::uint64_t columns, std::int64_t stride) {
    ++counts.alive;
    *to = new cublasLtMatrixLayoutOpaque_t{};
    in<Layout>(*to) = {type, rows, columns, stride};
    return static_cast<std::uint64_t>(stride) < rows ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
  };
  l.destroy_layout = destroy;
  l.create_operation = [](cublasLtMatmulDesc_t* to, cublasComputeType_t, cudaDataType) {
    ++counts.alive;
    *to = new cublasLtMatmulDescOpaque_t{};
    return CUBLAS_STATUS_SUCCESS;
  };
  l.destroy_operation = destroy;
  l.set_operation = [](cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t which, const void* from,
                       std::size_t bytes) {
    auto& op = in<Operation>(of);
    switch (which) {
      case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(op.of[0], from, bytes);
      case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(op.of[1], from, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(op.epilogue, from, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(op.bias, from, bytes);
      default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
  };
  l.create_preference = [](cublasLtMatmulPreference_t* to) {
    ++counts.alive;
    *to = new cublasLtMatmulPreferenceOpaque_t{};
    return CUBLAS_STATUS_SUCCESS;
  };
  l.destroy_preference = destroy;
  l.set_preference = [](cublasLtMatmulPreference_t of, cublasLtMatmulPreferenceAttributes_t which,
                        const void* from, std::size_t bytes) {
    if (which != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return CUBLAS_STATUS_SUCCESS;
    return set(in<Preference>(of).reductions, from, bytes);
  };
  // Partial sums are not to be added in the order of threads, nor rounded.
  l.find_algorithms = [](cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t,
                         cublasLtMatrixLayout_t, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                         cublasLtMatmulPreference_t preference, int, cublasLtMatmulHeuristicResult_t*,
                         int* count) {
    ++counts.searches;
    *count = in<Layout>(c).rows == 666 ? 0 : 1;
    std::uint32_t refused = CUBLASLT_REDUCTION_SCHEME_INPLACE;
    if (in<Layout>(c).type != CUDA_R_32F) refused |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    const auto& op = in<Operation>(operation);
    const bool knows_bias = op.epilogue != CUBLASLT_EPILOGUE_BIAS || op.bias != nullptr;
    const bool is_good = knows_bias && (in<Preference>(preference).reductions & refused) == 0;
    return is_good ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  };
  l.multiply = multiply;
  return l;
}

TEST(Products, AreThoseOfTheCpu) {
  CpuDevice cpu(1);
  Products products(own_library());
  constexpr std::int64_t kM = 5, kN = 7, kK = 9, kStride = 13;
  const std::vector<float> x = normal_values(kStride * kStride, 1, 1.0F),
                           y = normal_values(kStride * kStride, 2, 1.0F);
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    std::vector<std::uint16_t> narrow_x, narrow_y;
    for (const float v : x) narrow_x.push_back(float_to_bf16(v));
    for (const float v : y) narrow_y.push_back(float_to_bf16(v));
    const void* a = type == ValueType::kFp32 ? static_cast<const void*>(x.data()) : narrow_x.data();
    const void* b = type == ValueType::kFp32 ? static_cast<const void*>(y.data()) : narrow_y.data();
    for (int turned = 0; turned < 8; ++turned) {
      std::vector<float> want(kM * kStride, 0.5F), got = want;
      MatrixArgs args{.transpose_a = (turned & 1) != 0,
                      .transpose_b = (turned & 2) != 0,
                      .m = kM,
                      .n = kN,
                      .k = kK,
                      .type = type,
                      .a = a,
                      .a_stride = kStride,
                      .b = b,
                      .b_stride = kStride,
                      .c = want.data(),
                      .c_stride = kStride,
                      .accumulate = (turned & 4) != 0};
      std::vector<std::byte> scratch(static_cast<std::size_t>(cpu.matmul_scratch_bytes(args)) + 64);
      cpu.matmul(args, scratch.data());
      args.c = got.data();
      products.multiply(args, nullptr, scratch.data() + 1, nullptr);
      for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << turned << " " << i;
    }
  }
}

TEST(Products, AreRoundedAndHaveABias) {
  CpuDevice cpu(1);
  Products products(own_library());
  constexpr std::int64_t kM = 5, kN = 7, kK = 9;
  // Two biases as well aligned: one plan.
  constexpr std::int64_t kApart = 32;
  alignas(64) std::uint16_t bias[2 * kApart];
  std::vector<std::uint16_t> x;
  std::vector<float> wide_bias = normal_values(2 * kApart, 2, 1.0F);
  for (const float v : normal_values(kN * kK, 1, 1.0F)) x.push_back(float_to_bf16(v));
  for (std::size_t i = 0; i < wide_bias.size(); ++i) {
    bias[i] = float_to_bf16(wide_bias[i]);
    wide_bias[i] = bf16_to_float(bias[i]);
  }
  std::vector<std::uint16_t> want(kM * kN), got(kM * kN);
  for (const std::int64_t first : {std::int64_t{-1}, std::int64_t{0}, kApart}) {  // -1: no bias
    MatrixArgs args{.transpose_b = true,
                    .m = kM,
                    .n = kN,
                    .k = kK,
                    .type = ValueType::kBf16,
                    .a = x.data(),
                    .a_stride = kK,
                    .b = x.data(),
                    .b_stride = kK,
                    .c = want.data(),
                    .c_stride = kN,
                    .c_type = ValueType::kBf16,
                    .bias = first < 0 ? nullptr : wide_bias.data() + first};
    std::vector<std::byte> scratch(static_cast<std::size_t>(cpu.matmul_scratch_bytes(args)) + 64);
    cpu.matmul(args, scratch.data());
    args.c = got.data();
    products.multiply(args, first < 0 ? nullptr : bias + first, scratch.data(), nullptr);
    for (std::size_t i = 0; i < want.size(); ++i) {
      // Sums that differ in the last bit may round to neighbours.
      ASSERT_NEAR(bf16_to_float(got[i]), bf16_to_float(want[i]), 0.008 * std::abs(bf16_to_float(want[i])));
    }
  }
}

TEST(Products, OneShapeIsSearchedOnceAndAllIsGivenBack) {
  const Counts before = counts;
  {
    Products products(own_library());
    EXPECT_EQ(version_of(own_library()), "cuBLASLt 13.1.7");
    alignas(256) float a[64] = {}, b[64] = {}, c[64] = {};
    MatrixArgs args{
        .m = 2, .n = 2, .k = 2, .a = a, .a_stride = 2, .b = b, .b_stride = 2, .c = c, .c_stride = 2};
    for (int i = 0; i < 3; ++i) products.multiply(args, nullptr, nullptr, nullptr);
    EXPECT_EQ(counts.searches - before.searches, 1);
    args.a = a + 1;  // less aligned: another algorithm may be needed
    products.multiply(args, nullptr, nullptr, nullptr);
    EXPECT_EQ(counts.searches - before.searches, 2);
    args.n = args.b_stride = args.c_stride = 666;
    try {
      products.multiply(args, nullptr, nullptr, nullptr);
      FAIL() << "no algorithm, and no word of it";
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find("2 x 2 and 2 x 666"), std::string::npos) << e.what();
    }
  }
  EXPECT_EQ(counts.alive, before.alive);
  EXPECT_EQ(counts.handles, before.handles);
}

}  // namespace
}  // namespace lpmm::kernels::cuda
#endif
