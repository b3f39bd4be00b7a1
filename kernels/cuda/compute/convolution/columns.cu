// Convolution as matrix products over columns: each output pixel's window of the input becomes a row. Images
// go in chunks, so that the columns stay small; the weight gradient is accumulated from chunk to chunk.
#include <algorithm>

#include "kernels/cuda/compute/convolution/convolution.h"
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

#if defined(__CUDACC__)
constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;
#else
constexpr std::int64_t kChunkBytes = std::int64_t{64} << 10;  // small images too go in several chunks
#endif

// Rows of columns are padded with zeros, so that the rows of every factor are aligned.
constexpr int kPadding = 8;

// A value of columns or weights: of window position (ky, kx), input channel; past the last one is padding.
struct Tap {
  int ky, kx, channel;
  LPMM_HD static Tap of(const ConvShape& s, std::int64_t column) {
    const int in = static_cast<int>(column), position = in / s.in;
    return {position / s.kernel, position % s.kernel, in % s.in};
  }
  LPMM_HD bool is_padding(const ConvShape& s) const { return ky >= s.kernel; }
  LPMM_HD void next(const ConvShape& s) {
    if (++channel < s.in) return;
    channel = 0;
    if (++kx < s.kernel) return;
    kx = 0;
    ++ky;
  }
};

// OIHW to rows of (ky, kx, in), and back.
struct WeightRows {
  ConvShape s;
  const float* weights;
  LPMM_HD float operator()(const Place& at) const {
    const Tap tap = Tap::of(s, at.column);
    if (tap.is_padding(s)) return 0.0F;
    return weights[((at.row * s.in + tap.channel) * s.kernel + tap.ky) * s.kernel + tap.kx];
  }
};
struct FromWeightRows {
  ConvShape s;
  std::int64_t depth;
  const float* rows;
  LPMM_HD float operator()(const Place& at) const {  // (out, in ky kx)
    const int column = static_cast<int>(at.column), area = s.kernel * s.kernel;
    return rows[at.row * depth + std::int64_t{1} * (column % area) * s.in + column / area];
  }
};

// Eight channels of a pixel lie together in memory that is aligned.
bool has_wide_pixels(const ConvShape& s, const void* pixels) {
  return s.in % kVector == 0 && is_aligned(pixels);
}

// im2col: row (image, oy, ox), column a tap.
template <class Cell>
struct Columns {
  static constexpr bool is_wide = kPadding % kVector == 0;
  ConvShape s;
  const Cell* x;
  bool has_vectors;
  // A row's window.
  struct Window {
    const Cell* image;
    int y, x;
    LPMM_HD const Cell* at(const ConvShape& s, const Tap& tap) const {  // null outside of the image
      const int ty = y + tap.ky, tx = x + tap.kx;
      if (tap.is_padding(s) || ty < 0 || ty >= s.height || tx < 0 || tx >= s.width) return nullptr;
      return image + (std::int64_t{1} * ty * s.width + tx) * s.in + tap.channel;
    }
  };
  LPMM_HD Window window(std::int64_t row) const {
    const Place line = Place::of(row, s.out_width()), of = Place::of(line.row, s.out_height());
    return {x + of.row * s.height * s.width * s.in, static_cast<int>(of.column) * s.stride - s.pad,
            static_cast<int>(line.column) * s.stride - s.pad};
  }
  LPMM_HD float operator()(const Place& at) const {
    const Cell* const from = window(at.row).at(s, Tap::of(s, at.column));
    return from == nullptr ? 0.0F : load(from);
  }
  LPMM_HD Values wide(const Place& at) const {
    const Window of = window(at.row);
    Tap tap = Tap::of(s, at.column);
    Values values = {};
    if (has_vectors) {
      const Cell* const from = of.at(s, tap);
      if (from != nullptr) load_vector(from, values.v);
      return values;
    }
    for (int i = 0; i < kVector; ++i, tap.next(s)) {
      const Cell* const from = of.at(s, tap);
      if (from != nullptr) values.v[i] = load(from);
    }
    return values;
  }
};
// col2im, which gathers: what the windows that hold an input pixel have for it, first positions first.
struct FromColumns {
  ConvShape s;
  std::int64_t depth;
  const float* columns;
  bool is_wide;
  // Calls body with where each window has its value.
  template <class Body>
  LPMM_HD void for_windows(const Place& at, const Body& body) const {  // (image y x, in)
    const Place line = Place::of(at.row, s.width), image = Place::of(line.row, s.height);
    for (int ky = 0; ky < s.kernel; ++ky) {
      const int y = static_cast<int>(image.column) + s.pad - ky, oy = y / s.stride;
      if (y < 0 || oy * s.stride != y || oy >= s.out_height()) continue;
      for (int kx = 0; kx < s.kernel; ++kx) {
        const int x = static_cast<int>(line.column) + s.pad - kx, ox = x / s.stride;
        if (x < 0 || ox * s.stride != x || ox >= s.out_width()) continue;
        const std::int64_t pixel = (image.row * s.out_height() + oy) * s.out_width() + ox;
        body(columns + pixel * depth + std::int64_t{1} * (ky * s.kernel + kx) * s.in + at.column);
      }
    }
  }
  LPMM_HD float operator()(const Place& at) const {
    float sum = 0;
    for_windows(at, [&](const float* from) { sum += *from; });
    return sum;
  }
  LPMM_HD Values wide(const Place& at) const {
    Values sums = {};
    for_windows(at, [&](const float* from) {
      float values[kVector];
      load_vector(from, values);
      for (int i = 0; i < kVector; ++i) sums.v[i] += values[i];
    });
    return sums;
  }
};

