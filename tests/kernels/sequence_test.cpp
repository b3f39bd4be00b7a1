// The kernels of transformers against plain double-precision loops, and the same bits for any device.
#include "kernels/sequence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/cpu.h"
#include "tests/kernels/activations.h"

namespace lpmm::kernels {
namespace {

using Doubles = std::vector<double>;
constexpr Compute kTypes[] = {Compute::kFp32, Compute::kBf16};

double tolerance_of(Compute type) {
  return type == Compute::kFp32 ? 2e-6 : 8e-3;
}
// As the type holds them.
Floats rounded(Compute type, const Floats& x) {
  return Cells(type, x).floats();
}

// ---- layer norm ------------------------------------------------------------------------------------------
struct LayerNormReference {
  Doubles y, dx, dweight, dbias;
};
LayerNormReference plain_layer_norm(std::int64_t rows, std::int64_t width, const Floats& x, const Floats& w,
                                    const Floats& b, const Floats& dy) {
  LayerNormReference r;
  r.y.resize(x.size());
  r.dx.resize(x.size());
  r.dweight.resize(w.size());
  r.dbias.resize(w.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto at = [&](std::int64_t c) { return static_cast<std::size_t>(row * width + c); };
    const auto n = static_cast<double>(width);
    double mean = 0, variance = 0, g_mean = 0, gn_mean = 0;
    for (std::int64_t c = 0; c < width; ++c) mean += x[at(c)] / n;
    for (std::int64_t c = 0; c < width; ++c) variance += (x[at(c)] - mean) * (x[at(c)] - mean) / n;
    const double inverse = 1 / std::sqrt(variance + 1e-5);
    for (std::int64_t c = 0; c < width; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const double normal = (x[at(c)] - mean) * inverse;
      r.y[at(c)] = normal * w[i] + b[i];
      r.dweight[i] += dy[at(c)] * normal;
      r.dbias[i] += dy[at(c)];
      g_mean += dy[at(c)] * w[i] / n;
      gn_mean += dy[at(c)] * w[i] * normal / n;
    }
    for (std::int64_t c = 0; c < width; ++c) {
      const double normal = (x[at(c)] - mean) * inverse;
      r.dx[at(c)] = inverse * (dy[at(c)] * w[static_cast<std::size_t>(c)] - g_mean - normal * gn_mean);
    }
  }
  return r;
}

TEST(LayerNorm, ForwardAndBackwardAreThoseOfPlainLoops) {
  for (const Compute type : kTypes) {
    for (const auto& [rows, width] : {std::pair{1, 1}, {3, 7}, {5, 16}, {40, 100}, {700, 128}}) {
      const RowNormShape shape{rows, width, type};
      const std::int64_t count = std::int64_t{1} * rows * width;
      Floats x = rounded(type, random_floats(count, 1, 3));
      for (float& v : x) v += 1;
      x = rounded(type, x);
      const Floats dy = rounded(type, random_floats(count, 2)), w = random_floats(width, 3),
                   b = random_floats(width, 4);
      const LayerNormReference want = plain_layer_norm(rows, width, x, w, b, dy);
      Cells cx(type, x), cdy(type, dy), cy(type, count), cdx(type, Floats(x.size(), 2.0F));
      Floats mean(static_cast<std::size_t>(rows)), inverse(mean), dw(w.size()), db(w.size());
      Cells::device().layer_norm_forward(shape, cx.data(), w.data(), b.data(), cy.data(), mean.data(),
                                         inverse.data());
      expect_near(cy.floats(), want.y, tolerance_of(type));
      Scratch scratch(Cells::device().layer_norm_scratch_bytes(shape));
      RowNormBackward args{cx.data(),  cdy.data(), w.data(),  mean.data(), inverse.data(),
                           cdx.data(), false,      dw.data(), db.data()};
      Cells::device().layer_norm_backward(shape, args, scratch.data());
      // One value a row has no gradient but rounding.
      const double tolerance = width == 1 ? 1 : tolerance_of(type);
      if (width > 1) expect_near(cdx.floats(), want.dx, 4 * tolerance);
      expect_near(dw, want.dweight, 1e-5);
      expect_near(db, want.dbias, 1e-5);
      // Added to what is there.
      const Floats once = cdx.floats();
      args.accumulate = true;
      Cells::device().layer_norm_backward(shape, args, scratch.data());
      Doubles twice;
      for (const float v : once) twice.push_back(2.0 * v);
      if (width > 1) expect_near(cdx.floats(), twice, 4 * tolerance);
    }
  }
}

// ---- GELU ------------------------------------------------------------------------------------------------
double plain_gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Gelu, ValuesAndSlopesOverTheWholeRange) {
  Floats x;
  for (int i = -1300; i <= 1300; ++i) x.push_back(static_cast<float>(i) * 0.01F);
  for (const float far : {-1e30F, -200.0F, 200.0F, 1e12F}) x.push_back(far);
  for (const Compute type : kTypes) {
    const Floats values = rounded(type, x);
    const auto count = static_cast<std::int64_t>(values.size());
    const Floats dy = rounded(type, random_floats(count, 5));
    Cells cx(type, values), cy(type, count), cdy(type, dy), cdx(type, Floats(values.size(), 1.0F));
    Cells::device().gelu_forward(type, count, cx.data(), cy.data());
    Cells::device().gelu_backward(type, count, cx.data(), cdy.data(), cdx.data(), true);
    const Floats y = cy.floats(), dx = cdx.floats();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double v = values[i];
      ASSERT_NEAR(y[i], plain_gelu(v), (std::abs(plain_gelu(v)) + 1e-2) * tolerance_of(type)) << v;
      if (std::abs(v) > 100) continue;
      const double slope = (plain_gelu(v + 1e-5) - plain_gelu(v - 1e-5)) / 2e-5;
      ASSERT_NEAR(dx[i], 1 + dy[i] * slope, (std::abs(dy[i]) + 1) * 4 * tolerance_of(type)) << v;
    }
  }
}

