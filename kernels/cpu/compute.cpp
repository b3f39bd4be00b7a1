// Cuts the compute layer's work into shards that depend on shapes only, and merges partial sums in a fixed
// order.
#include "kernels/compute.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/codec.h"
#include "kernels/cpu/compute_backend.h"
#include "kernels/cpu/compute_loops.h"
#include "kernels/cpu/cut.h"

namespace lpmm::kernels {
namespace {

// Activations one by one, for the small loops.
float get(Compute type, const void* p, std::int64_t i) {
  return type == Compute::kFp32 ? static_cast<const float*>(p)[i]
                                : bf16_to_float(static_cast<const std::uint16_t*>(p)[i]);
}
void put(Compute type, void* p, std::int64_t i, float v) {
  if (type == Compute::kFp32) {
    static_cast<float*>(p)[i] = v;
  } else {
    static_cast<std::uint16_t*>(p)[i] = float_to_bf16(v);
  }
}

}  // namespace

const char* compute_library() {
  return backend::name();
}

// ---- element loops ---------------------------------------------------------------------------------------
void to_float(Pool& pool, Compute type, std::int64_t count, const void* in, float* out) {
  for_shards(pool, count, kShard, [&](std::int64_t first, std::int64_t n) {
    loops::to_float(type, n, bytes_at(in, first * value_bytes(type)), out + first);
  });
}
void from_float(Pool& pool, Compute type, std::int64_t count, const float* in, void* out) {
  for_shards(pool, count, kShard, [&](std::int64_t first, std::int64_t n) {
    loops::from_float(type, n, in + first, bytes_at(out, first * value_bytes(type)), false);
  });
}
void relu_forward(Pool& pool, Compute type, std::int64_t count, const void* x, void* y) {
  const std::int64_t b = value_bytes(type);
  for_shards(pool, count, kShard, [&](std::int64_t first, std::int64_t n) {
    loops::relu_forward(type, n, bytes_at(x, first * b), bytes_at(y, first * b));
  });
}
void relu_backward(Pool& pool, Compute type, std::int64_t count, const void* y, const void* dy, void* dx,
                   bool accumulate) {
  const std::int64_t b = value_bytes(type);
  for_shards(pool, count, kShard, [&](std::int64_t first, std::int64_t n) {
    loops::relu_backward(type, n, bytes_at(y, first * b), bytes_at(dy, first * b), bytes_at(dx, first * b),
                         accumulate);
  });
}
void add(Pool& pool, Compute type, std::int64_t count, const void* a, const void* b, void* y) {
  const std::int64_t w = value_bytes(type);
  for_shards(pool, count, kShard, [&](std::int64_t first, std::int64_t n) {
    loops::add(type, n, bytes_at(a, first * w), bytes_at(b, first * w), bytes_at(y, first * w));
  });
}
void copy_or_add(Pool& pool, Compute type, std::int64_t count, const void* src, void* dst, bool accumulate) {
  if (accumulate) return add(pool, type, count, src, dst, dst);
  for_shards(pool, count, kShard, [&](std::int64_t first, std::int64_t n) {
    std::memcpy(bytes_at(dst, first * value_bytes(type)), bytes_at(src, first * value_bytes(type)),
                static_cast<std::size_t>(n * value_bytes(type)));
  });
}

// ---- convolution -----------------------------------------------------------------------------------------
namespace {

// Images a shard: the largest divisor of the batch whose fp32 input and output stay near the L2 cache.
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

// ---- matrix product --------------------------------------------------------------------------------------
namespace {

// A factor of a product, op(values).
struct Factor {
  Compute type = Compute::kFp32;
  const void* values = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;