class CudaConvolution final : public Convolution {
 public:
  CudaConvolution(CudaDevice& device, const ConvShape& s, ValueType type)
      : device_(device),
        shape_(s),
        type_(type),
        // A window of one pixel is the pixel.
        is_pointwise_(s.kernel == 1 && s.stride == 1 && s.pad == 0),
        pixels_(std::int64_t{1} * s.out_height() * s.out_width()),
        taps_(std::int64_t{1} * s.kernel * s.kernel * s.in),
        depth_(is_pointwise_ ? s.in : (taps_ + kPadding - 1) / kPadding * kPadding),
        chunk_(std::clamp<std::int64_t>(kChunkBytes / (4 * pixels_ * (depth_ + s.out)), 1, s.batch)) {}

  std::int64_t scratch_bytes() const override { return matmul_at() + matmul_bytes(); }
  void forward(const void* x, const float* weights, void* y, void* scratch) const override;
  void backward(const ConvolutionBackward& args, void* scratch) const override;

 private:
  Stream stream() const { return device_.stream(); }
  // Scratch: weights or their gradient as rows, columns or their gradient, the products' own.
  std::int64_t columns_at() const { return aligned(4 * shape_.out * depth_); }
  std::int64_t matmul_at() const { return columns_at() + aligned(4 * chunk_ * pixels_ * depth_); }
  std::int64_t matmul_bytes() const {
    const std::int64_t rows = chunk_ * pixels_;
    return std::max(
        {device_.matmul_scratch_bytes({.m = rows, .n = shape_.out, .type = type_, .c_type = type_}),
         device_.matmul_scratch_bytes({.m = shape_.out, .n = depth_, .type = type_}),
         device_.matmul_scratch_bytes({.m = rows, .n = depth_, .type = type_})});
  }
  static std::byte* at(void* scratch, std::int64_t offset) {
    return static_cast<std::byte*>(scratch) + offset;
  }
  const std::byte* image(const void* of, std::int64_t values, std::int64_t first) const {
    return static_cast<const std::byte*>(of) + first * values * value_bytes(type_);
  }
  // Calls body(first image, images) for the chunks.
  template <class Body>
  void for_chunks(const Body& body) const {
    for (std::int64_t first = 0; first < shape_.batch; first += chunk_) {
      body(first, std::min(chunk_, shape_.batch - first));
    }
  }
  void load_weights(const float* weights, void* scratch) const;
  const void* columns(const void* x, std::int64_t first, std::int64_t images, void* scratch) const;
  void data_gradient(const std::byte* dy, std::int64_t images, void* dx, bool accumulate,
                     void* scratch) const;

  CudaDevice& device_;
  ConvShape shape_;
  ValueType type_;
  bool is_pointwise_;
  std::int64_t pixels_, taps_, depth_, chunk_;
};

