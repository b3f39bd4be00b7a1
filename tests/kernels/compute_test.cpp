// The compute layer against plain double-precision loops, finite differences and closed forms.
#include "kernels/cpu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/codec.h"
#include "kernels/cpu/compute/backend.h"
#include "kernels/cpu/compute/loops.h"
#include "tests/kernels/activations.h"

namespace lpmm::kernels {
namespace {

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

TEST(Convolution, EqualsPlainLoops) {
  const ConvShape shapes[] = {{6, 8, 8, 16, 16, 3, 1, 1}, {4, 8, 8, 16, 32, 3, 2, 1},
                              {5, 6, 6, 3, 16, 3, 1, 1},  {3, 7, 5, 5, 7, 3, 2, 1},
                              {2, 5, 5, 8, 8, 1, 1, 0},   {1, 9, 9, 2, 3, 5, 2, 2}};
  for (const Compute type : {Compute::kFp32, Compute::kBf16}) {
    // bf16: inputs are exact bf16 values; outputs are rounded once (relative 2^-8).
    const double tolerance = type == Compute::kFp32 ? 2e-6 : 5e-3;
    for (const ConvShape& s : shapes) {
      const Floats x = Cells(type, random_floats(s.batch * s.in_values(), 1)).floats();
      const Floats w = Cells(type, random_floats(s.weights(), 2)).floats();
      const Floats dy = Cells(type, random_floats(s.batch * s.out_values(), 3)).floats();
      const ConvReference want = plain_convolution(s, x, w, dy);
      const auto convolution = Cells::device().convolution(s, type);
      Scratch scratch(convolution->scratch_bytes());
      Cells cx(type, x), cdy(type, dy), cy(type, s.batch * s.out_values()), cdx(type, x);
      convolution->forward(cx.data(), w.data(), cy.data(), scratch.data());
      expect_near(cy.floats(), want.y, tolerance);
      Floats dw(w.size());
      convolution->backward(cx.data(), w.data(), cdy.data(), cdx.data(), false, dw.data(), scratch.data());
      expect_near(cdx.floats(), want.dx, tolerance);
      expect_near(dw, want.dw, 1e-5);
      // Added to what is there; and without an input gradient.
      convolution->backward(cx.data(), w.data(), cdy.data(), cdx.data(), true, dw.data(), scratch.data());
      std::vector<double> twice = want.dx;
      for (double& v : twice) v *= 2;
      expect_near(cdx.floats(), twice, 2 * tolerance);
      Floats dw_alone(w.size());
      convolution->backward(cx.data(), w.data(), cdy.data(), nullptr, false, dw_alone.data(), scratch.data());
      EXPECT_EQ(dw_alone, dw);
    }
  }
}

TEST(Convolution, GradientsByFiniteDifferences) {
  const ConvShape s{4, 6, 6, 8, 16, 3, 2, 1};
  const Floats x = random_floats(s.batch * s.in_values(), 1), w = random_floats(s.weights(), 2);
  const Floats r = random_floats(s.batch * s.out_values(), 3);
  const auto convolution = Cells::device().convolution(s, Compute::kFp32);
  Scratch scratch(convolution->scratch_bytes());
  Floats y(r.size()), dx(x.size()), dw(w.size());
  convolution->backward(x.data(), w.data(), r.data(), dx.data(), false, dw.data(), scratch.data());
  expect_gradient(x, dx, 0.5F, 1e-4, [&](const Floats& v) {
    convolution->forward(v.data(), w.data(), y.data(), scratch.data());
    return dot(y, r);
  });
  expect_gradient(w, dw, 0.5F, 1e-4, [&](const Floats& v) {
    convolution->forward(x.data(), v.data(), y.data(), scratch.data());
    return dot(y, r);
  });
}

// ---- matrix product --------------------------------------------------------------------------------------
// kind: bits 0 and 1 transpose the factors, bit 2 accumulates.
void expect_product(const std::int64_t (&size)[3], int kind, Compute type) {
  Scratch scratch(Cells::device().matmul_scratch_bytes(type, size[0], size[1]));
  MatrixArgs args{.transpose_a = (kind & 1) != 0,
                  .transpose_b = (kind & 2) != 0,
                  .m = size[0],
                  .n = size[1],
                  .k = size[2],
                  .type = type,
                  .accumulate = (kind & 4) != 0};
  Cells a_cells(type, random_floats(args.m * args.k, 1)), b_cells(type, random_floats(args.k * args.n, 2));
  const Floats a = a_cells.floats(), b = b_cells.floats();
  Floats c = random_floats(args.m * args.n, 3);
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
  args.a = a_cells.data();
  args.a_stride = args.transpose_a ? args.m : args.k;
  args.b = b_cells.data();
  args.b_stride = args.transpose_b ? args.k : args.n;
  args.c = c.data();
  args.c_stride = args.n;
  Cells::device().matmul(args, scratch.data());
  expect_near(c, want, 1e-5);
}

TEST(Matmul, EqualsPlainLoops) {
  const std::int64_t sizes[][3] = {{3, 5, 7},       {70, 130, 33},  {300, 20, 64},   {16, 1100, 40},
                                   {130, 258, 513}, {40, 35, 1030}, {600, 300, 260}, {1, 1, 1}};
  for (const auto& size : sizes) {
    for (int kind = 0; kind < 8; ++kind) expect_product(size, kind, Compute::kFp32);
  }
}

// As on processors with bf16 instructions (others multiply the same in fp32), and as on those without.
TEST(Matmul, OfBf16EqualsPlainLoops) {
  const bool saved = backend::multiplies_bf16();
  const std::int64_t sizes[][3] = {{70, 130, 33},  {300, 33, 64}, {40, 35, 1030},
                                   {280, 300, 20}, {3, 5, 7},     {1, 1100, 40}};
  for (const bool multiplies : {false, true}) {
    backend::multiplies_bf16() = multiplies;
    for (const auto& size : sizes) {
      for (int kind = 0; kind < 8; ++kind) expect_product(size, kind, Compute::kBf16);
    }
  }
  backend::multiplies_bf16() = saved;
}

TEST(Bias, ForwardAndBackward) {
  constexpr std::int64_t kRows = 5, kColumns = 300;
  const Floats x = away_from_zero(random_floats(kRows * kColumns, 1));
  const Floats bias(kColumns, 0.0F), dy = random_floats(kRows * kColumns, 2);
  for (const bool relu : {false, true}) {
    Floats y(x.size()), g(x.size()), db(kColumns);
    Cells::device().bias_forward(Compute::kFp32, kRows, kColumns, x.data(), bias.data(), relu, y.data());
    const void* dx = Cells::device().bias_backward(Compute::kFp32, kRows, kColumns, y.data(), dy.data(), relu,
                                                   relu ? g.data() : nullptr, db.data());
    if (!relu) {
      ASSERT_EQ(dx, dy.data());
      g = dy;
    }
    const auto value = [&](const Floats& v, const Floats& b) {
      Floats out(x.size());
      Cells::device().bias_forward(Compute::kFp32, kRows, kColumns, v.data(), b.data(), relu, out.data());
      return dot(out, dy);
    };
    expect_gradient(x, g, 0.05F, 1e-4, [&](const Floats& v) { return value(v, bias); });
    expect_gradient(bias, db, 0.05F, 1e-4, [&](const Floats& b) { return value(x, b); });
  }
}

// ---- batch norm ------------------------------------------------------------------------------------------
TEST(BatchNorm, StatisticsInClosedForm) {
  // Channel c holds offset + slope * row: mean offset + slope (rows-1)/2, variance slope^2 (rows^2-1)/12.
  for (const int channels : {3, 8, 16, 35, 64}) {
    const NormShape shape{5000, channels, Compute::kFp32};  // several shards, the last one partial
    Floats x;
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      for (int c = 0; c < channels; ++c) {
        x.push_back(100.0F * static_cast<float>(c) + 0x1p-9F * static_cast<float>((c + 1) * r));
      }
    }
    const auto n = static_cast<std::size_t>(channels);
    Floats mean(n), variance(n);
    Scratch scratch(Cells::device().norm_scratch_bytes(shape));
    Cells::device().norm_statistics(shape, x.data(), mean.data(), variance.data(), scratch.data());
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

TEST(BatchNorm, GradientsByFiniteDifferences) {
  for (const int channels : {3, 16, 40}) {
    for (int kind = 0; kind < 4; ++kind) {
      const bool relu = (kind & 1) != 0, residual = (kind & 2) != 0;
      const NormShape shape{60, channels, Compute::kFp32};
      const auto n = static_cast<std::size_t>(channels);
      const std::int64_t count = shape.rows * channels;
      const Floats x = random_floats(count, 1), dy = random_floats(count, 2);
      Floats res = random_floats(count, 3, 3.0F);
      const Floats weight = random_floats(channels, 4), bias = random_floats(channels, 5);
      Floats mean(n), deviation(n), y(x.size());
      Scratch scratch(Cells::device().norm_scratch_bytes(shape));
      const auto forward = [&](const Floats& vx, const Floats& vw, const Floats& vb, const Floats& vr) {
        Cells::device().norm_statistics(shape, vx.data(), mean.data(), deviation.data(), scratch.data());
        Floats scale(n), shift(n);
        for (std::size_t c = 0; c < n; ++c) {
          deviation[c] = 1 / std::sqrt(deviation[c] + 1e-5F);
          scale[c] = vw[c] * deviation[c];
          shift[c] = vb[c] - mean[c] * scale[c];
        }
        Cells::device().norm_apply(shape, vx.data(), scale.data(), shift.data(),
                                   residual ? vr.data() : nullptr, false, y.data());
        return y;
      };
      // Keep the sums before ReLU off its kink; without a residual, a small step must do.
      const Floats before = forward(x, weight, bias, res);
      if (residual) {
        for (std::size_t i = 0; i < res.size(); ++i) res[i] += before[i] < 0 ? -0.2F : 0.2F;
      }
      forward(x, weight, bias, res);
      // The gate of ReLU is held fixed, so that its kink does not blur the differences.
      const Floats gate = y;
      const auto value = [&](const Floats& vx, const Floats& vw, const Floats& vb, const Floats& vr) {
        const Floats out = forward(vx, vw, vb, vr);
        double sum = 0;
        for (std::size_t i = 0; i < out.size(); ++i) {
          if (!relu || gate[i] > 0) sum += 1.0 * out[i] * dy[i];
        }
        return sum;
      };
      Floats dx(x.size(), 0.5F), dres(x.size(), 0.25F), dw(n), db(n);
      NormBackward args;
      args.x = x.data();
      args.y = gate.data();
      args.dy = dy.data();
      args.relu = relu;
      args.mean = mean.data();
      args.inverse_deviation = deviation.data();
      args.weight = weight.data();
      args.weight_gradient = dw.data();
      args.bias_gradient = db.data();
      args.dx = dx.data();
      args.dresidual = residual ? dres.data() : nullptr;
      Cells::device().norm_backward(shape, args, scratch.data());
      args.accumulate = args.accumulate_residual = true;
      Floats dx2 = dx, dres2 = dres;
      args.dx = dx2.data();
      if (residual) args.dresidual = dres2.data();
      Cells::device().norm_backward(shape, args, scratch.data());
      for (std::size_t i = 0; i < dx.size(); ++i) {
        ASSERT_EQ(dx2[i], dx[i] + dx[i]);
        ASSERT_EQ(dres2[i], residual ? dres[i] + dres[i] : 0.25F);
      }
      expect_gradient(x, dx, 0.02F, 2e-3, [&](const Floats& v) { return value(v, weight, bias, res); });
      expect_gradient(weight, dw, 0.02F, 1e-3, [&](const Floats& v) { return value(x, v, bias, res); });
      expect_gradient(bias, db, 0.02F, 1e-3, [&](const Floats& v) { return value(x, weight, v, res); });
      if (residual) {
        expect_gradient(res, dres, 0.02F, 1e-3, [&](const Floats& v) { return value(x, weight, bias, v); });
      }
    }
  }
}

TEST(BatchNorm, ApplyRoundsOnceInBf16AndGatesOnPositive) {
  const NormShape shape{33, 16, Compute::kBf16};
  const Floats x = Cells(Compute::kBf16, random_floats(33 * 16, 1)).floats();
  const Floats scale = random_floats(16, 2), shift = random_floats(16, 3);
  Cells cx(Compute::kBf16, x), cy(Compute::kBf16, 33 * 16);
  Cells::device().norm_apply(shape, cx.data(), scale.data(), shift.data(), nullptr, true, cy.data());
  const Floats y = cy.floats();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float v = x[i] * scale[i % 16] + shift[i % 16];
    EXPECT_EQ(y[i], v > 0 ? bf16_to_float(float_to_bf16(v)) : 0.0F);
  }
}

// ---- element loops, pooling, shortcut --------------------------------------------------------------------
TEST(ElementLoops, EveryBf16ValueAndTails) {
  Device& device = Cells::device();
  std::vector<std::uint16_t> all(65536), back(65536);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  Floats wide(65536);
  device.to_float(Compute::kBf16, 65536, all.data(), wide.data());
  device.from_float(Compute::kBf16, 65536, wide.data(), back.data());
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(float_bits(wide[i]), float_bits(bf16_to_float(all[i])));
    ASSERT_EQ(back[i], float_to_bf16(wide[i]));
  }
  const Floats odd = random_floats(1003, 9);  // not a multiple of the lanes; roundings of any kind
  device.from_float(Compute::kBf16, 1003, odd.data(), back.data());
  for (std::size_t i = 0; i < odd.size(); ++i) ASSERT_EQ(back[i], float_to_bf16(odd[i]));
  Floats rounded = odd;
  loops::round_bf16(1003, rounded.data());
  for (std::size_t i = 0; i < odd.size(); ++i) ASSERT_EQ(rounded[i], bf16_to_float(float_to_bf16(odd[i])));
}

TEST(ElementLoops, ReluKeepsNan) {
  const Floats x = {std::nanf(""), -1, 2, 0, 1, 2, 3, -4, std::nanf(""), -5};
  Floats y(x.size());
  Cells::device().relu_forward(Compute::kFp32, static_cast<std::int64_t>(x.size()), x.data(), y.data());
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[8]));
  EXPECT_EQ(y[1] + y[7] + y[9], 0);
  EXPECT_EQ(y[2], 2);
}

