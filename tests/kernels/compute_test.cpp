// The compute layer of every device against plain double-precision loops, finite differences and closed
// forms.
#include "kernels/cpu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cpu/compute/backend.h"
#include "kernels/cpu/compute/loops.h"
#include "kernels/formats/codec.h"
#include "tests/kernels/activations.h"

namespace lpmm::kernels {
namespace {

LPMM_DEVICE_SUITE(ConvolutionTest, kWithoutCudnn);
LPMM_DEVICE_SUITE(MatmulTest);
LPMM_DEVICE_SUITE(BiasTest);
LPMM_DEVICE_SUITE(BatchNormTest);
LPMM_DEVICE_SUITE(ElementsTest);
LPMM_DEVICE_SUITE(PoolingTest);
LPMM_DEVICE_SUITE(LossTest);

// ---- convolution -----------------------------------------------------------------------------------------
struct ConvReference {
  std::vector<double> y, dx, dw;
};
ConvReference plain_convolution(const ConvShape& s, const Floats& x, const Floats& w, const Floats& dy) {
  ConvReference r;
  r.y.resize(static_cast<std::size_t>(s.batch * s.out_values()));
  r.dx.resize(x.size());
  r.dw.resize(w.size());
  std::size_t at = 0;
  for (int n = 0; n < s.batch; ++n) {
    for (int oy = 0; oy < s.out_height(); ++oy) {
      for (int ox = 0; ox < s.out_width(); ++ox) {
        for (int o = 0; o < s.out; ++o, ++at) {
          for (int c = 0; c < s.in; ++c) {
            for (int ky = 0; ky < s.kernel; ++ky) {
              for (int kx = 0; kx < s.kernel; ++kx) {
                const int iy = oy * s.stride + ky - s.pad, ix = ox * s.stride + kx - s.pad;
                if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
                const auto xi = static_cast<std::size_t>(((n * s.height + iy) * s.width + ix) * s.in + c);
                const auto wi = static_cast<std::size_t>(((o * s.in + c) * s.kernel + ky) * s.kernel + kx);
                r.y[at] += 1.0 * x[xi] * w[wi];
                r.dx[xi] += 1.0 * dy[at] * w[wi];
                r.dw[wi] += 1.0 * dy[at] * x[xi];
              }
            }
          }
        }
      }
    }
  }
  return r;
}

TEST_P(ConvolutionTest, EqualsPlainLoops) {
  // For the last two shapes, the emulated device cuts the images into chunks.
  const ConvShape shapes[] = {
      {6, 8, 8, 16, 16, 3, 1, 1},
      {4, 8, 8, 16, 32, 3, 2, 1},
      {5, 6, 6, 3, 16, 3, 1, 1},
      {3, 7, 5, 5, 7, 3, 2, 1},
      {2, 5, 5, 8, 8, 1, 1, 0},
      {3, 6, 6, 4, 8, 1, 2, 0},
      {1, 9, 9, 2, 3, 5, 2, 2},
      {7, 12, 12, 4, 5, 3, 1, 1},
      {5, 16, 16, 16, 8, 1, 1, 0},
      // Tensor cores take those of channels in eights: ends of tiles, of shards and of images; strides.
      {3, 9, 7, 24, 40, 3, 1, 1},
      {2, 7, 9, 8, 72, 3, 2, 1},
      {2, 5, 6, 72, 8, 5, 1, 2},
      {3, 6, 5, 16, 24, 1, 2, 0},
      {2, 16, 20, 8, 16, 3, 1, 0},
      {1, 8, 8, 16, 8, 7, 2, 3},
      {3, 9, 10, 8, 136, 3, 1, 1},
      {6, 32, 32, 8, 8, 1, 1, 0},  // and so many shards that ranges of them are added up apart
      {7, 32, 32, 8, 16, 3, 1, 1}};
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    // bf16: inputs are exact bf16 values; outputs are rounded once (relative 2^-8).
    const double tolerance = type == ValueType::kFp32 ? 2e-6 : 5e-3;
    for (const ConvShape& s : shapes) {
      const Floats x = rounded(type, random_floats(s.batch * s.in_values(), 1));
      const Floats w = rounded(type, random_floats(s.weights(), 2));
      const Floats dy = rounded(type, random_floats(s.batch * s.out_values(), 3));
      const ConvReference want = plain_convolution(s, x, w, dy);
      const auto convolution = device().convolution(s, type);
      const auto room = scratch(convolution->scratch_bytes());
      const Cells cx = cells(type, x), cdy = cells(type, dy), cy = cells(type, s.batch * s.out_values()),
                  cdx = cells(type, x);
      const auto weights = array(w), dw = zeros(w.size()), dw_alone = zeros(w.size());
      convolution->forward(cx.data(), weights.data(), cy.data(), room.data());
      expect_near(cy.floats(), want.y, tolerance);
      convolution->backward({cx.data(), weights.data(), cdy.data(), cdx.data(), false, dw.data()},
                            room.data());
      expect_near(cdx.floats(), want.dx, tolerance);
      expect_near(dw.values(), want.dw, 1e-5);
      // Added to what is there; and without an input gradient.
      convolution->backward({cx.data(), weights.data(), cdy.data(), cdx.data(), true, dw.data()},
                            room.data());
      std::vector<double> twice = want.dx;
      for (double& v : twice) v *= 2;
      expect_near(cdx.floats(), twice, 2 * tolerance);
      convolution->backward({cx.data(), weights.data(), cdy.data(), nullptr, false, dw_alone.data()},
                            room.data());
      EXPECT_EQ(dw_alone.values(), dw.values());
    }
  }
}

// Only some channels of the pixels are computed: the others stay what they were.
TEST_P(ConvolutionTest, APanelOfChannelsIsThatOfTheWhole) {
  constexpr int kAll = 21, kFirst = 4;
  const ConvShape whole[] = {
      {6, 8, 8, 16, 9, 3, 1, 1}, {3, 7, 5, 5, 8, 3, 2, 1}, {5, 16, 16, 16, 8, 1, 1, 0}};
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    const double tolerance = type == ValueType::kFp32 ? 2e-6 : 5e-3;
    for (const ConvShape& dense : whole) {
      ConvShape s = dense;
      s.channels = kAll;
      EXPECT_EQ(s.out_values() * s.out, dense.out_values() * kAll);
      const Floats x = rounded(type, random_floats(s.batch * s.in_values(), 1));
      const Floats w = rounded(type, random_floats(s.weights(), 2));
      const Floats dy = rounded(type, random_floats(s.batch * dense.out_values(), 3));
      const Floats other = rounded(type, random_floats(s.batch * s.out_values(), 4));
      Floats wide_dy = other;
      for (std::size_t i = 0; i < dy.size(); ++i) {
        wide_dy[i / static_cast<std::size_t>(s.out) * kAll + kFirst + i % static_cast<std::size_t>(s.out)] =
            dy[i];
      }
      const ConvReference want = plain_convolution(dense, x, w, dy);
      const auto convolution = device().convolution(s, type);
      const auto room = scratch(convolution->scratch_bytes());
      const Cells cx = cells(type, x), cdy = cells(type, wide_dy), cy = cells(type, other),
                  cdx = cells(type, x);
      const auto weights = array(w), dw = zeros(w.size());
      const auto from_first = [&](const Cells& c) {
        return static_cast<std::byte*>(c.data()) + kFirst * value_bytes(type);
      };
      convolution->forward(cx.data(), weights.data(), from_first(cy), room.data());
      convolution->backward({cx.data(), weights.data(), from_first(cdy), cdx.data(), false, dw.data()},
                            room.data());
      const Floats wide_y = cy.floats();
      Floats y;
      for (std::size_t i = 0; i < wide_y.size(); ++i) {
        const std::size_t channel = i % kAll;
        if (channel >= kFirst && channel < kFirst + static_cast<std::size_t>(s.out)) {
          y.push_back(wide_y[i]);
        } else {
          ASSERT_EQ(wide_y[i], other[i]) << i;
        }
      }
      expect_near(y, want.y, tolerance);
      expect_near(cdx.floats(), want.dx, tolerance);
      expect_near(dw.values(), want.dw, 1e-5);
    }
  }
}