TEST(Gelu, NanStaysNan) {
  const float nan = std::nanf("");
  float y = 0;
  Cells::device().gelu_forward(Compute::kFp32, 1, &nan, &y);
  EXPECT_TRUE(std::isnan(y));
}

// ---- dropout ---------------------------------------------------------------------------------------------
// The share that is dropped, the mean, the same elements for the same noise, and each by its own draw.
TEST(Dropout, DropsByTheDrawOfTheElement) {
  const std::int64_t count = 20001;
  const Noise noise{3, 1, 4, 15};
  const Floats x = random_floats(count, 15);
  for (const Compute type : kTypes) {
    Cells cx(type, x), cy(type, Floats(x.size(), 0.0F));
    const Floats held = cx.floats();
    Cells::device().dropout(type, count, {noise, 16384, 4.0F / 3}, cx.data(), cy.data(), false);
    const Floats y = cy.floats();
    int dropped = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const bool keeps = noise_draw(noise, static_cast<std::int64_t>(i)) >= 16384;
      ASSERT_NEAR(y[i], keeps ? held[i] * 4 / 3 : 0, std::abs(held[i]) * tolerance_of(type)) << i;
      dropped += keeps ? 0 : 1;
    }
    EXPECT_NEAR(dropped, 0.25 * static_cast<double>(count),
                5 * std::sqrt(0.1875 * static_cast<double>(count)));
    Cells::device().dropout(type, count, {noise, 16384, 4.0F / 3}, cx.data(), cy.data(), true);
    const Floats twice = cy.floats();
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(twice[i], 2 * y[i], std::abs(y[i]) * 3 * tolerance_of(type));
  }
}

