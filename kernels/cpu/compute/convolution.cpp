// Convolution: images in shards that depend on shapes only, partial gradients merged in a fixed order.
#include <algorithm>
#include <cstring>

#include "kernels/cpu.h"

#include "kernels/cpu/compute/backend.h"
#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"

namespace lpmm::kernels {
namespace {

// Images per shard: the largest divisor of the batch whose fp32 input and output stay near the L2 cache, or
// near half the weights where these are larger: every shard reads them, and writes a gradient of that size.
int shard_images(const ConvShape& s) {
  const std::int64_t bytes = 4 * (s.in_values() + s.out_values());
  const std::int64_t room = std::max(std::int64_t{1} << 19, 2 * s.weights());
  const std::int64_t limit = std::clamp<std::int64_t>(room / bytes, 1, 16);
  int images = static_cast<int>(std::min<std::int64_t>(limit, s.batch));
  while (s.batch % images != 0) --images;
  return images;
}
ConvShape shard_of(const ConvShape& s) {
  ConvShape shard = s;
  shard.channels = 0;
  shard.batch = shard_images(shard);
  return shard;
}

// Images are cut into shards; weight gradients of shards are summed in a fixed order.
class CpuConvolution final : public Convolution {
 public:
  CpuConvolution(CpuDevice& device, const ConvShape& s, ValueType t)
      : device_(device),
        shape_(s),
        shard_(shard_of(s)),
        type_(t),
        threads_(device.host_threads()),
        convert_(t == ValueType::kBf16 && !backend::ShardConvolution::has_native_bf16(shard_)),
        is_panel_(s.out_stride() != s.out),
        library_(shard_, t == ValueType::kBf16 && !convert_, threads_) {}
  std::int64_t scratch_bytes() const override { return thread_x() + threads_ * thread_bytes(); }
  void forward(const void* x, const float* weights, void* y, void* scratch) const override;
  void backward(const ConvolutionBackward& args, void* scratch) const override;

 private:
  CpuDevice& device_;
  ConvShape shape_, shard_;
  ValueType type_;
  int threads_;
  bool convert_;   // bf16 activations, fp32 arithmetic
  bool is_panel_;  // some channels of y alone
  backend::ShardConvolution library_;

  std::int64_t shards() const { return shape_.batch / shard_.batch; }
  std::int64_t x_values() const { return shard_.batch * shard_.in_values(); }
  std::int64_t y_values() const { return shard_.batch * shard_.out_values(); }
  std::int64_t x_bytes() const { return x_values() * value_bytes(type_); }
  // The distance from shard to shard, with the channels of other panels.
  std::int64_t y_bytes() const { return shard_.batch * shape_.out_values() * value_bytes(type_); }