TEST_P(ConvolutionTest, SameBitsInTwoRuns) {
  constexpr ValueType kType = ValueType::kBf16;
  for (const ConvShape& s : {ConvShape{4, 8, 8, 64, 64, 3, 1, 1}, ConvShape{9, 8, 8, 16, 32, 3, 2, 1},
                             ConvShape{9, 8, 8, 32, 32, 1, 2, 0}, ConvShape{6, 32, 32, 8, 8, 1, 1, 0}}) {
    const auto convolution = device().convolution(s, kType);
    const auto room = scratch(convolution->scratch_bytes());
    const Cells x = cells(kType, random_floats(s.batch * s.in_values(), 1)),
                dy = cells(kType, random_floats(s.batch * s.out_values(), 2));
    const auto w = array(random_floats(s.weights(), 3));
    const auto run = [&] {
      const Cells y = cells(kType, s.batch * s.out_values()), dx = cells(kType, s.batch * s.in_values());
      const auto dw = zeros(static_cast<std::size_t>(s.weights()));
      convolution->forward(x.data(), w.data(), y.data(), room.data());
      for (const bool accumulate : {false, true}) {
        convolution->backward({x.data(), w.data(), dy.data(), dx.data(), accumulate, dw.data()}, room.data());
      }
      return std::tuple(y.bytes(), dx.bytes(), dw.values());
    };
    EXPECT_EQ(run(), run());
  }
}

TEST_P(ConvolutionTest, GradientsByFiniteDifferences) {
  const ConvShape s{4, 6, 6, 8, 16, 3, 2, 1};
  const Floats x = random_floats(s.batch * s.in_values(), 1), w = random_floats(s.weights(), 2);
  const Floats r = random_floats(s.batch * s.out_values(), 3);
  const auto convolution = device().convolution(s, ValueType::kFp32);
  const auto room = scratch(convolution->scratch_bytes());
  const auto y = zeros(r.size()), dx = zeros(x.size()), dw = zeros(w.size()), dy = array(r);
  auto inputs = array(x), weights = array(w);
  convolution->backward({inputs.data(), weights.data(), dy.data(), dx.data(), false, dw.data()}, room.data());
  const auto value = [&](DeviceArray<float>& of, const Floats& v) {
    of.assign(v);
    convolution->forward(inputs.data(), weights.data(), y.data(), room.data());
    return dot(y.values(), r);
  };
  expect_gradient(x, dx.values(), 0.5F, 1e-4, [&](const Floats& v) { return value(inputs, v); });
  inputs.assign(x);
  expect_gradient(w, dw.values(), 0.5F, 1e-4, [&](const Floats& v) { return value(weights, v); });
}

// ---- matrix product --------------------------------------------------------------------------------------
// kind: bits 0 and 1 transpose the factors, bit 2 accumulates.
void expect_product(PackedDevice& device, const std::int64_t (&size)[3], int kind, ValueType type) {
  MatrixArgs args{.transpose_a = (kind & 1) != 0,
                  .transpose_b = (kind & 2) != 0,
                  .m = size[0],
                  .n = size[1],
                  .k = size[2],
                  .type = type,
                  .accumulate = (kind & 4) != 0};
  const Floats a = rounded(type, random_floats(args.m * args.k, 1)),
               b = rounded(type, random_floats(args.k * args.n, 2)), c = random_floats(args.m * args.n, 3);
  std::vector<double> want(c.size());
  for (std::int64_t i = 0; i < args.m; ++i) {
    for (std::int64_t j = 0; j < args.n; ++j) {
      double sum = args.accumulate ? c[static_cast<std::size_t>(i * args.n + j)] : 0;
      for (std::int64_t k = 0; k < args.k; ++k) {
        sum += 1.0 * a[static_cast<std::size_t>(args.transpose_a ? k * args.m + i : i * args.k + k)] *
               b[static_cast<std::size_t>(args.transpose_b ? j * args.k + k : k * args.n + j)];
      }
      want[static_cast<std::size_t>(i * args.n + j)] = sum;
    }
  }
  const Cells a_cells(device, type, a), b_cells(device, type, b);
  const DeviceArray<float> product(device, c);
  args.a = a_cells.data();
  args.a_stride = args.transpose_a ? args.m : args.k;
  args.b = b_cells.data();
  args.b_stride = args.transpose_b ? args.k : args.n;
  args.c = product.data();
  args.c_stride = args.n;
  const auto room = scratch_on(device, device.matmul_scratch_bytes(args));
  device.matmul(args, room.data());
  expect_near(product.values(), want, 1e-5);
}

TEST_P(MatmulTest, EqualsPlainLoops) {
  const std::int64_t sizes[][3] = {{3, 5, 7},       {70, 130, 33},  {300, 20, 64},   {16, 1100, 40},
                                   {130, 258, 513}, {40, 35, 1030}, {600, 300, 260}, {1, 1, 1}};
  for (const auto& size : sizes) {
    for (int kind = 0; kind < 8; ++kind) expect_product(device(), size, kind, ValueType::kFp32);
  }
}

const std::int64_t kBf16Sizes[][3] = {{70, 130, 33},  {300, 33, 64}, {40, 35, 1030},
                                      {280, 300, 20}, {3, 5, 7},     {1, 1100, 40}};
TEST_P(MatmulTest, OfBf16EqualsPlainLoops) {
  for (const auto& size : kBf16Sizes) {
    for (int kind = 0; kind < 8; ++kind) expect_product(device(), size, kind, ValueType::kBf16);
  }
}
// Runs as on processors with bf16 instructions (others multiply the same in fp32), and as without them.
TEST(CpuMatmul, OfBf16WithAndWithoutItsInstructions) {
  CpuDevice device(2);
  const bool saved = backend::multiplies_bf16();
  backend::multiplies_bf16() = !saved;
  for (const auto& size : kBf16Sizes) {
    for (int kind = 0; kind < 8; ++kind) expect_product(device, size, kind, ValueType::kBf16);
  }
  backend::multiplies_bf16() = saved;
}