// ---- attention -------------------------------------------------------------------------------------------
// y of one sequence set, in double, and d(sum dy * y) / dqkv.
Doubles plain_attention(const AttentionShape& s, const Floats& qkv, const Dropout& drop, const Floats& dy,
                        Doubles* gradient) {
  const int d = s.head_width;
  const std::int64_t width = s.width();
  Doubles y(static_cast<std::size_t>(s.rows() * width));
  gradient->assign(qkv.size(), 0);
  for (int n = 0; n < s.batch; ++n) {
    for (int h = 0; h < s.heads; ++h) {
      const auto at = [&](int t, int part, int c) {
        return static_cast<std::size_t>(((std::int64_t{n} * s.length + t) * 3 + part) * width + h * d + c);
      };
      const auto out = [&](int t, int c) {
        return static_cast<std::size_t>((std::int64_t{n} * s.length + t) * width + h * d + c);
      };
      for (int t = 0; t < s.length; ++t) {
        Doubles p(static_cast<std::size_t>(t + 1)), dp(p.size());
        double most = -1e300, sum = 0, mean = 0;
        for (int u = 0; u <= t; ++u) {
          double score = 0;
          for (int c = 0; c < d; ++c) score += 1.0 * qkv[at(t, 0, c)] * qkv[at(u, 1, c)] / std::sqrt(1.0 * d);
          p[static_cast<std::size_t>(u)] = score;
          most = std::max(most, score);
        }
        for (double& v : p) sum += v = std::exp(v - most);
        for (int u = 0; u <= t; ++u) {
          double& v = p[static_cast<std::size_t>(u)];
          v /= sum;
          const std::int64_t padded = (s.length + 127) / 128 * 128;
          const std::int64_t element = ((std::int64_t{n} * s.heads + h) * s.length + t) * padded + u;
          const double kept = noise_draw(drop.noise, element) >= drop.threshold ? drop.scale : 0;
          for (int c = 0; c < d; ++c) {
            y[out(t, c)] += kept * v * qkv[at(u, 2, c)];
            dp[static_cast<std::size_t>(u)] += kept * dy[out(t, c)] * qkv[at(u, 2, c)];
            (*gradient)[at(u, 2, c)] += kept * v * dy[out(t, c)];
          }
          mean += v * dp[static_cast<std::size_t>(u)];
        }
        for (int u = 0; u <= t; ++u) {
          const auto i = static_cast<std::size_t>(u);
          const double ds = p[i] * (dp[i] - mean) / std::sqrt(1.0 * d);
          for (int c = 0; c < d; ++c) {
            (*gradient)[at(t, 0, c)] += ds * qkv[at(u, 1, c)];
            (*gradient)[at(u, 1, c)] += ds * qkv[at(t, 0, c)];
          }
        }
      }
    }
  }
  return y;
}

TEST(Attention, ForwardAndBackwardAreThoseOfPlainLoops) {
  for (const Compute type : kTypes) {
    // Lengths below, at and past one and two tiles of scores.
    for (const AttentionShape shape : {AttentionShape{2, 1, 1, 4, type},
                                       {2, 9, 3, 5, type},
                                       {1, 128, 2, 16, type},
                                       {1, 129, 1, 8, type},
                                       {2, 300, 2, 8, type}}) {
      const std::int64_t count = shape.rows() * shape.width();
      const Floats qkv = rounded(type, random_floats(3 * count, 6)),
                   dy = rounded(type, random_floats(count, 7));
      for (const Dropout& drop : {Dropout{}, Dropout{{3, 1, 4, 13}, 13107, 1.25F}}) {
        Doubles want_gradient;
        const Doubles want = plain_attention(shape, qkv, drop, dy, &want_gradient);
        Cells cq(type, qkv), cy(type, count), cdy(type, dy), cd(type, 3 * count);
        Floats log_sums(static_cast<std::size_t>(shape.rows() * shape.heads));
        Scratch scratch(Cells::device().attention_scratch_bytes(shape));
        Cells::device().attention_forward(shape, cq.data(), drop, cy.data(), log_sums.data(), scratch.data());
        expect_near(cy.floats(), want, tolerance_of(type));
        Cells::device().attention_backward(shape, cq.data(), drop, cy.data(), log_sums.data(), cdy.data(),
                                           cd.data(), false, scratch.data());
        expect_near(cd.floats(), want_gradient, 2 * tolerance_of(type));
      }
    }
  }
}

