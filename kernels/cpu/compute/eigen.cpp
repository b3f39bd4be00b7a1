// The portable fallback: im2col and Eigen's matrix product, one thread per call.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <cstring>
#include <string>

#include "kernels/cpu/compute/backend.h"

namespace lpmm::kernels::backend {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
using Map = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;

}  // namespace

const char* name() {
  static const std::string kName = "Eigen " + std::to_string(EIGEN_WORLD_VERSION) + "." +
                                   std::to_string(EIGEN_MAJOR_VERSION) + "." +
                                   std::to_string(EIGEN_MINOR_VERSION);
  return kName.c_str();
}

void matmul(const MatrixArgs& g) {
  if (g.type == ValueType::kBf16) return matmul(Widened(g).args);
  const ConstMap a(static_cast<const float*>(g.a), g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k,
                   Eigen::OuterStride<>(g.a_stride));
  const ConstMap b(static_cast<const float*>(g.b), g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n,
                   Eigen::OuterStride<>(g.b_stride));
  Map c(static_cast<float*>(g.c), g.m, g.n, Eigen::OuterStride<>(g.c_stride));
  if (!g.accumulate) c.setZero();
  if (g.transpose_a && g.transpose_b) {
    c.noalias() += a.transpose() * b.transpose();
  } else if (g.transpose_a) {
    c.noalias() += a.transpose() * b;
  } else if (g.transpose_b) {
    c.noalias() += a * b.transpose();
  } else {
    c.noalias() += a * b;
  }
}

bool& multiplies_bf16() {
  static bool does = false;
  return does;
}

struct ShardConvolution::State {
  ConvShape shape;
  std::int64_t pixels() const { return std::int64_t{1} * shape.out_height() * shape.out_width(); }
  std::int64_t taps() const { return std::int64_t{1} * shape.kernel * shape.kernel * shape.in; }

  // Calls body(column, pixel) for every row piece of `in` values: column null where it is padding.
  template <class Image, class Body>
  void each_tap(Image* image, float* columns, Body body) const {
    for (int oy = 0; oy < shape.out_height(); ++oy) {
      for (int ox = 0; ox < shape.out_width(); ++ox) {
        for (int ky = 0; ky < shape.kernel; ++ky) {
          for (int kx = 0; kx < shape.kernel; ++kx, columns += shape.in) {
            const int y = oy * shape.stride + ky - shape.pad, x = ox * shape.stride + kx - shape.pad;
            const bool inside = y >= 0 && y < shape.height && x >= 0 && x < shape.width;
            body(columns, inside ? image + (std::int64_t{1} * y * shape.width + x) * shape.in : nullptr);
          }
        }
      }
    }
  }
  void to_columns(const float* image, float* columns) const {
    const auto n = static_cast<std::size_t>(shape.in);
    each_tap(image, columns, [n](float* column, const float* pixel) {
      pixel != nullptr ? std::memcpy(column, pixel, 4 * n) : std::memset(column, 0, 4 * n);
    });
  }
  // OIHW <-> OHWI, the order of the columns.
  template <class Body>
  void each_weight(Body body) const {
    const int kk = shape.kernel * shape.kernel;
    for (int o = 0; o < shape.out; ++o) {
      for (int i = 0; i < shape.in; ++i) {
        for (int k = 0; k < kk; ++k) {
          body((std::int64_t{1} * o * shape.in + i) * kk + k, (std::int64_t{1} * o * kk + k) * shape.in + i);
        }
      }
    }
  }
};

bool ShardConvolution::has_native_bf16(const ConvShape& /*shape*/) {
  return false;
}

ShardConvolution::ShardConvolution(const ConvShape& shape, bool /*native_bf16*/, int /*threads*/)
    : state_(std::make_unique<State>(State{shape})) {}
ShardConvolution::~ShardConvolution() = default;

std::int64_t ShardConvolution::packed_forward_bytes() const {
  return 4 * state_->shape.weights();
}
std::int64_t ShardConvolution::packed_backward_bytes() const {
  return 4 * state_->shape.weights();
}
void ShardConvolution::pack_forward(const float* oihw, void* packed) const {
  auto* out = static_cast<float*>(packed);
  state_->each_weight([&](std::int64_t from, std::int64_t to) { out[to] = oihw[from]; });
}
void ShardConvolution::pack_backward(const float* oihw, void* packed) const {
  pack_forward(oihw, packed);
}
std::int64_t ShardConvolution::gradient_floats() const {
  return state_->shape.weights();
}
void ShardConvolution::unpack_gradient(const float* packed, float* oihw) const {
  state_->each_weight([&](std::int64_t to, std::int64_t from) { oihw[to] = packed[from]; });
}
std::int64_t ShardConvolution::scratch_bytes() const {
  return 4 * state_->pixels() * state_->taps();
}

void ShardConvolution::forward(int /*thread*/, const void* x, const void* packed, void* y,
                               void* scratch) const {
  const State& s = *state_;
  auto* columns = static_cast<float*>(scratch);
  for (int i = 0; i < s.shape.batch; ++i) {
    s.to_columns(static_cast<const float*>(x) + i * s.shape.in_values(), columns);
    matmul({.transpose_b = true,
            .m = s.pixels(),
            .n = s.shape.out,
            .k = s.taps(),
            .a = columns,
            .a_stride = s.taps(),
            .b = static_cast<const float*>(packed),
            .b_stride = s.taps(),
            .c = static_cast<float*>(y) + i * s.shape.out_values(),
            .c_stride = s.shape.out});
  }
}

void ShardConvolution::backward_data(int /*thread*/, const void* dy, const void* packed, void* dx,
                                     void* scratch) const {
  const State& s = *state_;
  auto* columns = static_cast<float*>(scratch);
  for (int i = 0; i < s.shape.batch; ++i) {
    matmul({.m = s.pixels(),
            .n = s.taps(),
            .k = s.shape.out,
            .a = static_cast<const float*>(dy) + i * s.shape.out_values(),
            .a_stride = s.shape.out,
            .b = static_cast<const float*>(packed),
            .b_stride = s.taps(),
            .c = columns,
            .c_stride = s.taps()});
    float* image = static_cast<float*>(dx) + i * s.shape.in_values();
    std::memset(image, 0, 4 * static_cast<std::size_t>(s.shape.in_values()));
    s.each_tap(image, columns, [&s](const float* column, float* pixel) {
      for (int c = 0; pixel != nullptr && c < s.shape.in; ++c) pixel[c] += column[c];
    });
  }
}

void ShardConvolution::backward_weights(int /*thread*/, const void* x, const void* dy, float* gradient,
                                        void* scratch) const {
  const State& s = *state_;
  auto* columns = static_cast<float*>(scratch);
  for (int i = 0; i < s.shape.batch; ++i) {
    s.to_columns(static_cast<const float*>(x) + i * s.shape.in_values(), columns);
    matmul({.transpose_a = true,
            .m = s.shape.out,
            .n = s.taps(),
            .k = s.pixels(),
            .a = static_cast<const float*>(dy) + i * s.shape.out_values(),
            .a_stride = s.shape.out,
            .b = columns,
            .b_stride = s.taps(),
            .c = gradient,
            .c_stride = s.taps(),
            .accumulate = i > 0});
  }
}

}  // namespace lpmm::kernels::backend