// c in the factors' type, within a wider matrix whose other columns are left alone; with a bias, or without.
void expect_rounded_product(PackedDevice& device, const std::int64_t (&size)[3], bool has_bias,
                            ValueType type) {
  const auto [m, n, k] = size;
  const std::int64_t stride = n + 8;
  constexpr float kOutside = 7;
  const Floats a = rounded(type, random_floats(m * k, 1)), b = rounded(type, random_floats(n * k, 2)),
               bias = rounded(type, random_floats(n, 3, 10));
  const Cells a_cells(device, type, a), b_cells(device, type, b),
      c(device, type, Floats(static_cast<std::size_t>(m * stride), kOutside));
  const DeviceArray<float> added(device, bias);
  const MatrixArgs args{.transpose_b = true,
                        .m = m,
                        .n = n,
                        .k = k,
                        .type = type,
                        .a = a_cells.data(),
                        .a_stride = k,
                        .b = b_cells.data(),
                        .b_stride = k,
                        .c = c.data(),
                        .c_stride = stride,
                        .c_type = type,
                        .bias = has_bias ? added.data() : nullptr};
  const auto room = scratch_on(device, device.matmul_scratch_bytes(args));
  device.matmul(args, room.data());
  const Floats got = c.floats();
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < stride; ++j) {
      double want = j < n ? has_bias ? bias[static_cast<std::size_t>(j)] : 0 : kOutside, terms = 0;
      for (std::int64_t at = 0; j < n && at < k; ++at) {
        const double term =
            1.0 * a[static_cast<std::size_t>(i * k + at)] * b[static_cast<std::size_t>(j * k + at)];
        want += term;
        terms += std::abs(term);
      }
      // One rounding to 8 bits, and what sums in fp32 differ by.
      int exponent = 0;
      std::frexp(want, &exponent);
      const double rounding = type == ValueType::kBf16 && j < n ? std::ldexp(1, exponent - 9) : 0;
      ASSERT_NEAR(got[static_cast<std::size_t>(i * stride + j)], want, rounding + 1e-5 * terms)
          << i << " " << j << " of " << m << " x " << n << " x " << k;
    }
  }
}
TEST_P(MatmulTest, RoundsOnceAndAddsABias) {
  const std::int64_t sizes[][3] = {{70, 130, 33}, {40, 35, 1030}, {1, 1, 1},     {1, 1100, 40},
                                   {130, 64, 48}, {64, 8, 800},   {33, 136, 264}};
  for (const auto& size : sizes) {
    for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
      for (const bool has_bias : {false, true}) expect_rounded_product(device(), size, has_bias, type);
    }
  }
}

// Each sum of a device without a library is in one order, whatever the threads.
TEST(PackedMatmul, GivesTheSameBitsForAnyThreads) {
  const Floats a = random_floats(200 * 300, 1), b = random_floats(300 * 150, 2);
  const auto product = [&](int threads) {
    CpuPackedDevice device(threads);
    Floats c(200 * 150);
    device.matmul({.m = 200,
                   .n = 150,
                   .k = 300,
                   .a = a.data(),
                   .a_stride = 300,
                   .b = b.data(),
                   .b_stride = 150,
                   .c = c.data(),
                   .c_stride = 150},
                  nullptr);
    return c;
  };
  const Floats one = product(1), three = product(3);
  EXPECT_EQ(std::memcmp(one.data(), three.data(), 4 * one.size()), 0);
}

TEST(PackedMatmul, EqualsPlainLoops) {
  CpuPackedDevice device(2);
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    for (const auto& size : kBf16Sizes) {
      for (int kind = 0; kind < 8; ++kind) expect_product(device, size, kind, type);
      for (const bool has_bias : {false, true}) expect_rounded_product(device, size, has_bias, type);
    }
  }
}

// Many rows, in either type, and columns that are no multiple of anything.
TEST_P(BiasTest, GradientIsTheSumOfRows) {
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                        {1500, 5},
                                        {700, 72},
                                        {300, 512},
                                        {300, 513},
                                        {700, 520}}) {
      const Floats y = rounded(type, random_floats(rows * columns, 1)),
                   dy = rounded(type, random_floats(rows * columns, 2));
      for (const bool relu : {false, true}) {
        Floats gated = dy;
        std::vector<double> want(static_cast<std::size_t>(columns));
        for (std::size_t i = 0; i < y.size(); ++i) {
          if (relu && y[i] <= 0) gated[i] = 0;
          want[i % want.size()] += gated[i];
        }
        const Cells cy = cells(type, y), cdy = cells(type, dy), g = cells(type, rows * columns);
        const auto db = zeros(want.size());
        const void* dx = device().bias_backward(
            {{type, rows * columns}, columns, cy.data(), cdy.data(), relu ? g.data() : nullptr, db.data()});
        ASSERT_EQ(dx, relu ? g.data() : cdy.data());
        expect_near(db.values(), want, 1e-5);
        ASSERT_EQ((relu ? g : cdy).floats(), gated);
        if (relu) continue;
        std::vector<double> products(want.size());
        for (std::size_t i = 0; i < y.size(); ++i) products[i % products.size()] += double{y[i]} * dy[i];
        device().bias_backward({.of = {type, rows * columns},
                                .columns = columns,
                                .dy = cdy.data(),
                                .bias_gradient = db.data(),
                                .x = cy.data()});
        expect_near(db.values(), products, 1e-5);
      }
    }
  }
}

// ---- batch norm ------------------------------------------------------------------------------------------
// The output of a device's batch_norm_statistics: weights of one, biases and running statistics of zero.
struct NormChannels {
  DeviceArray<float> mean, inverse_deviation, scale, shift, running_mean, running_variance;
  DeviceArray<std::uint8_t> finite;
  DeviceArray<std::byte> room;
  NormChannels(Device& d, const BatchNormShape& s)
      : mean(d, of(s, 0)),
        inverse_deviation(d, of(s, 0)),
        scale(d, of(s, 1)),
        shift(d, of(s, 0)),
        running_mean(d, of(s, 0)),
        running_variance(d, of(s, 0)),
        finite(d, {1}),
        room(scratch_on(d, d.batch_norm_scratch_bytes(s))) {}
  static Floats of(const BatchNormShape& s, float value) {
    return Floats(static_cast<std::size_t>(s.channels), value);
  }
  BatchNormStatistics statistics() {
    return {mean.data(),
            inverse_deviation.data(),
            {scale.data(), shift.data(), scale.data(), shift.data()},
            running_mean.data(),
            running_variance.data(),
            reinterpret_cast<bool*>(finite.data())};
  }
};

TEST_P(BatchNormTest, StatisticsInClosedForm) {
  // Channel c holds offset + slope * row: mean offset + slope (rows-1)/2, variance slope^2 (rows^2-1)/12.
  for (const int channels : {3, 8, 16, 35, 64}) {
    const BatchNormShape shape{5000, channels, ValueType::kFp32};  // several shards, the last one partial
    Floats x;
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      for (int c = 0; c < channels; ++c) {
        x.push_back(100.0F * static_cast<float>(c) + 0x1p-9F * static_cast<float>((c + 1) * r));
      }
    }
    const auto n = static_cast<std::size_t>(channels);
    const auto in = array(x);
    NormChannels of(device(), shape);
    device().batch_norm_statistics(shape, in.data(), of.statistics(), of.room.data());
    const Floats mean = of.mean.values();
    Floats variance = of.running_variance.values();  // a tenth of the unbiased one
    for (float& v : variance) v *= 10.0F * 4999 / 5000;
    for (std::size_t c = 0; c < n; ++c) {
      const double slope = 0x1p-9 * static_cast<double>(c + 1);
      const double deviation = slope * 5000 / std::sqrt(12.0);
      EXPECT_NEAR(mean[c], 100.0 * static_cast<double>(c) + slope * 4999 / 2,
                  2e-5 * deviation + 1e-7 * mean[c]);
      EXPECT_NEAR(variance[c] / (slope * slope * (5000.0 * 5000 - 1) / 12), 1, 1e-4)
          << c << " of " << channels;
    }
  }
}

