// Convolution as products on tensor cores whose factors are gathered from the pixels as they are needed, so
// that columns (columns.cu) are never stored: the implicit product of Chetlur et al. 2014 (arXiv 1410.0759).
// Factors are bf16, sums fp32. Partial sums of the weights' gradient are added up in an order that shapes
// alone decide. A library of the device takes their place where it can.
#include <algorithm>

#include "kernels/cuda/compute/convolution/convolution.h"
#include "kernels/cuda/compute/convolution/gradient_product.h"
#include "kernels/cuda/compute/convolution/window_product.h"
#include "kernels/cuda/compute/map.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// Weights, OIHW, as rows of an output's (ky, kx, input), or of an input's (ky, kx, output). A thread has a
// window.
__global__ void turn_weights(ConvShape s, bool by_input, const float* weights, Bf16* rows) {
  begin_kernel();
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
// The sums of shards, [shard][output][ky, kx, input], added up as OIHW. A block takes a warp's width of pairs
// of an output and an input; its warps take a tap and a range of shards each. Its outputs lie together. A
// library leaves one shard, of bf16.
constexpr int kTapWarps = 9, kRanges = 3;
template <class T>
__global__ void __launch_bounds__(kTapWarps* kRanges* kWarp, 1)
    add_shards(ConvShape s, std::int64_t shards, int ranges, const T* sums, float* gradient) {
  begin_kernel();
  auto* const turned = static_cast<float*>(dynamic_shared());  // [range][pair][tap]
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, area = s.kernel * s.kernel;
  const int warps = static_cast<int>(blockDim.x) / kWarp / ranges, range = thread / kWarp / warps;
  const std::int64_t pairs = std::int64_t{1} * s.out * s.in, weights = pairs * area;
  const std::int64_t first = std::int64_t{1} * blockIdx.x * kWarp;
  const int here = pairs - first < kWarp ? static_cast<int>(pairs - first) : kWarp;
  const std::int64_t of_range = (shards + ranges - 1) / ranges, begin = range * of_range;
  const std::int64_t end = begin + of_range < shards ? begin + of_range : shards;
  const Place at = Place::of(first + lane, s.in);
  constexpr int kAhead = 4;  // shards that are loaded before one is added
  for (int tap = thread / kWarp % warps; tap < area && lane < here; tap += warps) {
    const T* from = sums + begin * weights + (at.row * area + tap) * s.in + at.column;
    float sum[kAhead] = {};
    for (std::int64_t left = end - begin; left > 0; left -= kAhead, from += kAhead * weights) {
      LPMM_UNROLL
      for (int i = 0; i < kAhead; ++i) sum[i] += i < left ? load(from + i * weights) : 0.0F;
    }
    turned[(range * kWarp + lane) * area + tap] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  __syncthreads();
  for (int i = thread; i < here * area; i += static_cast<int>(blockDim.x)) {
    float sum = turned[i];
    for (int more = 1; more < ranges; ++more) sum += turned[more * kWarp * area + i];
    gradient[first * area + i] = sum;
  }
}

std::int64_t tiles_of(std::int64_t size, std::int64_t tile) {
  return (size + tile - 1) / tile;
}

class MmaConvolution final : public Convolution {
 public:
  MmaConvolution(CudaDevice& device, const ConvShape& shape) : device_(device), shape_(shape) {
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

  // Weights or their gradient in bf16, and a library's workspace; or partial sums of the gradient.
  std::int64_t scratch_bytes() const override {
    return aligned(std::max(4 * shards_ * shape_.weights(), before_workspace() + kWorkspaceBytes));
  }

  void forward(const void* x, const float* weights, void* y, void* scratch) const override {
    const Bf16* const rows = turned(weights, false, scratch);
    if (const LibraryConvolution* const by =
            device_.library_convolution({shape_, ConvTensor::kY, false, kWorkspaceBytes})) {
      return by->run(x, rows, y, workspace(scratch));
    }
    multiply({Gather::of_input(shape_, x), rows, shape_.out, static_cast<Bf16*>(y), false});
  }

  void backward(const ConvolutionBackward& args, void* scratch) const override {
    if (args.dx != nullptr) input_gradient(args, scratch);
    if (const LibraryConvolution* const by = library_of_weights()) {
      by->run(args.x, args.dy, scratch, workspace(scratch));
      return add(1, static_cast<const Bf16*>(scratch), args.weight_gradient);
    }
    auto* const sums = static_cast<float*>(scratch);
    const GradientProduct p{Gather::of_input(shape_, args.x), static_cast<const Bf16*>(args.dy), shape_.out,
                            shard_rows_, sums};
    with_gradient_tile(shape_.out, depth(), [&]<class T>(T) {
      launch(multiply_gradient<T>, shards_ * gradient_tiles<T>(), T::kThreads, T::kBytes, stream(), p);
    });
    add(shards_, static_cast<const float*>(sums), args.weight_gradient);
  }

 private:
  // The best engines want next to nothing. One that wants more copies the tensors, and is slower than ours.
  static constexpr std::int64_t kWorkspaceBytes = 64 << 10;
  std::int64_t before_workspace() const {
    return 2 * shape_.weights() + LibraryConvolution::kWorkspaceAlignment;
  }
  void* workspace(void* scratch) const {
    auto* const end = static_cast<std::byte*>(scratch) + before_workspace();
    return end - reinterpret_cast<std::uintptr_t>(end) % LibraryConvolution::kWorkspaceAlignment;
  }
  // A library adds partial sums of a gradient of weights, too, and is slower than ours where channels are few
  // or windows have one tap (its times: experiments/results/cuda/cudnn_probe.txt).
  const LibraryConvolution* library_of_weights() const {
    constexpr int kFewestChannels = 64;
    if (std::min(shape_.in, shape_.out) < kFewestChannels || shape_.kernel == 1) return nullptr;
    return device_.library_convolution(
        {shape_, ConvTensor::kWeights, false, scratch_bytes() - before_workspace()});
  }
  template <class T>
  void add(std::int64_t shards, const T* sums, float* gradient) const {
    const int area = shape_.kernel * shape_.kernel, ranges = shards < 8 * kRanges ? 1 : kRanges;
    launch(add_shards<T>, tiles_of(std::int64_t{1} * shape_.in * shape_.out, kWarp),
           kWarp * std::min(area, kTapWarps) * ranges, std::int64_t{4} * kWarp * area * ranges, stream(),
           shape_, shards, ranges, sums, gradient);
  }
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
  void input_gradient(const ConvolutionBackward& args, void* scratch) const {
    if (const LibraryConvolution* const by =
            device_.library_convolution({shape_, ConvTensor::kX, args.accumulate, kWorkspaceBytes})) {
      return by->run(turned(args.weights, false, scratch), args.dy, args.dx, workspace(scratch));
    }
    const Bf16* const rows = turned(args.weights, true, scratch);
    multiply({Gather::of_gradient(shape_, args.dy), rows, shape_.in, static_cast<Bf16*>(args.dx),
              args.accumulate});
  }
  void multiply(const WindowProduct& p) const {
    with_product_tile(p.windows.rows, p.outputs, [&]<class T>(T) {
      launch(multiply_windows<T>, tiles_of(p.windows.rows, T::kRows) * tiles_of(p.outputs, T::kColumns),
             T::kThreads, T::kBytes, stream(), p);
    });
  }

  CudaDevice& device_;
  ConvShape shape_;
  std::int64_t shard_rows_, shards_;
};

}  // namespace

std::unique_ptr<Convolution> convolution_on_tensor_cores(CudaDevice& device, const ConvShape& shape) {
  return std::make_unique<MmaConvolution>(device, shape);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