// Scores far apart: the online maximum must hold; and a row with one enormous score is that row's value.
TEST(Attention, LargeScoresStayFinite) {
  const AttentionShape shape{1, 200, 1, 4, Compute::kFp32};
  Floats qkv(static_cast<std::size_t>(3 * shape.rows() * 4), 0.0F);
  for (int t = 0; t < shape.length; ++t) {
    qkv[static_cast<std::size_t>(12 * t)] = 300;                        // q
    qkv[static_cast<std::size_t>(12 * t + 4)] = static_cast<float>(t);  // k grows with t: the last one wins
    qkv[static_cast<std::size_t>(12 * t + 8)] = static_cast<float>(t);  // v
  }
  Floats y(static_cast<std::size_t>(shape.rows() * 4)), log_sums(200);
  Scratch scratch(Cells::device().attention_scratch_bytes(shape));
  Cells::device().attention_forward(shape, qkv.data(), {}, y.data(), log_sums.data(), scratch.data());
  for (int t = 0; t < shape.length; ++t) {
    ASSERT_EQ(y[static_cast<std::size_t>(4 * t)], static_cast<float>(t));
    ASSERT_NEAR(log_sums[static_cast<std::size_t>(t)], 150.0 * t, 1e-3 * (t + 1));
  }
}

TEST(Attention, TheFutureChangesNothing) {
  const AttentionShape shape{1, 150, 2, 8, Compute::kFp32};
  Floats qkv = random_floats(3 * shape.rows() * shape.width(), 8);
  Floats y(static_cast<std::size_t>(shape.rows() * shape.width())), other(y), log_sums(300);
  Scratch scratch(Cells::device().attention_scratch_bytes(shape));
  Cells::device().attention_forward(shape, qkv.data(), {}, y.data(), log_sums.data(), scratch.data());
  const auto cut = static_cast<std::size_t>(140 * shape.width());
  for (std::size_t i = 3 * cut; i < qkv.size(); ++i) qkv[i] = -qkv[i];
  Cells::device().attention_forward(shape, qkv.data(), {}, other.data(), log_sums.data(), scratch.data());
  EXPECT_TRUE(std::equal(y.begin(), y.begin() + static_cast<std::ptrdiff_t>(cut), other.begin()));
  EXPECT_NE(y, other);
}

// ---- embedding -------------------------------------------------------------------------------------------
TEST(SumRows, AddsTheRowsOfEachGroupInOrder) {
  const std::int64_t width = 19;
  const Floats x = random_floats(6 * width, 9);
  const std::vector<std::int32_t> rows = {4, 0, 0, 5};
  const std::vector<std::int64_t> first = {0, 1, 1, 4};
  for (const Compute type : kTypes) {
    Cells cells(type, x);
    const Floats held = cells.floats();
    Floats out(static_cast<std::size_t>(3 * width), 9.0F);
    Cells::device().sum_rows(type, width, cells.data(), rows.data(), first.data(), 3, out.data());
    for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c) {
      const auto at = [&](std::size_t row) { return held[row * static_cast<std::size_t>(width) + c]; };
      ASSERT_EQ(out[c], at(4));
      ASSERT_EQ(out[static_cast<std::size_t>(width) + c], 0.0F);
      ASSERT_EQ(out[static_cast<std::size_t>(2 * width) + c], at(0) + at(0) + at(5));
    }
  }
}