TEST_P(BatchNormTest, PreparesAndProposes) {
  for (const int channels : {300, 304}) {
    const BatchNormShape shape{10, channels, ValueType::kFp32};
    const Floats x = random_floats(10 * channels, 1), weight = random_floats(channels, 2),
                 bias = random_floats(channels, 3), old_mean = random_floats(channels, 4);
    Floats old_variance = random_floats(channels, 5);
    for (float& v : old_variance) v *= v;
    std::vector<double> mean, r, s, b, m, v;
    for (std::size_t c = 0; c < old_mean.size(); ++c) {
      double sum = 0, squares = 0;
      for (std::size_t row = 0; row < 10; ++row) sum += x[row * old_mean.size() + c];
      for (std::size_t row = 0; row < 10; ++row) {
        squares += std::pow(x[row * old_mean.size() + c] - sum / 10, 2);
      }
      mean.push_back(sum / 10);
      r.push_back(1 / std::sqrt(squares / 10 + 1e-5));
      s.push_back(weight[c] * r[c]);
      b.push_back(bias[c] - mean[c] * s[c]);
      m.push_back(0.9 * old_mean[c] + 0.1 * mean[c]);
      v.push_back(0.9 * old_variance[c] + 0.1 * squares / 9);
    }
    NormChannels of(device(), shape);
    of.scale.assign(weight);
    of.shift.assign(bias);
    of.running_mean.assign(old_mean);
    of.running_variance.assign(old_variance);
    const auto in = array(x);
    device().batch_norm_statistics(shape, in.data(), of.statistics(), of.room.data());
    expect_near(of.mean.values(), mean, 1e-6);
    expect_near(of.inverse_deviation.values(), r, 1e-6);
    expect_near(of.scale.values(), s, 1e-6);
    expect_near(of.shift.values(), b, 1e-6);
    expect_near(of.running_mean.values(), m, 1e-6);
    expect_near(of.running_variance.values(), v, 1e-6);
    EXPECT_EQ(of.finite.values()[0], 1);
    // The same coefficients of statistics that are given.
    const auto variance = array([&] {
      Floats as_given;
      for (const double inverse : r) as_given.push_back(static_cast<float>(1 / (inverse * inverse) - 1e-5));
      return as_given;
    }());
    const auto in_weight = array(weight), in_bias = array(bias);
    const auto scale = array(bias), shift = array(weight);  // anything
    device().batch_norm_prepare(channels, of.mean.data(), variance.data(),
                                {in_weight.data(), in_bias.data(), scale.data(), shift.data()});
    expect_near(variance.values(), r, 1e-6);
    expect_near(scale.values(), s, 1e-6);
    expect_near(shift.values(), b, 1e-6);
    for (const float bad : {std::nanf(""), INFINITY}) {
      Floats broken = x;
      broken.back() = bad;
      NormChannels seen(device(), shape);
      const auto on = array(broken);
      device().batch_norm_statistics(shape, on.data(), seen.statistics(), seen.room.data());
      EXPECT_EQ(seen.finite.values()[0], 0);
    }
  }
}

// One batch norm in fp32 whose inputs can be moved.
struct NormCase {
  BatchNormShape shape;
  Device& device;
  DeviceArray<float> x, weight, bias, residual, y;
  NormChannels of;

  NormCase(Device& d, const BatchNormShape& s, const Floats& vx, const Floats& vw, const Floats& vb,
           const Floats& vr)
      : shape(s), device(d), x(d, vx), weight(d, vw), bias(d, vb), residual(d, vr), y(d, vx), of(d, s) {}
  Floats forward(bool adds) {
    device.copy(of.scale.data(), weight.data(), 4 * shape.channels);
    device.copy(of.shift.data(), bias.data(), 4 * shape.channels);
    device.batch_norm_statistics(shape, x.data(), of.statistics(), of.room.data());
    device.batch_norm_apply(shape, {x.data(), of.scale.data(), of.shift.data(),
                                    adds ? residual.data() : nullptr, false, y.data()});
    return y.values();
  }
};

TEST_P(BatchNormTest, GradientsByFiniteDifferences) {
  for (const int channels : {3, 16, 40}) {
    for (int kind = 0; kind < 4; ++kind) {
      const bool relu = (kind & 1) != 0, residual = (kind & 2) != 0;
      const BatchNormShape shape{60, channels, ValueType::kFp32};
      const std::int64_t count = shape.rows * channels;
      const Floats x = random_floats(count, 1), dy = random_floats(count, 2),
                   weight = random_floats(channels, 4), bias = random_floats(channels, 5);
      Floats res = random_floats(count, 3, 3.0F);
      NormCase norm(device(), shape, x, weight, bias, res);
      // Keep the sums before ReLU off its kink; without a residual, a small step must do.
      const Floats before = norm.forward(residual);
      if (residual) {
        for (std::size_t i = 0; i < res.size(); ++i) res[i] += before[i] < 0 ? -0.2F : 0.2F;
        norm.residual.assign(res);
      }
      // The gate of ReLU is held fixed, so that its kink does not blur the differences.
      const Floats gate = norm.forward(residual);
      const auto gates = array(gate), gradient = array(dy), dw = zeros(weight.size()),
                 db = zeros(weight.size());
      auto dx = array(Floats(x.size(), 0.5F)), dres = array(Floats(x.size(), 0.25F));
      BatchNormBackward args;
      args.x = norm.x.data();
      args.y = gates.data();
      args.dy = gradient.data();
      args.relu = relu;
      args.mean = norm.of.mean.data();
      args.inverse_deviation = norm.of.inverse_deviation.data();
      args.weight = norm.weight.data();
      args.weight_gradient = dw.data();
      args.bias_gradient = db.data();
      args.dx = dx.data();
      args.dresidual = residual ? dres.data() : nullptr;
      device().batch_norm_backward(shape, args, norm.of.room.data());
      const Floats once = dx.values(), once_res = dres.values();
      args.accumulate = args.accumulate_residual = true;
      device().batch_norm_backward(shape, args, norm.of.room.data());
      const Floats twice = dx.values(), twice_res = dres.values();
      for (std::size_t i = 0; i < once.size(); ++i) {
        ASSERT_EQ(twice[i], once[i] + once[i]);
        ASSERT_EQ(twice_res[i], residual ? once_res[i] + once_res[i] : 0.25F);
      }
      const auto expect = [&](DeviceArray<float>& input, const Floats& at, const Floats& got,
                              double tolerance) {
        expect_gradient(
            at, got, 0.02F, tolerance,
            [&](const Floats& v) {
              input.assign(v);
              const Floats out = norm.forward(residual);
              double sum = 0;
              for (std::size_t i = 0; i < out.size(); ++i) {
                if (!relu || gate[i] > 0) sum += 1.0 * out[i] * dy[i];
              }
              return sum;
            },
            24);
        input.assign(at);
      };
      expect(norm.x, x, once, 2e-3);
      expect(norm.weight, weight, dw.values(), 1e-3);
      expect(norm.bias, bias, db.values(), 1e-3);
      if (residual) expect(norm.residual, res, once_res, 1e-3);
    }
  }
}