TEST(SmallOps, GradientsByFiniteDifferences) {
  Device& device = Cells::device();
  constexpr Compute kType = Compute::kFp32;
  const PoolShape average{2, 6, 5, 3, 3, 2}, maximum{2, 6, 6, 5, 2, 2};
  const ShortcutShape cut{2, 6, 6, 4, 10, 2};
  struct Case {
    const char* name;
    std::int64_t inputs, outputs;
    std::function<void(const float*, float*)> forward;
    std::function<void(const float*, const float*, const float*, float*, bool)> backward;  // x, y, dy, dx
  };
  const Case cases[] = {
      {"relu", 77, 77, [&](const float* x, float* y) { device.relu_forward(kType, 77, x, y); },
       [&](const float*, const float* y, const float* dy, float* dx, bool add) {
         device.relu_backward(kType, 77, y, dy, dx, add);
       }},
      {"average", 2 * 6 * 5 * 3, 2 * 2 * 2 * 3,
       [&](const float* x, float* y) { device.average_pool_forward(average, kType, x, y); },
       [&](const float*, const float*, const float* dy, float* dx, bool add) {
         device.average_pool_backward(average, kType, dy, dx, add);
       }},
      {"maximum", 2 * 6 * 6 * 5, 2 * 3 * 3 * 5,
       [&](const float* x, float* y) { device.max_pool_forward(maximum, kType, x, y); },
       [&](const float* x, const float*, const float* dy, float* dx, bool add) {
         device.max_pool_backward(maximum, kType, x, dy, dx, add);
       }},
      {"shortcut", 2 * 6 * 6 * 4, 2 * 3 * 3 * 10,
       [&](const float* x, float* y) { device.shortcut_forward(cut, kType, x, y); },
       [&](const float*, const float*, const float* dy, float* dx, bool add) {
         device.shortcut_backward(cut, kType, dy, dx, add);
       }},
      {"copy", 50, 50, [&](const float* x, float* y) { device.copy_or_add(kType, 50, x, y, false); },
       [&](const float*, const float*, const float* dy, float* dx, bool add) {
         device.copy_or_add(kType, 50, dy, dx, add);
       }},
      {"add", 50, 50, [&](const float* x, float* y) { device.add(kType, 50, x, x, y); },
       [&](const float*, const float*, const float* dy, float* dx, bool add) {
         device.copy_or_add(kType, 50, dy, dx, add);
         device.copy_or_add(kType, 50, dy, dx, true);
       }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    // Distinct multiples of 0.25 in random order: no ties and no kinks within the step.
    Floats x(static_cast<std::size_t>(c.inputs));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.25F * (static_cast<float>(i) - 20.5F);
    std::shuffle(x.begin(), x.end(), std::mt19937(5));
    const Floats r = random_floats(c.outputs, 6);
    Floats y(r.size()), dx(x.size()), twice;
    c.forward(x.data(), y.data());
    c.backward(x.data(), y.data(), r.data(), dx.data(), false);
    twice = dx;
    c.backward(x.data(), y.data(), r.data(), twice.data(), true);
    for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(twice[i], 2 * dx[i], 1e-5);
    expect_gradient(x, dx, 0.06F, 3e-4, [&](const Floats& v) {
      c.forward(v.data(), y.data());
      return dot(y, r);
    });
  }
}

TEST(Shortcut, OptionASubsamplesAndCentresChannels) {
  const ShortcutShape s{1, 4, 4, 2, 4, 2};
  Floats x(32), y(16);
  std::iota(x.begin(), x.end(), 1.0F);
  Cells::device().shortcut_forward(s, Compute::kFp32, x.data(), y.data());
  EXPECT_EQ(y, (Floats{0, 1, 2, 0, 0, 5, 6, 0, 0, 17, 18, 0, 0, 21, 22, 0}));
}

LossResult loss_of(const LossShape& shape, Compute type, const void* logits, const std::int32_t* labels) {
  LossResult result;
  Cells::device().softmax_loss(shape, type, logits, labels, &result);
  return result;
}

// ---- loss ------------------------------------------------------------------------------------------------
TEST(Loss, ClosedForms) {
  const std::int32_t labels[] = {3, 0};
  // Uniform logits: log C whatever the smoothing.
  for (const double smoothing : {0.0, 0.1}) {
    const Floats flat(20, 4.0F);
    EXPECT_NEAR(loss_of({2, 10, smoothing}, Compute::kFp32, flat.data(), labels).sum, 2 * std::log(10.0),
                1e-12);
  }
  // One logit a above the rest: log(C - 1 + e^a) - a (1 - s + s / C) for its label.
  Floats one(10, 0.0F);
  one[3] = 2.5F;
  for (const double s : {0.0, 0.1, 0.5}) {
    const LossResult r = loss_of({1, 10, s}, Compute::kFp32, one.data(), labels);
    EXPECT_NEAR(r.sum, std::log(9 + std::exp(2.5)) - 2.5 * (1 - s + s / 10), 1e-12);
    EXPECT_EQ(r.correct, 1);
    Floats gradient(10);
    Cells::device().softmax_loss_backward({1, 10, s}, Compute::kFp32, one.data(), labels, gradient.data());
    const double p = std::exp(2.5) / (9 + std::exp(2.5));
    EXPECT_NEAR(gradient[3], p - (1 - s) - s / 10, 1e-6);
    EXPECT_NEAR(gradient[0], (1 - p) / 9 - s / 10, 1e-6);
  }
  // Large logits do not overflow.
  Floats large(20, -3e38F);
  large[3] = 3e38F;
  EXPECT_TRUE(std::isfinite(loss_of({1, 10, 0}, Compute::kFp32, large.data(), labels).sum));
}

TEST(Loss, GradientByFiniteDifferences) {
  const LossShape shape{6, 7, 0.1};
  const std::int32_t labels[] = {0, 1, 2, 3, 6, 5};
  const Floats x = random_floats(42, 1);
  Floats dx(42);
  Cells::device().softmax_loss_backward(shape, Compute::kFp32, x.data(), labels, dx.data());
  expect_gradient(x, dx, 0.01F, 1e-4,
                  [&](const Floats& v) { return loss_of(shape, Compute::kFp32, v.data(), labels).sum / 6; });
}

// ---- threads ---------------------------------------------------------------------------------------------
TEST(Threads, SameBitsForOneTwoThree) {
  const ConvShape s{12, 16, 16, 16, 32, 3, 2, 1};
  for (const Compute type : {Compute::kFp32, Compute::kBf16}) {
    Floats first_y, first_dx, first_dw, first_mean, first_product;
    for (const int threads : {1, 2, 3}) {
      CpuDevice device(threads);
      const auto convolution = device.convolution(s, type);
      Scratch scratch(convolution->scratch_bytes());
      Cells x(type, random_floats(s.batch * s.in_values(), 1)),
          dy(type, random_floats(s.batch * s.out_values(), 2));
      const Floats w = random_floats(s.weights(), 3);
      Cells y(type, s.batch * s.out_values()), dx(type, s.batch * s.in_values());
      Floats dw(w.size());
      convolution->forward(x.data(), w.data(), y.data(), scratch.data());
      convolution->backward(x.data(), w.data(), dy.data(), dx.data(), false, dw.data(), scratch.data());
      const NormShape norm{s.batch * 64, 32, type};
      Scratch norm_scratch(device.norm_scratch_bytes(norm));
      Floats mean(32), variance(32);
      device.norm_statistics(norm, y.data(), mean.data(), variance.data(), norm_scratch.data());
      mean.insert(mean.end(), variance.begin(), variance.end());
      // As they lie, and packed.
      Floats product(2 * 600 * 300);
      Cells a(type, random_floats(600 * 50, 4)), b(type, random_floats(50 * 300, 5));
      Scratch matmul_scratch(device.matmul_scratch_bytes(type, 600, 300));
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
                      matmul_scratch.data());
      }
      if (threads == 1) {
        first_y = y.floats(), first_dx = dx.floats(), first_dw = dw, first_mean = mean,
        first_product = product;
      } else {
        EXPECT_EQ(first_y, y.floats());
        EXPECT_EQ(first_dx, dx.floats());
        EXPECT_EQ(first_dw, dw);
        EXPECT_EQ(first_mean, mean);
        EXPECT_EQ(first_product, product);
      }
    }
  }
}

}  // namespace
}  // namespace lpmm::kernels