  Factor at(std::int64_t row, std::int64_t column) const {
    return {
        type,
        bytes_at(values, (transposed ? column * stride + row : row * stride + column) * value_bytes(type)),
        stride, transposed};
  }
  // An fp32 copy of its first rows and columns, without transposition.
  template <std::int64_t kStride>
  Factor packed(std::int64_t rows, std::int64_t columns, float (*to)[kStride]) const {
    const auto line = [&](std::int64_t i) { return bytes_at(values, i * stride * value_bytes(type)); };
    if (!transposed) {
      for (std::int64_t r = 0; r < rows; ++r) loops::to_float(type, columns, line(r), to[r]);
    } else if (type == Compute::kFp32) {
      loops::transpose(columns, rows, static_cast<const float*>(values), stride, to[0], kStride);
    } else {
      constexpr std::int64_t kStrip = 16;
      alignas(kAlign) float strip[kStrip][kStride];
      for (std::int64_t c = 0; c < columns; c += kStrip) {
        const std::int64_t n = std::min(kStrip, columns - c);
        for (std::int64_t i = 0; i < n; ++i) loops::to_float(type, rows, line(c + i), strip[i]);
        loops::transpose(n, rows, strip[0], kStride, to[0] + c, kStride);
      }
    }
    return {Compute::kFp32, to[0], kStride, false};
  }
};

// Libraries read small factors where they lie. That is slow down the columns of the first, and along rows a
// page apart: factors are copied piece by piece then, and where they have to be widened. Strides are odd
// multiples of a cache line.
struct PackedPieces {
  static constexpr std::int64_t kSide = 256, kStride = kSide + 16, kPage = 1024;
  alignas(kAlign) float a[kSide][kStride], b[kSide][kStride];
};

bool is_widened(Compute type) {
  return type == Compute::kBf16 && !backend::multiplies_bf16();
}
// Whether each value of a copy is used often enough.
bool packing_pays(std::int64_t m, std::int64_t n) {
  return std::min(m, n) >= 32;
}

std::int64_t tiles_of(const MatrixArgs& g, std::int64_t rows, std::int64_t columns) {
  return ((g.m + rows - 1) / rows) * ((g.n + columns - 1) / columns);
}

}  // namespace

std::int64_t matmul_scratch_bytes(Compute type, std::int64_t m, std::int64_t n, int threads) {
  const bool packs = is_widened(type) || (type == Compute::kFp32 && packing_pays(m, n));
  return packs ? threads * static_cast<std::int64_t>(sizeof(PackedPieces)) : 0;
}

void matmul(Pool& pool, const MatrixArgs& g, void* scratch) {
  using Pieces = PackedPieces;
  const Factor a{g.type, g.a, g.a_stride, g.transpose_a}, b{g.type, g.b, g.b_stride, g.transpose_b};
  const bool pack = is_widened(g.type) || (g.type == Compute::kFp32 && packing_pays(g.m, g.n) &&
                                           (a.transposed || std::max(a.stride, b.stride) >= Pieces::kPage));
  // Tiles of c, and slices of k: large ones where that leaves work for some threads.
  std::int64_t rows = Pieces::kSide, columns = pack ? Pieces::kSide : 2 * Pieces::kSide,
               depth = pack ? Pieces::kSide : g.k;
  if (pack || g.type == Compute::kBf16) {
    while (columns > 64 && tiles_of(g, rows, columns) < 8) (columns < rows ? rows : columns) /= 2;
  } else {
    const std::int64_t size = std::max(g.m, g.n), panel = size <= 1024 ? 64 : 256;
    rows = g.m > g.n ? panel : g.m;
    columns = g.m > g.n ? g.n : panel;
  }
  const std::int64_t across = (g.n + columns - 1) / columns;
  pool.for_each(tiles_of(g, rows, columns), [&](std::int64_t item, int thread) {
    const std::int64_t row = item / across * rows, column = item % across * columns;
    MatrixArgs part{.m = std::min(rows, g.m - row),
                    .n = std::min(columns, g.n - column),
                    .c = g.c + row * g.c_stride + column,
                    .c_stride = g.c_stride};
    for (std::int64_t first = 0; first < g.k; first += depth) {
      part.k = std::min(depth, g.k - first);
      part.accumulate = g.accumulate || first > 0;
      Factor left = a.at(row, first), right = b.at(first, column);
      if (pack) {
        auto& pieces = static_cast<Pieces*>(scratch)[thread];
        left = left.packed(part.m, part.k, pieces.a);
        right = right.packed(part.k, part.n, pieces.b);
      }
      part.type = left.type;
      part.transpose_a = left.transposed;
      part.a = left.values;
      part.a_stride = left.stride;
      part.transpose_b = right.transposed;
      part.b = right.values;
      part.b_stride = right.stride;
      backend::matmul(part);
    }
  });
}

namespace backend {

Widened::Widened(const MatrixArgs& of) : args(of) {
  const auto widen = [](const void* from, std::int64_t lines, std::int64_t values, std::int64_t& stride,
                        std::vector<float>& to) {
    to.resize(static_cast<std::size_t>(lines * values));
    for (std::int64_t i = 0; i < lines; ++i) {
      loops::to_float(Compute::kBf16, values, bytes_at(from, 2 * i * stride), to.data() + i * values);
    }
    stride = values;
    return to.data();
  };
  args.type = Compute::kFp32;
  args.a = widen(of.a, of.transpose_a ? of.k : of.m, of.transpose_a ? of.m : of.k, args.a_stride, a);
  args.b = widen(of.b, of.transpose_b ? of.n : of.k, of.transpose_b ? of.k : of.n, args.b_stride, b);
}

}  // namespace backend

void bias_forward(Pool& pool, Compute type, std::int64_t rows, std::int64_t columns, const float* x,
                  const float* bias, bool relu, void* y) {
  for_shards(pool, rows, std::max<std::int64_t>(1, kShard / columns),
             [&](std::int64_t first, std::int64_t n) {
               loops::bias_forward(type, n, columns, x + first * columns, bias, relu,
                                   bytes_at(y, first * columns * value_bytes(type)));
             });
}

const void* bias_backward(Pool& pool, Compute type, std::int64_t rows, std::int64_t columns, const void* y,
                          const void* dy, bool relu, void* g, float* bias_gradient) {
  const void* out = relu ? g : dy;
  for_shards(pool, columns, 256, [&](std::int64_t first, std::int64_t n) {
    std::fill_n(bias_gradient + first, n, 0.0F);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = (r * columns + first) * value_bytes(type);
      if (relu) loops::relu_backward(type, n, bytes_at(y, at), bytes_at(dy, at), bytes_at(g, at), false);
      loops::add_row(type, n, bytes_at(out, at), bias_gradient + first);
    }
  });
  return out;
}

// ---- batch norm ------------------------------------------------------------------------------------------
namespace {

// At most 2048 rows a shard: partial sums are fp32.
std::int64_t norm_rows(const NormShape& s) {
  return std::clamp<std::int64_t>(kShard / s.channels, 1, 2048);
}
std::int64_t norm_shards(const NormShape& s) {
  return (s.rows + norm_rows(s) - 1) / norm_rows(s);
}

}  // namespace

// Two partial sums a shard and channel; three coefficients a channel.
std::int64_t norm_scratch_bytes(const NormShape& shape) {
  return aligned(4 * (2 * norm_shards(shape) + 3) * shape.channels);
}

void norm_statistics(Pool& pool, const NormShape& s, const void* x, float* mean, float* variance,
                     void* scratch) {
  auto* partials = static_cast<float*>(scratch);  // [shard][mean, squares][channel]
  const std::int64_t rows = norm_rows(s), row_bytes = s.channels * value_bytes(s.type);
  for_shards(pool, s.rows, rows, [&](std::int64_t first, std::int64_t n) {
    float* p = partials + first / rows * 2 * s.channels;
    loops::norm_statistics(s.type, n, s.channels, bytes_at(x, first * row_bytes), p, p + s.channels);
  });
  for (int c = 0; c < s.channels; ++c) {
    double count = 0, center = 0, squares = 0;
    for (std::int64_t i = 0; i < norm_shards(s); ++i) {
      const float* p = partials + i * 2 * s.channels + c;
      const auto n = static_cast<double>(std::min(rows, s.rows - i * rows));
      const double delta = p[0] - center;
      squares += p[s.channels] + delta * delta * count * n / (count + n);
      center += delta * n / (count + n);
      count += n;
    }
    mean[c] = static_cast<float>(center);
    variance[c] = static_cast<float>(std::max(squares, 0.0) / count);
  }
}

void norm_apply(Pool& pool, const NormShape& s, const void* x, const float* scale, const float* shift,
                const void* residual, bool relu, void* y) {
  const std::int64_t row_bytes = s.channels * value_bytes(s.type);
  for_shards(pool, s.rows, norm_rows(s), [&](std::int64_t first, std::int64_t n) {
    loops::norm_apply(s.type, n, s.channels, bytes_at(x, first * row_bytes), scale, shift,
                      residual == nullptr ? nullptr : bytes_at(residual, first * row_bytes), relu,
                      bytes_at(y, first * row_bytes));
  });
}

// With r = 1 / deviation and M rows: dx = weight * r * (g - sum g / M - (x - mean) * r^2 * sum g (x - mean) /
// M).
void norm_backward(Pool& pool, const NormShape& s, const NormBackward& args, void* scratch) {
  auto* partials = static_cast<float*>(scratch);  // [shard][sum g, sum gx][channel]
  const std::int64_t rows = norm_rows(s), shards = norm_shards(s);
  for_shards(pool, s.rows, rows, [&](std::int64_t first, std::int64_t n) {
    float* p = partials + first / rows * 2 * s.channels;
    loops::norm_reduce(n, s, args, first, p, p + s.channels);
  });
  float* a = partials + 2 * shards * s.channels;
  float* b = a + s.channels;
  float* d = b + s.channels;
  for (int c = 0; c < s.channels; ++c) {
    double sum = 0, sum_x = 0;
    for (std::int64_t i = 0; i < shards; ++i) {
      sum += partials[i * 2 * s.channels + c];
      sum_x += partials[i * 2 * s.channels + s.channels + c];
    }
    const double r = args.inverse_deviation[c], count = static_cast<double>(s.rows);
    const double slope = args.weight[c] * r * r * r * sum_x / count;
    a[c] = static_cast<float>(args.weight[c] * r);
    b[c] = static_cast<float>(-slope);
    d[c] = static_cast<float>(slope * args.mean[c] - args.weight[c] * r * sum / count);
    args.weight_gradient[c] = static_cast<float>(sum_x * r);
    args.bias_gradient[c] = static_cast<float>(sum);
  }
  if (args.dx == nullptr) return;
  for_shards(pool, s.rows, rows,
             [&](std::int64_t first, std::int64_t n) { loops::norm_backward(n, s, args, first, a, b, d); });
}

// ---- pooling and shortcut --------------------------------------------------------------------------------
namespace {

// Calls body(channel-0 index of the output pixel, top, left) for each output pixel of one image.
template <class Body>
void each_window(const PoolShape& s, int image, const Body& body) {
  std::int64_t out = std::int64_t{1} * image * s.out_height() * s.out_width() * s.channels;
  for (int y = 0; y < s.out_height(); ++y) {
    for (int x = 0; x < s.out_width(); ++x, out += s.channels) body(out, y * s.stride, x * s.stride);
  }
}
std::int64_t pixel(const PoolShape& s, int image, int y, int x) {
  return ((std::int64_t{1} * image * s.height + y) * s.width + x) * s.channels;
}
// Sets the values of one image to 0 unless the gradient accumulates.
void clear_image(Compute type, std::int64_t values, int image, void* dx, bool accumulate) {
  if (!accumulate) {
    std::memset(bytes_at(dx, image * values * value_bytes(type)), 0,
                static_cast<std::size_t>(values * value_bytes(type)));
  }
}
// The first index of the window's maximum.
std::int64_t maximum_at(const PoolShape& s, Compute type, const void* x, int image, int top, int left,
                        int c) {
  std::int64_t best = pixel(s, image, top, left) + c;
  for (int ky = 0; ky < s.kernel; ++ky) {
    for (int kx = 0; kx < s.kernel; ++kx) {
      const std::int64_t i = pixel(s, image, top + ky, left + kx) + c;
      const float v = get(type, x, i);
      if (v > get(type, x, best) || v != v) best = i;
    }
  }
  return best;
}

}  // namespace

void average_pool_forward(Pool& pool, const PoolShape& s, Compute type, const void* x, void* y) {
  const float share = 1.0F / static_cast<float>(s.kernel * s.kernel);
  pool.for_each(s.batch, [&](std::int64_t item, int) {
    const int image = static_cast<int>(item);
    each_window(s, image, [&](std::int64_t out, int top, int left) {
      for (int c = 0; c < s.channels; ++c) {
        float sum = 0;
        for (int ky = 0; ky < s.kernel; ++ky) {
          for (int kx = 0; kx < s.kernel; ++kx) sum += get(type, x, pixel(s, image, top + ky, left + kx) + c);
        }
        put(type, y, out + c, sum * share);
      }
    });
  });
}

void average_pool_backward(Pool& pool, const PoolShape& s, Compute type, const void* dy, void* dx,
                           bool accumulate) {
  const float share = 1.0F / static_cast<float>(s.kernel * s.kernel);
  pool.for_each(s.batch, [&](std::int64_t item, int) {
    const int image = static_cast<int>(item);
    clear_image(type, std::int64_t{1} * s.height * s.width * s.channels, image, dx, accumulate);
    each_window(s, image, [&](std::int64_t out, int top, int left) {
      for (int ky = 0; ky < s.kernel; ++ky) {
        for (int kx = 0; kx < s.kernel; ++kx) {
          const std::int64_t in = pixel(s, image, top + ky, left + kx);
          for (int c = 0; c < s.channels; ++c) {
            put(type, dx, in + c, get(type, dx, in + c) + get(type, dy, out + c) * share);
          }
        }
      }
    });
  });
}

void max_pool_forward(Pool& pool, const PoolShape& s, Compute type, const void* x, void* y) {
  pool.for_each(s.batch, [&](std::int64_t item, int) {
    const int image = static_cast<int>(item);
    each_window(s, image, [&](std::int64_t out, int top, int left) {
      for (int c = 0; c < s.channels; ++c) {
        put(type, y, out + c, get(type, x, maximum_at(s, type, x, image, top, left, c)));
      }
    });
  });
}

void max_pool_backward(Pool& pool, const PoolShape& s, Compute type, const void* x, const void* dy, void* dx,
                       bool accumulate) {
  pool.for_each(s.batch, [&](std::int64_t item, int) {
    const int image = static_cast<int>(item);
    clear_image(type, std::int64_t{1} * s.height * s.width * s.channels, image, dx, accumulate);
    each_window(s, image, [&](std::int64_t out, int top, int left) {
      for (int c = 0; c < s.channels; ++c) {
        const std::int64_t in = maximum_at(s, type, x, image, top, left, c);
        put(type, dx, in, get(type, dx, in) + get(type, dy, out + c));
      }
    });
  });
}

void shortcut_forward(Pool& pool, const ShortcutShape& s, Compute type, const void* x, void* y) {
  const std::int64_t b = value_bytes(type), front = (s.out - s.in) / 2;
  const std::int64_t row = std::int64_t{1} * s.out_width() * s.out * b;
  pool.for_each(std::int64_t{1} * s.batch * s.out_height(), [&](std::int64_t item, int) {
    const std::int64_t image = item / s.out_height(), top = item % s.out_height() * s.stride;
    std::byte* out = bytes_at(y, item * row);
    std::memset(out, 0, static_cast<std::size_t>(row));
    for (int ox = 0; ox < s.out_width(); ++ox) {
      const std::int64_t in = ((image * s.height + top) * s.width + std::int64_t{1} * ox * s.stride) * s.in;
      std::memcpy(out + (std::int64_t{1} * ox * s.out + front) * b, bytes_at(x, in * b),
                  static_cast<std::size_t>(s.in * b));
    }
  });
}

void shortcut_backward(Pool& pool, const ShortcutShape& s, Compute type, const void* dy, void* dx,
                       bool accumulate) {
  const std::int64_t b = value_bytes(type), front = (s.out - s.in) / 2;
  pool.for_each(s.batch, [&](std::int64_t image, int) {
    clear_image(type, std::int64_t{1} * s.height * s.width * s.in, static_cast<int>(image), dx, accumulate);
    for (int oy = 0; oy < s.out_height(); ++oy) {
      for (int ox = 0; ox < s.out_width(); ++ox) {
        const std::int64_t out = ((image * s.out_height() + oy) * s.out_width() + ox) * s.out + front;
        const std::int64_t in = ((image * s.height + std::int64_t{1} * oy * s.stride) * s.width +
                                 std::int64_t{1} * ox * s.stride) *
                                s.in;
        loops::add(type, s.in, bytes_at(dx, in * b), bytes_at(dy, out * b), bytes_at(dx, in * b));
      }
    }
  });
}

// ---- loss ------------------------------------------------------------------------------------------------
namespace {

struct Row {
  int best = 0;
  double maximum = 0, log_sum = 0, mean = 0;  // log_sum = log of the sum of exp(logit)
};
Row look_at(const LossShape& s, Compute type, const void* logits, std::int64_t row) {
  Row r;
  const std::int64_t at = row * s.classes;
  for (int c = 0; c < s.classes; ++c) {
    const double v = get(type, logits, at + c);
    r.mean += v / s.classes;
    if (c == 0 || v > r.maximum) {
      r.best = c;
      r.maximum = v;
    }
  }
  double sum = 0;
  for (int c = 0; c < s.classes; ++c) sum += std::exp(get(type, logits, at + c) - r.maximum);
  r.log_sum = r.maximum + std::log(sum);
  return r;
}

}  // namespace

LossResult softmax_loss(const LossShape& s, Compute type, const void* logits, const std::int32_t* labels) {
  LossResult result;
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const Row row = look_at(s, type, logits, i);
    const double target = get(type, logits, i * s.classes + labels[i]);
    result.sum += row.log_sum - (1 - s.smoothing) * target - s.smoothing * row.mean;
    result.correct += row.best == labels[i] ? 1 : 0;
  }
  return result;
}

void softmax_loss_backward(const LossShape& s, Compute type, const void* logits, const std::int32_t* labels,
                           void* dlogits) {
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const Row row = look_at(s, type, logits, i);
    for (int c = 0; c < s.classes; ++c) {
      const double wanted = (c == labels[i] ? 1 - s.smoothing : 0) + s.smoothing / s.classes;
      const double p = std::exp(get(type, logits, i * s.classes + c) - row.log_sum);
      put(type, dlogits, i * s.classes + c, static_cast<float>((p - wanted) / static_cast<double>(s.rows)));
    }
  }
}

}  // namespace lpmm::kernels