TEST_P(BatchNormTest, BackwardOfManyRowsIsThatOfPlainLoops) {
  // Channels in eights go by another way on some devices; without ReLU too.
  for (const auto& [type, frozen, channels, gates] :
       {std::tuple(ValueType::kFp32, false, 20, true), std::tuple(ValueType::kBf16, false, 20, true),
        std::tuple(ValueType::kFp32, true, 20, true), std::tuple(ValueType::kBf16, true, 20, true),
        std::tuple(ValueType::kFp32, false, 40, true), std::tuple(ValueType::kBf16, false, 40, true),
        std::tuple(ValueType::kFp32, false, 8, false), std::tuple(ValueType::kBf16, false, 136, false)}) {
    const bool relu = gates;
    const BatchNormShape shape{1300, channels, type};
    const auto n = static_cast<std::size_t>(channels);
    const Floats x = rounded(type, random_floats(shape.rows * channels, 1)),
                 y = rounded(type, random_floats(shape.rows * channels, 2)),
                 dy = rounded(type, random_floats(shape.rows * channels, 3)),
                 weight = random_floats(channels, 4);
    const Cells cx = cells(type, x), cy = cells(type, y), cdy = cells(type, dy);
    const auto w = array(weight), dw = zeros(n), db = zeros(n);
    NormChannels of(device(), shape);
    device().batch_norm_statistics(shape, cx.data(), of.statistics(), of.room.data());
    BatchNormBackward args;
    args.x = cx.data();
    args.y = cy.data();
    args.dy = args.dx = cdy.data();  // in place
    args.relu = relu;
    args.frozen = frozen;
    args.mean = of.mean.data();
    args.inverse_deviation = of.inverse_deviation.data();
    args.weight = w.data();
    args.weight_gradient = dw.data();
    args.bias_gradient = db.data();
    device().batch_norm_backward(shape, args, of.room.data());
    const Floats m = of.mean.values(), r = of.inverse_deviation.values();
    std::vector<double> sum(n), sum_x(n), dx;
    const auto g = [&](std::size_t i) { return !relu || y[i] > 0 ? 1.0 * dy[i] : 0.0; };
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum[i % n] += g(i);
      sum_x[i % n] += g(i) * (1.0 * x[i] - m[i % n]) * r[i % n];
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = i % n;
      const double normal = (1.0 * x[i] - m[c]) * r[c];
      dx.push_back(weight[c] * r[c] * (frozen ? g(i) : g(i) - sum[c] / 1300 - normal * sum_x[c] / 1300));
    }
    expect_near(cdy.floats(), dx, type == ValueType::kFp32 ? 2e-6 : 5e-3);
    expect_near(dw.values(), sum_x, 1e-5);
    expect_near(db.values(), sum, 1e-5);
  }
}

TEST_P(BatchNormTest, ApplyRoundsOnceInBf16AndGatesOnPositive) {
  const BatchNormShape shape{33, 16, ValueType::kBf16};
  const Floats x = rounded(ValueType::kBf16, random_floats(33 * 16, 1));
  const Floats scale = random_floats(16, 2), shift = random_floats(16, 3);
  const Cells cx = cells(ValueType::kBf16, x), cy = cells(ValueType::kBf16, 33 * 16);
  const auto factors = array(scale), offsets = array(shift);
  device().batch_norm_apply(shape, {cx.data(), factors.data(), offsets.data(), nullptr, true, cy.data()});
  const Floats y = cy.floats();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float v = x[i] * scale[i % 16] + shift[i % 16];
    EXPECT_EQ(y[i], v > 0 ? bf16_to_float(float_to_bf16(v)) : 0.0F);
  }
}

// ---- element loops, pooling, shortcut --------------------------------------------------------------------
TEST_P(ElementsTest, EveryBf16ValueAndTails) {
  std::vector<std::uint16_t> all(65536);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  const auto narrow = array(all), back = array(std::vector<std::uint16_t>(65536));
  const auto wide = zeros(65536);
  device().to_float(ValueType::kBf16, 65536, narrow.data(), wide.data());
  device().from_float(ValueType::kBf16, 65536, wide.data(), back.data());
  const Floats widened = wide.values();
  const std::vector<std::uint16_t> again = back.values();
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(float_bits(widened[i]), float_bits(bf16_to_float(all[i])));
    ASSERT_EQ(again[i], float_to_bf16(widened[i]));
  }
  const Floats odd = random_floats(1003, 9);  // not a multiple of the lanes; roundings of any kind
  const auto in = array(odd);
  const Cells out = cells(ValueType::kBf16, 1003);
  device().from_float(ValueType::kBf16, 1003, in.data(), out.data());
  EXPECT_EQ(out.floats(), rounded(ValueType::kBf16, odd));
}
TEST(CpuElements, RoundsInPlace) {
  const Floats odd = random_floats(1003, 9);
  Floats in_place = odd;
  loops::elements().round_bf16(1003, in_place.data());
  EXPECT_EQ(in_place, rounded(ValueType::kBf16, odd));
}

TEST_P(ElementsTest, ReluKeepsNan) {
  const Floats x = {std::nanf(""), -1, 2, 0, 1, 2, 3, -4, std::nanf(""), -5};
  const auto in = array(x), out = zeros(x.size());
  device().activate({.width = static_cast<std::int64_t>(x.size()), .x = in.data(), .y = out.data()});
  const Floats y = out.values();
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[8]));
  EXPECT_EQ(y[1] + y[7] + y[9], 0);
  EXPECT_EQ(y[2], 2);
}