void CudaConvolution::load_weights(const float* weights, void* scratch) const {
  with_type(type_, [&]<class Cell>(Cell*) {
    map_matrix(stream(), shape_.out, depth_, WeightRows{shape_, weights}, static_cast<Cell*>(scratch), false);
  });
}
// The rows of a chunk of images.
const void* CudaConvolution::columns(const void* x, std::int64_t first, std::int64_t images,
                                     void* scratch) const {
  const std::byte* from = image(x, shape_.in_values(), first);
  if (is_pointwise_) return from;
  std::byte* to = at(scratch, columns_at());
  with_type(type_, [&]<class Cell>(Cell*) {
    map_matrix(stream(), images * pixels_, depth_,
               Columns<Cell>{shape_, reinterpret_cast<const Cell*>(from), has_wide_pixels(shape_, from)},
               reinterpret_cast<Cell*>(to), false);
  });
  return to;
}

void CudaConvolution::forward(const void* x, const float* weights, void* y, void* scratch) const {
  load_weights(weights, scratch);
  for_chunks([&](std::int64_t first, std::int64_t images) {
    device_.matmul({.transpose_b = true,
                    .m = images * pixels_,
                    .n = shape_.out,
                    .k = depth_,
                    .type = type_,
                    .a = columns(x, first, images, scratch),
                    .a_stride = depth_,
                    .b = scratch,
                    .b_stride = depth_,
                    .c = const_cast<std::byte*>(image(y, shape_.out_values(), first)),
                    .c_stride = shape_.out_stride(),
                    .c_type = type_},
                   at(scratch, matmul_at()));
  });
}

void CudaConvolution::backward(const ConvolutionBackward& args, void* scratch) const {
  if (args.dx != nullptr) {
    load_weights(args.weights, scratch);
    for_chunks([&](std::int64_t first, std::int64_t images) {
      data_gradient(image(args.dy, shape_.out_values(), first), images,
                    const_cast<std::byte*>(image(args.dx, shape_.in_values(), first)), args.accumulate,
                    scratch);
    });
  }
  auto* const rows = static_cast<float*>(scratch);  // the weights are no longer needed
  for_chunks([&](std::int64_t first, std::int64_t images) {
    device_.matmul({.transpose_a = true,
                    .m = shape_.out,
                    .n = depth_,
                    .k = images * pixels_,
                    .type = type_,
                    .a = image(args.dy, shape_.out_values(), first),
                    .a_stride = shape_.out_stride(),
                    .b = columns(args.x, first, images, scratch),
                    .b_stride = depth_,
                    .c = rows,
                    .c_stride = depth_,
                    .accumulate = first > 0},
                   at(scratch, matmul_at()));
  });
  map_matrix(stream(), shape_.out, taps_, FromWeightRows{shape_, depth_, rows}, args.weight_gradient, false);
}

void CudaConvolution::data_gradient(const std::byte* dy, std::int64_t images, void* dx, bool accumulate,
                                    void* scratch) const {
  const bool direct = is_pointwise_ && type_ == ValueType::kFp32;
  auto* const columns = reinterpret_cast<float*>(at(scratch, columns_at()));
  device_.matmul({.m = images * pixels_,
                  .n = depth_,
                  .k = shape_.out,
                  .type = type_,
                  .a = dy,
                  .a_stride = shape_.out_stride(),
                  .b = scratch,
                  .b_stride = depth_,
                  .c = direct ? dx : columns,
                  .c_stride = depth_,
                  .accumulate = direct && accumulate},
                 at(scratch, matmul_at()));
  if (direct) return;
  with_type(type_, [&]<class Cell>(Cell*) {
    auto* const to = static_cast<Cell*>(dx);
    const std::int64_t in_pixels = images * shape_.height * shape_.width;
    if (is_pointwise_) {
      map(stream(), in_pixels * shape_.in, Same{}, to, accumulate, static_cast<const float*>(columns));
    } else {
      map_matrix(stream(), in_pixels, shape_.in,
                 FromColumns{shape_, depth_, columns, has_wide_pixels(shape_, to)}, to, accumulate);
    }
  });
}

}  // namespace

std::unique_ptr<Convolution> CudaDevice::convolution(const ConvShape& shape, ValueType type) {
  if (has_tensor_cores_ && fits_tensor_cores(shape, type)) return convolution_on_tensor_cores(*this, shape);
  return std::make_unique<CudaConvolution>(*this, shape, type);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
