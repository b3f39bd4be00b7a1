// Convolution: images in shards that depend on shapes only, partial gradients merged in a fixed order.
#include "kernels/compute.h"

#include <algorithm>

#include "kernels/cpu/compute/backend.h"
#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"

namespace lpmm::kernels {
namespace {

// Images per shard: the largest divisor of the batch whose fp32 input and output stay near the L2 cache.
int shard_images(const ConvShape& s) {
  const std::int64_t bytes = 4 * (s.in_values() + s.out_values());
  const std::int64_t limit = std::clamp<std::int64_t>((std::int64_t{1} << 19) / bytes, 1, 16);
  int images = static_cast<int>(std::min<std::int64_t>(limit, s.batch));
  while (s.batch % images != 0) --images;
  return images;
}
ConvShape shard_of(const ConvShape& s) {
  ConvShape shard = s;
  shard.batch = shard_images(s);
  return shard;
}

}  // namespace

struct Convolution::State {
  ConvShape shape, shard;
  Compute type;
  int threads;
  bool convert;  // bf16 activations, fp32 arithmetic
  backend::ShardConvolution library;

  State(const ConvShape& s, Compute t, int thread_count)
      : shape(s),
        shard(shard_of(s)),
        type(t),
        threads(thread_count),
        convert(t == Compute::kBf16 && !backend::ShardConvolution::has_native_bf16(shard)),
        library(shard, t == Compute::kBf16 && !convert, thread_count) {}

  std::int64_t shards() const { return shape.batch / shard.batch; }
  std::int64_t x_values() const { return shard.batch * shard.in_values(); }
  std::int64_t y_values() const { return shard.batch * shard.out_values(); }

  // Scratch: fp32 weights, packed weights, partial weight gradients, then for each thread: x, y, library.
  std::int64_t packed() const { return aligned(4 * shape.weights()); }
  std::int64_t partials() const {
    return packed() + aligned(std::max(library.packed_forward_bytes(), library.packed_backward_bytes()));
  }
  std::int64_t thread_x() const { return partials() + aligned(shards() * 4 * library.gradient_floats()); }
  std::int64_t thread_bytes() const {
    return aligned(4 * x_values()) + aligned(4 * y_values()) + aligned(library.scratch_bytes());
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
    if (!convert) return weights;
    auto* copy = static_cast<float*>(scratch);
    std::copy_n(weights, shape.weights(), copy);
    loops::round_bf16(shape.weights(), copy);
    return copy;
  }
};

Convolution::Convolution(const ConvShape& shape, Compute type, int threads)
    : state_(std::make_unique<State>(shape, type, threads)) {}
Convolution::~Convolution() = default;
const ConvShape& Convolution::shape() const {
  return state_->shape;
}
std::int64_t Convolution::scratch_bytes() const {
  return state_->thread_x() + state_->threads * state_->thread_bytes();
}

void Convolution::forward(Pool& pool, const void* x, const float* weights, void* y, void* scratch) const {
  const State& s = *state_;
  void* packed = bytes_at(scratch, s.packed());
  s.library.pack_forward(s.rounded(weights, scratch), packed);
  const std::int64_t x_bytes = s.x_values() * value_bytes(s.type),
                     y_bytes = s.y_values() * value_bytes(s.type);
  pool.for_each(s.shards(), [&](std::int64_t item, int thread) {
    const State::Buffers b = s.thread_buffers(scratch, thread);
    const void* in = bytes_at(x, item * x_bytes);
    void* out = bytes_at(y, item * y_bytes);
    if (s.convert) loops::to_float(s.type, s.x_values(), in, b.x);
    s.library.forward(thread, s.convert ? b.x : in, packed, s.convert ? b.y : out, b.library);
    if (s.convert) loops::from_float(s.type, s.y_values(), b.y, out, false);
  });
}

void Convolution::backward(Pool& pool, const void* x, const float* weights, const void* dy, void* dx,
                           bool accumulate, float* weight_gradient, void* scratch) const {
  const State& s = *state_;
  void* packed = bytes_at(scratch, s.packed());
  float* partials = floats_at(scratch, s.partials());
  if (dx != nullptr) s.library.pack_backward(s.rounded(weights, scratch), packed);
  const std::int64_t x_bytes = s.x_values() * value_bytes(s.type),
                     y_bytes = s.y_values() * value_bytes(s.type);
  const std::int64_t gradient = s.library.gradient_floats();
  pool.for_each(s.shards(), [&](std::int64_t item, int thread) {
    const State::Buffers b = s.thread_buffers(scratch, thread);
    const void* in = bytes_at(x, item * x_bytes);
    const void* out_gradient = bytes_at(dy, item * y_bytes);
    if (s.convert) {
      loops::to_float(s.type, s.y_values(), out_gradient, b.y);
      loops::to_float(s.type, s.x_values(), in, b.x);
      out_gradient = b.y;
      in = b.x;
    }
    s.library.backward_weights(thread, in, out_gradient, partials + item * gradient, b.library);
    if (dx == nullptr) return;
    void* in_gradient = bytes_at(dx, item * x_bytes);
    const bool direct = !s.convert && !accumulate;
    s.library.backward_data(thread, out_gradient, packed, direct ? in_gradient : b.x, b.library);
    if (direct) return;
    if (s.convert || s.type == Compute::kFp32) {
      loops::from_float(s.type, s.x_values(), b.x, in_gradient, accumulate);
    } else {
      loops::add(s.type, s.x_values(), b.x, in_gradient, in_gradient);
    }
  });
  sum_tree(pool, s.shards(), gradient, partials);
  s.library.unpack_gradient(partials, weight_gradient);
}

}  // namespace lpmm::kernels