TEST_P(PoolingTest, GradientsByFiniteDifferences) {
  Device& on = device();
  constexpr ValueType kType = ValueType::kFp32;
  constexpr Pooling kMaximum = Pooling::kMaximum;
  const auto factors = array(random_floats(10, 7));
  const PoolShape average{2, 6, 5, 3, 3, 2}, maximum{2, 6, 6, 5, 2, 2, 0, kMaximum},
      padded{2, 6, 5, 5, 3, 2, 1, kMaximum};
  const ShortcutShape cut{2, 6, 6, 4, 10, 2};
  struct Case {
    const char* name;
    std::int64_t inputs, outputs;
    std::function<void(const float*, float*)> forward;
    std::function<void(const float*, const float*, const float*, float*, bool)> backward;  // x, y, dy, dx
  };
  const Case cases[] = {
      {"relu", 77, 77, [&](const float* x, float* y) { on.activate({.width = 77, .x = x, .y = y}); },
       [&](const float*, const float* y, const float* dy, float* dx, bool add) {
         on.activate_backward({.width = 77, .x = y, .dy = dy, .dx = dx, .accumulate = add});
       }},
      {"average", 2 * 6 * 5 * 3, 2 * 2 * 2 * 3,
       [&](const float* x, float* y) { on.pool_forward(average, x, y); },
       [&](const float*, const float*, const float* dy, float* dx, bool add) {
         on.pool_backward(average, {nullptr, dy, dx, add});
       }},
      {"maximum", 2 * 6 * 6 * 5, 2 * 3 * 3 * 5,
       [&](const float* x, float* y) { on.pool_forward(maximum, x, y); },
       [&](const float* x, const float*, const float* dy, float* dx, bool add) {
         on.pool_backward(maximum, {x, dy, dx, add});
       }},
      {"maximum with padding", 2 * 6 * 5 * 5, 2 * 3 * 3 * 5,
       [&](const float* x, float* y) { on.pool_forward(padded, x, y); },
       [&](const float* x, const float*, const float* dy, float* dx, bool add) {
         on.pool_backward(padded, {x, dy, dx, add});
       }},
      {"shortcut", 2 * 6 * 6 * 4, 2 * 3 * 3 * 10,
       [&](const float* x, float* y) { on.shortcut_forward(cut, x, y); },
       [&](const float*, const float*, const float* dy, float* dx, bool add) {
         on.shortcut_backward(cut, dy, dx, add);
       }},
      {"copy", 50, 50,
       [&](const float* x, float* y) {
         on.copy_or_add({kType, 50}, x, y, false);
       },
       [&](const float*, const float*, const float* dy, float* dx, bool add) {
         on.copy_or_add({kType, 50}, dy, dx, add);
       }},
      {"scale", 50, 50,
       [&](const float* x, float* y) {
         on.scale({{kType, 50}, -1.5F, x, y});
       },
       [&](const float*, const float*, const float* dy, float* dx, bool add) {
         on.scale({{kType, 50}, -1.5F, dy, dx, add});
       }},
      {"scale by column", 50, 50,
       [&](const float* x, float* y) {
         on.scale({.of = {kType, 50}, .x = x, .y = y, .columns = 10, .by_column = factors.data()});
       },
       [&](const float*, const float*, const float* dy, float* dx, bool add) {
         on.scale({.of = {kType, 50},
                   .x = dy,
                   .y = dx,
                   .accumulate = add,
                   .columns = 10,
                   .by_column = factors.data()});
       }},
      {"add", 50, 50,
       [&](const float* x, float* y) {
         on.add({kType, 50}, x, x, y);
       },
       [&](const float*, const float*, const float* dy, float* dx, bool add) {
         on.copy_or_add({kType, 50}, dy, dx, add);
         on.copy_or_add({kType, 50}, dy, dx, true);
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    // Distinct multiples of 0.25 in random order: no ties and no kinks within the step.
    Floats x(static_cast<std::size_t>(c.inputs));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.25F * (static_cast<float>(i) - 20.5F);
    std::shuffle(x.begin(), x.end(), std::mt19937(5));
    const Floats r = random_floats(c.outputs, 6);
    auto in = array(x);
    const auto out = zeros(r.size()), dy = array(r), dx = zeros(x.size());
    c.forward(in.data(), out.data());
    c.backward(in.data(), out.data(), dy.data(), dx.data(), false);
    const Floats once = dx.values();
    c.backward(in.data(), out.data(), dy.data(), dx.data(), true);
    const Floats twice = dx.values();
    for (std::size_t i = 0; i < once.size(); ++i) ASSERT_NEAR(twice[i], 2 * once[i], 1e-5);
    expect_gradient(x, once, 0.06F, 3e-4, [&](const Floats& v) {
      in.assign(v);
      c.forward(in.data(), out.data());
      return dot(out.values(), r);
    });
  }
}

// Among equal values the first one gets the gradient, in windows that overlap and in those that do not.
TEST_P(PoolingTest, TiesGoToTheFirst) {
  const PoolShape shape{1, 3, 3, 1, 2, 1, 0, Pooling::kMaximum};
  const auto x = array(Floats(9, 1.0F)), dy = array(Floats{1, 2, 4, 8}), dx = zeros(9);
  device().pool_backward(shape, {x.data(), dy.data(), dx.data()});
  EXPECT_EQ(dx.values(), (Floats{1, 2, 0, 4, 8, 0, 0, 0, 0}));
}

// 4 x 4 of -16..-1 in windows of 3 x 3 two apart, with a padding of 1, which is never their maximum.
TEST_P(PoolingTest, PaddingIsBelowEverything) {
  PoolShape shape{1, 4, 4, 1, 3, 2, 1, Pooling::kMaximum};
  ASSERT_EQ(shape.out_height(), 2);
  Floats x(16);
  std::iota(x.begin(), x.end(), -16.0F);
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    shape.type = type;
    const Cells in = cells(type, x), y = cells(type, 4), dy = cells(type, Floats{1, 2, 4, 8}),
                dx = cells(type, 16);
    device().pool_forward(shape, in.data(), y.data());
    EXPECT_EQ(y.floats(), (Floats{-11, -9, -3, -1}));
    device().pool_backward(shape, {in.data(), dy.data(), dx.data()});
    EXPECT_EQ(dx.floats(), (Floats{0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 4, 0, 8}));
  }
}

// Devices take whole images, and channels in eights, by other ways.
TEST_P(PoolingTest, AveragesAndTheirGradientsAreThoseOfPlainLoops) {
  for (PoolShape s : {PoolShape{3, 4, 4, 5, 4, 4}, PoolShape{3, 9, 9, 72, 9, 1}, PoolShape{2, 6, 5, 16, 3, 2},
                      PoolShape{2, 4, 4, 8, 2, 2}}) {
    for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
      s.type = type;
      const std::int64_t inputs = s.batch * s.height * s.width * s.channels,
                         outputs = s.batch * s.out_height() * s.out_width() * s.channels;
      const Floats x = rounded(type, random_floats(inputs, 1)), dy = rounded(type, random_floats(outputs, 2)),
                   before = rounded(type, random_floats(inputs, 3));
      std::vector<double> y(dy.size()), dx(x.size()), added(before.begin(), before.end());
      const int area = s.kernel * s.kernel;
      for (std::int64_t o = 0; o < outputs; ++o) {
        const auto c = o % s.channels, ox = o / s.channels % s.out_width(),
                   oy = o / s.channels / s.out_width() % s.out_height(),
                   image = o / s.channels / s.out_width() / s.out_height();
        for (int tap = 0; tap < area; ++tap) {
          const auto iy = oy * s.stride + tap / s.kernel, ix = ox * s.stride + tap % s.kernel;
          const auto i = static_cast<std::size_t>(((image * s.height + iy) * s.width + ix) * s.channels + c);
          const auto out = static_cast<std::size_t>(o);
          y[out] += 1.0 * x[i] / area;
          dx[i] += 1.0 * dy[out] / area;
          added[i] += 1.0 * dy[out] / area;
        }
      }
      const Cells cx = cells(type, x), cdy = cells(type, dy), cy = cells(type, outputs),
                  cdx = cells(type, inputs), sum = cells(type, before);
      device().pool_forward(s, cx.data(), cy.data());
      device().pool_backward(s, {nullptr, cdy.data(), cdx.data()});
      device().pool_backward(s, {nullptr, cdy.data(), sum.data(), true});
      const double tolerance = type == ValueType::kFp32 ? 1e-6 : 5e-3;
      expect_near(cy.floats(), y, tolerance);
      expect_near(cdx.floats(), dx, tolerance);
      expect_near(sum.floats(), added, tolerance);
    }
  }
}