// ---- loss ------------------------------------------------------------------------------------------------
TEST(ChunkedSoftmax, AnyChunksGiveTheLossAndItsGradient) {
  const std::int64_t rows = 23, classes = 101;
  const Floats logits = random_floats(rows * classes, 10, 5);
  std::vector<std::int32_t> labels;
  for (std::int64_t r = 0; r < rows; ++r) labels.push_back(static_cast<std::int32_t>(r * 37 % classes));
  for (const std::int64_t chunk : {1, 7, 16, 50, 100, 101}) {
    std::vector<SoftmaxRow> state(static_cast<std::size_t>(rows));
    const auto part = [&](std::int64_t first) {
      Floats columns;
      const std::int64_t n = std::min(chunk, classes - first);
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto at = logits.begin() + r * classes + first;
        columns.insert(columns.end(), at, at + n);
      }
      return columns;
    };
    for (std::int64_t first = 0; first < classes; first += chunk) {
      const Floats columns = part(first);
      Cells::device().softmax_scan(rows, first, std::min(chunk, classes - first), columns.data(),
                                   labels.data(), state.data());
    }
    Floats log_sums;
    for (std::int64_t r = 0; r < rows; ++r) {
      const SoftmaxRow& s = state[static_cast<std::size_t>(r)];
      const float* row = logits.data() + r * classes;
      double sum = 0;
      for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(row[c]));
      ASSERT_EQ(s.best, std::max_element(row, row + classes) - row);
      ASSERT_EQ(s.target, row[labels[static_cast<std::size_t>(r)]]);
      ASSERT_NEAR(s.maximum + std::log(s.sum), std::log(sum), 1e-5);
      log_sums.push_back(static_cast<float>(s.maximum + std::log(s.sum)));
    }
    for (std::int64_t first = 0; first < classes; first += chunk) {
      Floats columns = part(first), logits_again = columns;
      const std::int64_t n = std::min(chunk, classes - first);
      Cells narrow(Compute::kBf16, rows * n);
      Cells::device().softmax_gradient(Compute::kFp32, rows, first, n, 0.25F, log_sums.data(), labels.data(),
                                       columns.data(), columns.data());
      Cells::device().softmax_gradient(Compute::kBf16, rows, first, n, 0.25F, log_sums.data(), labels.data(),
                                       logits_again.data(), narrow.data());
      ASSERT_EQ(narrow.floats(), Cells(Compute::kBf16, columns).floats());
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < n; ++c) {
          const auto i = static_cast<std::size_t>(r);
          const double p = std::exp(
              static_cast<double>(logits[static_cast<std::size_t>(r * classes + first + c)]) - log_sums[i]);
          ASSERT_NEAR(columns[static_cast<std::size_t>(r * n + c)],
                      0.25 * (p - (labels[i] == first + c ? 1 : 0)), 1e-6);
        }
      }
    }
  }
}

TEST(ChunkedSoftmax, NanReachesTheSum) {
  Floats logits(40, 1.0F);
  logits[21] = std::nanf("");
  const std::int32_t label = 0;
  SoftmaxRow state;
  Cells::device().softmax_scan(1, 0, 40, logits.data(), &label, &state);
  EXPECT_TRUE(std::isnan(state.sum));
}

TEST(Sequence, SameBitsForAnyThreads) {
  const RowNormShape norm{900, 96, Compute::kBf16};
  const AttentionShape attention{3, 140, 2, 48, Compute::kBf16};
  const Dropout drop{{3, 1, 4, 13}, 6554, 1.1F};
  std::vector<Floats> results;
  for (const int threads : {1, 2, 3}) {
    CpuDevice device(threads);
    Cells x(Compute::kBf16, random_floats(900 * 96, 11)), dy(Compute::kBf16, random_floats(900 * 96, 12)),
        dx(Compute::kBf16, 900 * 96), y(Compute::kBf16, 900 * 96);
    const Floats w = random_floats(96, 13);
    Floats mean(900), inverse(900), dw(96), db(96);
    Scratch scratch(device.layer_norm_scratch_bytes(norm));
    device.layer_norm_forward(norm, x.data(), w.data(), w.data(), y.data(), mean.data(), inverse.data());
    device.layer_norm_backward(
        norm,
        {x.data(), dy.data(), w.data(), mean.data(), inverse.data(), dx.data(), false, dw.data(), db.data()},
        scratch.data());
    Cells qkv(Compute::kBf16, random_floats(3 * 420 * 96, 14)), dqkv(Compute::kBf16, 3 * 420 * 96);
    Floats log_sums(3 * 2 * 140);
    Scratch room(device.attention_scratch_bytes(attention));
    device.attention_forward(attention, qkv.data(), drop, y.data(), log_sums.data(), room.data());
    device.attention_backward(attention, qkv.data(), drop, y.data(), log_sums.data(), dy.data(), dqkv.data(),
                              false, room.data());
    Floats all = dx.floats();
    for (const Floats& more : {y.floats(), dqkv.floats(), log_sums, dw, db, mean}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    results.push_back(all);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace lpmm::kernels
