// Convolution as products on tensor cores whose factors are gathered from the pixels as they are needed, so
// that columns (columns.cu) are never stored: the implicit product of Chetlur et al. 2014 (arXiv 1410.0759).
// Factors are bf16, sums fp32. Partial sums of the weights' gradient are added up in an order that shapes
// alone decide.
#include <algorithm>

#include "kernels/cuda/compute/columns.h"
#include "kernels/cuda/compute/convolution/convolution.h"
#include "kernels/cuda/compute/convolution/gradient_product.h"
#include "kernels/cuda/compute/convolution/window_product.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// Weights, OIHW, as rows of an output's (ky, kx, input), or of an input's (ky, kx, output). A thread has a
// window.
__global__ void turn_weights(ConvShape s, bool by_input, const float* weights, Bf16* rows) {
  const std::int64_t columns = by_input ? s.out : s.in;
  const Place at = Place::of(std::int64_t{1} * blockIdx.x * blockDim.x + threadIdx.x, columns);
  if (at.row >= (by_input ? s.in : s.out)) return;
  const int area = s.kernel * s.kernel;
  const float* const window =
      weights + (by_input ? at.column * s.in + at.row : at.row * s.in + at.column) * area;
  Bf16* const to = rows + at.row * area * columns + at.column;
  constexpr int kAhead = 9;  // weights are loaded before one is stored
  for (int first = 0; first < area; first += kAhead) {
    float values[kAhead];
    LPMM_UNROLL
    for (int i = 0; i < kAhead; ++i) values[i] = first + i < area ? window[first + i] : 0.0F;
    LPMM_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      if (first + i < area) store(to + (first + i) * columns, values[i]);
    }
  }
}
// Back from rows of an output's (ky, kx, input).
struct StoreWeightGradient {
  ConvShape s;
  float* gradient;
  LPMM_HD void operator()(std::int64_t, std::int64_t column, const float (&sum)[1]) const {
    const std::int64_t area = std::int64_t{1} * s.kernel * s.kernel;
    const Place of_output = Place::of(column, area * s.in), tap = Place::of(of_output.column, s.in);
    gradient[(of_output.row * s.in + tap.column) * area + tap.row] = sum[0];
  }
};

std::int64_t tiles_of(std::int64_t size, std::int64_t tile) {
  return (size + tile - 1) / tile;
}

class MmaConvolution final : public Convolution {
 public:
  MmaConvolution(const CudaDevice& device, const ConvShape& shape) : device_(device), shape_(shape) {
    const std::int64_t rows = Gather::of_input(shape, nullptr).rows;
    std::int64_t tiles = 0, step = 0;
    with_gradient_tile(shape.out, depth(), [&]<class T>(T) {
      tiles = gradient_tiles<T>();
      step = T::kDepth;
    });
    // As many blocks as large devices run at once, and no shard of few rows.
    constexpr std::int64_t kBlocks = 528, kFewestRows = 256;
    const std::int64_t shards = std::clamp<std::int64_t>(kBlocks / tiles, 1, tiles_of(rows, kFewestRows));
    shard_rows_ = tiles_of(tiles_of(rows, shards), step) * step;
    shards_ = tiles_of(rows, shard_rows_);
  }

  // Weights in bf16; then partial sums of their gradient.
  std::int64_t scratch_bytes() const override { return aligned(4 * shards_ * shape_.weights()); }

  void forward(const void* x, const float* weights, void* y, void* scratch) const override {
    const Bf16* const rows = turned(weights, false, scratch);
    multiply({Gather::of_input(shape_, x), rows, shape_.out, static_cast<Bf16*>(y), false});
  }

  void backward(const void* x, const float* weights, const void* dy, void* dx, bool accumulate,
                float* weight_gradient, void* scratch) const override {
    if (dx != nullptr) {
      const Bf16* const rows = turned(weights, true, scratch);
      multiply({Gather::of_gradient(shape_, dy), rows, shape_.in, static_cast<Bf16*>(dx), accumulate});
    }
    auto* const sums = static_cast<float*>(scratch);
    const GradientProduct p{Gather::of_input(shape_, x), static_cast<const Bf16*>(dy), shape_.out,
                            shard_rows_, sums};
    with_gradient_tile(shape_.out, depth(), [&]<class T>(T) {
      launch(multiply_gradient<T>, shards_ * gradient_tiles<T>(), T::kThreads, T::kBytes, stream(), p);
    });
    sum_columns<1, float>(stream(), shards_, shape_.weights(), shards_,
                          ShardTerms<1, float>{shape_.weights(), sums},
                          StoreWeightGradient{shape_, weight_gradient});
  }

 private:
  Stream stream() const { return device_.stream(); }
  std::int64_t depth() const { return shape_.weights() / shape_.out; }
  template <class T>
  std::int64_t gradient_tiles() const {
    return tiles_of(shape_.out, T::kHeight) * tiles_of(depth(), T::kColumns);
  }
  const Bf16* turned(const float* weights, bool by_input, void* scratch) const {
    auto* const rows = static_cast<Bf16*>(scratch);
    launch_apart(turn_weights, tiles_of(std::int64_t{1} * shape_.in * shape_.out, kMapThreads), kMapThreads,
                 stream(), shape_, by_input, weights, rows);
    return rows;
  }
  void multiply(const WindowProduct& p) const {
    with_product_tile(p.windows.rows, p.outputs, [&]<class T>(T) {
      launch(multiply_windows<T>, tiles_of(p.windows.rows, T::kRows) * tiles_of(p.outputs, T::kColumns),
             T::kThreads, T::kBytes, stream(), p);
    });
  }

  const CudaDevice& device_;
  ConvShape shape_;
  std::int64_t shard_rows_, shards_;
};

}  // namespace

std::unique_ptr<Convolution> convolution_on_tensor_cores(const CudaDevice& device, const ConvShape& shape) {
  return std::make_unique<MmaConvolution>(device, shape);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