// An image of 4 x 6 pixels of two channels, value 100 channel + 10 row + column, in six squares of 2 x 2.
TEST_P(PoolingTest, PatchesAreChannelAfterChannel) {
  const PatchShape shape{2, 4, 6, 2, 2};
  Floats x;
  for (int i = 0; i < 2 * 4 * 6; ++i) {
    const auto at = static_cast<float>(i / 6 % 4 * 10 + i % 6 + (i < 24 ? 0 : 50));
    x.insert(x.end(), {at, 100 + at});
  }
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    const Cells in = cells(type, x), y = cells(type, static_cast<std::int64_t>(x.size()));
    device().patches(shape, type, in.data(), y.data());
    const Floats got = y.floats();
    const auto patch = [&](int i) { return Floats(got.begin() + 8 * i, got.begin() + 8 * i + 8); };
    EXPECT_EQ(patch(0), (Floats{0, 1, 10, 11, 100, 101, 110, 111}));
    EXPECT_EQ(patch(2), (Floats{4, 5, 14, 15, 104, 105, 114, 115}));
    EXPECT_EQ(patch(9), (Floats{70, 71, 80, 81, 170, 171, 180, 181}));
  }
}

TEST_P(PoolingTest, ShortcutSubsamplesAndCentresChannels) {
  const ShortcutShape s{1, 4, 4, 2, 4, 2};
  Floats x(32);
  std::iota(x.begin(), x.end(), 1.0F);
  const auto in = array(x), y = zeros(16);
  device().shortcut_forward(s, in.data(), y.data());
  EXPECT_EQ(y.values(), (Floats{0, 1, 2, 0, 0, 5, 6, 0, 0, 17, 18, 0, 0, 21, 22, 0}));
}

TEST_P(PoolingTest, ShortcutsOfChannelsInEights) {
  for (ShortcutShape s : {ShortcutShape{2, 6, 5, 16, 32, 2}, ShortcutShape{2, 3, 4, 8, 40, 1},
                          ShortcutShape{1, 4, 4, 8, 16, 2}}) {
    for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
      s.type = type;
      const std::int64_t inputs = s.batch * s.height * s.width * s.in,
                         outputs = s.batch * s.out_height() * s.out_width() * s.out;
      const Floats x = rounded(type, random_floats(inputs, 1)), dy = rounded(type, random_floats(outputs, 2));
      Floats y(dy.size()), dx(x.size()), added(x.size(), 1.0F);
      for (std::int64_t i = 0; i < inputs; ++i) {
        const auto c = i % s.in, ix = i / s.in % s.width, iy = i / s.in / s.width % s.height,
                   image = i / s.in / s.width / s.height;
        if (iy % s.stride != 0 || ix % s.stride != 0) continue;
        const auto out = static_cast<std::size_t>(
            ((image * s.out_height() + iy / s.stride) * s.out_width() + ix / s.stride) * s.out +
            (s.out - s.in) / 2 + c);
        const auto in = static_cast<std::size_t>(i);
        y[out] = x[in];
        dx[in] = dy[out];
        added[in] += dy[out];
      }
      const Cells cx = cells(type, x), cdy = cells(type, dy), cy = cells(type, outputs),
                  cdx = cells(type, inputs), sum = cells(type, Floats(x.size(), 1.0F));
      device().shortcut_forward(s, cx.data(), cy.data());
      device().shortcut_backward(s, cdy.data(), cdx.data(), false);
      device().shortcut_backward(s, cdy.data(), sum.data(), true);
      EXPECT_EQ(cy.floats(), y);
      EXPECT_EQ(cdx.floats(), dx);
      EXPECT_EQ(sum.floats(), rounded(type, added));
    }
  }
}

TEST_P(ElementsTest, RowsThatLieApartAreCopiedOrAdded) {
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    const Cells from = cells(type, Floats{1, 2, 3, 4, 5, 6, 7, 8}), to = cells(type, Floats(9, 10.0F));
    device().copy_or_add_rows(type, {2, 2, 3, 5}, from.data(), to.data());
    EXPECT_EQ(to.floats(), (Floats{1, 2, 10, 10, 10, 4, 5, 10, 10}));
    device().copy_or_add_rows(type, {2, 2, 0, 5, true}, from.data(), to.data());  // the same row twice
    EXPECT_EQ(to.floats(), (Floats{2, 4, 10, 10, 10, 5, 7, 10, 10}));
  }
}

// Operations that only move or add values give the CPU's bytes.
TEST_P(ElementsTest, BytesAreTheCpus) {
  CpuDevice cpu(1);
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    constexpr std::int64_t kRows = 61, kColumns = 24, kCount = kRows * kColumns;
    const Floats a = random_floats(kCount, 1), b = random_floats(kCount, 2),
                 wide = random_floats(kColumns, 3);
    const auto bytes = [&](Device& on, const auto& call) {
      const Cells x(on, type, a), y(on, type, b), z(on, type, a);
      const DeviceArray<float> floats(on, a), row(on, wide), more(on, wide);
      call(on, x, y, z, floats.data(), row.data(), more.data());
      return std::pair(z.bytes(), floats.values());
    };
    const auto same = [&](const char* what, const auto& call) {
      EXPECT_EQ(bytes(cpu, call), bytes(device(), call)) << what;
    };
    using C = const Cells&;
    same("to_float",
         [&](Device& on, C x, C, C, float* f, float*, float*) { on.to_float(type, kCount, x.data(), f); });
    same("from_float",
         [&](Device& on, C, C, C z, float* f, float*, float*) { on.from_float(type, kCount, f, z.data()); });
    same("odd places", [&](Device& on, C, C, C z, float* f, float*, float*) {
      on.from_float(type, kCount - 3, f + 3, z.data());
    });
    same("add", [&](Device& on, C x, C y, C z, float*, float*, float*) {
      on.add({type, kCount}, x.data(), y.data(), z.data());
    });
    for (const bool more : {false, true}) {
      same("copy_or_add", [&](Device& on, C x, C, C z, float*, float*, float*) {
        on.copy_or_add({type, kCount}, x.data(), z.data(), more);
      });
      same("scale", [&](Device& on, C x, C, C z, float*, float*, float*) {
        on.scale({{type, kCount}, 1.1F, x.data(), z.data(), more});
      });
      same("activate_backward", [&](Device& on, C x, C y, C z, float*, float*, float*) {
        on.activate_backward({.type = type,
                              .width = kCount,
                              .x = x.data(),
                              .dy = y.data(),
                              .dx = z.data(),
                              .accumulate = more});
      });
      same("dropout", [&](Device& on, C x, C, C z, float*, float*, float*) {
        on.dropout({{type, kCount}, {{3, 1, 4, 13, 9}, 16384, 4.0F / 3}, x.data(), z.data(), more});
      });
      same("shortcut_backward", [&](Device& on, C, C y, C z, float*, float*, float*) {
        on.shortcut_backward({1, 7, 10, 6, 13, 3, type}, y.data(), z.data(), more);
      });
      same("batch_norm_apply", [&](Device& on, C x, C y, C z, float*, float* row, float* row2) {
        on.batch_norm_apply({kRows, kColumns, type},
                            {x.data(), row, row2, more ? y.data() : nullptr, true, z.data()});
      });
    }
    same("shortcut", [&](Device& on, C x, C, C z, float*, float*, float*) {
      on.shortcut_forward({1, 7, 10, 6, 13, 3, type}, x.data(), z.data());
    });
    same("max_pool", [&](Device& on, C x, C, C z, float*, float*, float*) {
      on.pool_forward({1, 10, 9, 3, 3, 2, 0, Pooling::kMaximum, type}, x.data(), z.data());
    });
    same("embedding", [&](Device& on, C, C, C z, float* f, float*, float*) {
      on.embedding_forward({type, kColumns, 5, 3, 50, f, f + 7 * kColumns, z.data()});
    });
  }
}