  // Scratch: fp32 weights, packed weights, partial weight gradients, then for each thread: x, y, library.
  std::int64_t packed_at() const { return aligned(4 * shape_.weights()); }
  std::int64_t partials_at() const {
    return packed_at() + aligned(std::max(library_.packed_forward_bytes(), library_.packed_backward_bytes()));
  }
  std::int64_t thread_x() const { return partials_at() + aligned(shards() * 4 * library_.gradient_floats()); }
  std::int64_t thread_bytes() const {
    return aligned(4 * x_values()) + aligned(4 * y_values()) + aligned(library_.scratch_bytes());
  }
  struct Buffers {
    float *x, *y;
    void* library;
  };
  Buffers thread_buffers(void* scratch, int thread) const {
    const std::int64_t x = thread_x() + thread * thread_bytes(), y = x + aligned(4 * x_values());
    return {floats_at(scratch, x), floats_at(scratch, y), bytes_at(scratch, y + aligned(4 * y_values()))};
  }
  // Weights as the products see them: rounded to the compute type.
  const float* rounded(const float* weights, void* scratch) const {
    if (!convert_) return weights;
    auto* copy = static_cast<float*>(scratch);
    std::copy_n(weights, shape_.weights(), copy);
    loops::elements().round_bf16(shape_.weights(), copy);
    return copy;
  }
  // The channels of y that this makes, from the library's dense ones; and those of dy to dense ones.
  void scatter(const float* dense, void* y) const {
    const std::int64_t n = shape_.out, b = value_bytes(type_);
    const std::int64_t pixels = y_values() / n, stride = shape_.out_stride();
    if (!is_panel_) return loops::elements().from_float(type_, {.columns = y_values()}, dense, y);
    if (convert_) return loops::elements().from_float(type_, {pixels, n, n, stride}, dense, y);
    copy_pixels(pixels, n * b, dense, n * b, y, stride * b);
  }
  void gather(const void* dy, float* dense) const {
    const std::int64_t n = shape_.out, b = value_bytes(type_);
    const std::int64_t pixels = y_values() / n, stride = shape_.out_stride();
    if (!is_panel_) return loops::elements().to_float(type_, {.columns = y_values()}, dy, dense);
    if (convert_) return loops::elements().to_float(type_, {pixels, n, stride, n}, dy, dense);
    copy_pixels(pixels, n * b, dy, stride * b, dense, n * b);
  }
  static void copy_pixels(std::int64_t pixels, std::int64_t bytes, const void* from, std::int64_t from_step,
                          void* to, std::int64_t to_step) {
    for (std::int64_t i = 0; i < pixels; ++i) {
      std::memcpy(bytes_at(to, i * to_step), bytes_at(from, i * from_step), static_cast<std::size_t>(bytes));
    }
  }
};

void CpuConvolution::forward(const void* x, const float* weights, void* y, void* scratch) const {
  void* packed = bytes_at(scratch, packed_at());
  library_.pack_forward(rounded(weights, scratch), packed);
  const bool direct = !convert_ && !is_panel_;
  device_.host_pool().for_each(shards(), [&](std::int64_t item, int thread) {
    const Buffers b = thread_buffers(scratch, thread);
    const void* in = bytes_at(x, item * x_bytes());
    void* out = bytes_at(y, item * y_bytes());
    if (convert_) loops::elements().to_float(type_, {.columns = x_values()}, in, b.x);
    library_.forward(thread, convert_ ? b.x : in, packed, direct ? out : b.y, b.library);
    if (!direct) scatter(b.y, out);
  });
}

void CpuConvolution::backward(const ConvolutionBackward& args, void* scratch) const {
  void* packed = bytes_at(scratch, packed_at());
  float* partials = floats_at(scratch, partials_at());
  if (args.dx != nullptr) library_.pack_backward(rounded(args.weights, scratch), packed);
  const std::int64_t gradient = library_.gradient_floats();
  device_.host_pool().for_each(shards(), [&](std::int64_t item, int thread) {
    const Buffers b = thread_buffers(scratch, thread);
    const void* in = bytes_at(args.x, item * x_bytes());
    const void* out_gradient = bytes_at(args.dy, item * y_bytes());
    if (convert_ || is_panel_) {
      gather(out_gradient, b.y);
      out_gradient = b.y;
    }
    if (convert_) {
      loops::elements().to_float(type_, {.columns = x_values()}, in, b.x);
      in = b.x;
    }
    library_.backward_weights(thread, in, out_gradient, partials + item * gradient, b.library);
    if (args.dx == nullptr) return;
    void* in_gradient = bytes_at(args.dx, item * x_bytes());
    const bool direct = !convert_ && !args.accumulate;
    library_.backward_data(thread, out_gradient, packed, direct ? in_gradient : b.x, b.library);
    if (direct) return;
    if (convert_ || type_ == ValueType::kFp32) {
      loops::elements().from_float(type_, {.columns = x_values(), .accumulate = args.accumulate}, b.x,
                                   in_gradient);
    } else {
      loops::elements().add(type_, x_values(), b.x, in_gradient, in_gradient);
    }
  });
  sum_tree(device_.host_pool(), shards(), gradient, partials);
  library_.unpack_gradient(partials, args.weight_gradient);
}

}  // namespace

std::unique_ptr<Convolution> CpuDevice::convolution(const ConvShape& shape, ValueType type) {
  return std::make_unique<CpuConvolution>(*this, shape, type);
}

}  // namespace lpmm::kernels