// ---- loss ------------------------------------------------------------------------------------------------
LossResult loss_of(Device& on, const LossShape& shape, ValueType type, const Floats& logits,
                   const std::vector<std::int32_t>& labels) {
  const Cells cells(on, type, logits);
  const DeviceArray<std::int32_t> wanted(on, labels);
  const DeviceArray<LossResult> result(on, {{-1, -1}});
  on.loss_forward({shape, type, cells.data(), wanted.data(), nullptr, result.data()});
  return result.values()[0];
}
Floats loss_gradient_of(Device& on, const LossShape& shape, ValueType type, const Floats& logits,
                        const std::vector<std::int32_t>& labels) {
  const Cells cells(on, type, logits), gradient(on, type, logits);
  const DeviceArray<std::int32_t> wanted(on, labels);
  on.loss_backward({shape, type, cells.data(), wanted.data(), nullptr, nullptr, gradient.data()});
  return gradient.floats();
}

TEST_P(LossTest, ClosedForms) {
  constexpr ValueType kType = ValueType::kFp32;
  const std::vector<std::int32_t> labels = {3, 0};
  // Uniform logits: log C whatever the smoothing.
  for (const double smoothing : {0.0, 0.1}) {
    EXPECT_NEAR(loss_of(device(), {2, 10, smoothing}, kType, Floats(20, 4.0F), labels).sum,
                2 * std::log(10.0), 1e-12);
  }
  // One logit a above the rest: log(C - 1 + e^a) - a (1 - s + s / C) for its label.
  Floats one(10, 0.0F);
  one[3] = 2.5F;
  for (const double s : {0.0, 0.1, 0.5}) {
    const LossResult r = loss_of(device(), {1, 10, s}, kType, one, labels);
    EXPECT_NEAR(r.sum, std::log(9 + std::exp(2.5)) - 2.5 * (1 - s + s / 10), 1e-12);
    EXPECT_EQ(r.correct, 1);
    const Floats gradient = loss_gradient_of(device(), {1, 10, s}, kType, one, labels);
    const double p = std::exp(2.5) / (9 + std::exp(2.5));
    EXPECT_NEAR(gradient[3], p - (1 - s) - s / 10, 1e-6);
    EXPECT_NEAR(gradient[0], (1 - p) / 9 - s / 10, 1e-6);
  }
  // Large logits do not overflow.
  Floats large(20, -3e38F);
  large[3] = 3e38F;
  EXPECT_TRUE(std::isfinite(loss_of(device(), {1, 10, 0}, kType, large, labels).sum));
  EXPECT_TRUE(std::isnan(loss_of(device(), {1, 10, 0}, kType, Floats(10, std::nanf("")), labels).sum));
}

// More rows and classes than threads and lanes; ties count the first class.
TEST_P(LossTest, SumsOverRowsAndClasses) {
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    for (const int classes : {2, 10, 77}) {
      const LossShape shape{75, classes, 0.1};
      const Floats x = rounded(type, random_floats(75 * classes, 1, 0.05F));
      std::vector<std::int32_t> labels;
      double want = 0;
      std::int64_t correct = 0;
      for (int r = 0; r < 75; ++r) {
        labels.push_back(r * 5 % classes);
        const float* row = x.data() + r * classes;
        double sum = 0, mean = 0;
        for (int c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(row[c]));
        for (int c = 0; c < classes; ++c) mean += 1.0 * row[c] / classes;
        want += std::log(sum) - 0.9 * row[labels.back()] - 0.1 * mean;
        correct += std::max_element(row, row + classes) - row == labels.back() ? 1 : 0;
      }
      const LossResult got = loss_of(device(), shape, type, x, labels);
      EXPECT_NEAR(got.sum, want, 1e-11 * want);
      EXPECT_EQ(got.correct, correct);
    }
  }
}

TEST_P(LossTest, GradientByFiniteDifferences) {
  const LossShape shape{6, 7, 0.1};
  const std::vector<std::int32_t> labels = {0, 1, 2, 3, 6, 5};
  const Floats x = random_floats(42, 1);
  const Floats dx = loss_gradient_of(device(), shape, ValueType::kFp32, x, labels);
  expect_gradient(x, dx, 0.01F, 1e-4, [&](const Floats& v) {
    return loss_of(device(), shape, ValueType::kFp32, v, labels).sum / 6;
  });
}

// ---- the same bits ---------------------------------------------------------------------------------------
// The operations that sum, from one seed.
Floats sums_of(Device& device, ValueType type) {
  const ConvShape s{12, 16, 16, 16, 32, 3, 2, 1};
  const auto convolution = device.convolution(s, type);
  const auto room = scratch_on(device, convolution->scratch_bytes());
  const Cells x(device, type, random_floats(s.batch * s.in_values(), 1)),
      dy(device, type, random_floats(s.batch * s.out_values(), 2)), y(device, type, s.batch * s.out_values()),
      dx(device, type, s.batch * s.in_values());
  const DeviceArray<float> w(device, random_floats(s.weights(), 3)),
      dw(device, random_floats(s.weights(), 3));
  convolution->forward(x.data(), w.data(), y.data(), room.data());
  convolution->backward({x.data(), w.data(), dy.data(), dx.data(), false, dw.data()}, room.data());
  const BatchNormShape norm{s.batch * 64, 32, type};
  NormChannels of_norm(device, norm);
  const DeviceArray<float> bias(device, Floats(32));
  device.batch_norm_statistics(norm, y.data(), of_norm.statistics(), of_norm.room.data());
  device.bias_backward({{type, norm.rows * 32}, 32, y.data(), dy.data(), nullptr, bias.data()});
  // Products are computed from values as they lie, and packed.
  const DeviceArray<float> product(device, Floats(2 * 600 * 300));
  const Cells a(device, type, random_floats(600 * 50, 4)), b(device, type, random_floats(50 * 300, 5));
  const auto matmul_room =
      scratch_on(device, device.matmul_scratch_bytes({.m = 600, .n = 300, .type = type}));
  for (const bool transpose : {false, true}) {
    device.matmul({.transpose_a = transpose,
                   .m = 600,
                   .n = 300,
                   .k = 50,
                   .type = type,
                   .a = a.data(),
                   .a_stride = transpose ? 600 : 50,
                   .b = b.data(),
                   .b_stride = 300,
                   .c = product.data() + (transpose ? 600 * 300 : 0),
                   .c_stride = 300},
                  matmul_room.data());
  }
  Floats all = y.floats();
  for (const Floats& more : {dx.floats(), dw.values(), of_norm.mean.values(),
                             of_norm.running_variance.values(), bias.values(), product.values()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

TEST(CpuThreads, SameBitsForOneTwoThree) {
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    CpuDevice one(1), two(2), three(3);
    const Floats want = sums_of(one, type);
    EXPECT_EQ(sums_of(two, type), want);
    EXPECT_EQ(sums_of(three, type), want);
  }
}
TEST_P(ElementsTest, SameBitsInTwoRuns) {
  for (const ValueType type : {ValueType::kFp32, ValueType::kBf16}) {
    EXPECT_EQ(sums_of(device(), type), sums_of(device(), type));
  }
}

}  // namespace
}  // namespace lpmm::kernels
