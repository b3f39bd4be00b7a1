// The kernels of transformers on every device, against plain double-precision loops.
#include "kernels/sequence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "kernels/cpu.h"
#include "tests/kernels/activations.h"
#include "tests/sanitized.h"

namespace lpmm::kernels {
namespace {

LPMM_DEVICE_SUITE(RowNormTest);
LPMM_DEVICE_SUITE(ActivationTest);
LPMM_DEVICE_SUITE(MeanTest);
LPMM_DEVICE_SUITE(SquareLossTest);
LPMM_DEVICE_SUITE(RotaryTest);
LPMM_DEVICE_SUITE(DropoutTest);
LPMM_DEVICE_SUITE(AttentionTest);
LPMM_DEVICE_SUITE(EmbeddingTest);
LPMM_DEVICE_SUITE(ChunkedSoftmaxTest);

using Doubles = std::vector<double>;
constexpr ValueType kTypes[] = {ValueType::kFp32, ValueType::kBf16};

double tolerance_of(ValueType type) {
  return type == ValueType::kFp32 ? 2e-6 : 8e-3;
}

// Returns the sums after the same values were added once more.
Doubles doubled(const Floats& once) {
  Doubles twice;
  for (const float v : once) twice.push_back(2.0 * v);
  return twice;
}

// ---- norms of rows ---------------------------------------------------------------------------------------
struct RowNormReference {
  Doubles y, dx, dweight, dbias;
};
RowNormReference plain_row_norm(const RowNormShape& s, const Floats& x, const Floats& stored, const Floats& b,
                                const Floats& dy) {
  Doubles w(stored.begin(), stored.end());
  for (double& v : w) v += s.adds_one ? 1 : 0;
  RowNormReference r;
  r.y.resize(x.size());
  r.dx.resize(x.size());
  r.dweight.resize(w.size());
  r.dbias.resize(w.size());
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const auto at = [&](std::int64_t c) { return static_cast<std::size_t>(row * s.width + c); };
    const auto n = static_cast<double>(s.width);
    double mean = 0, variance = 0, g_mean = 0, gn_mean = 0;
    for (std::int64_t c = 0; s.is_centred && c < s.width; ++c) mean += x[at(c)] / n;
    for (std::int64_t c = 0; c < s.width; ++c) variance += (x[at(c)] - mean) * (x[at(c)] - mean) / n;
    const double inverse = 1 / std::sqrt(variance + s.epsilon);
    for (std::int64_t c = 0; c < s.width; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const double normal = (x[at(c)] - mean) * inverse;
      r.y[at(c)] = normal * w[i] + (s.is_centred ? b[i] : 0);
      r.dweight[i] += dy[at(c)] * normal;
      r.dbias[i] += dy[at(c)];
      g_mean += s.is_centred ? dy[at(c)] * w[i] / n : 0;
      gn_mean += dy[at(c)] * w[i] * normal / n;
    }
    for (std::int64_t c = 0; c < s.width; ++c) {
      const double normal = (x[at(c)] - mean) * inverse;
      r.dx[at(c)] = inverse * (dy[at(c)] * w[static_cast<std::size_t>(c)] - g_mean - normal * gn_mean);
    }
  }
  return r;
}

TEST_P(RowNormTest, ForwardAndBackwardAreThoseOfPlainLoops) {
  const auto check = [&](const RowNormShape& shape) {
    const std::int64_t count = shape.rows * shape.width;
    const ValueType type = shape.type;
    Floats x = random_floats(count, 1, 3);
    for (float& v : x) v += 1;
    x = rounded(type, x);
    const Floats dy = rounded(type, random_floats(count, 2)), w = random_floats(shape.width, 3),
                 b = random_floats(shape.width, 4);
    const RowNormReference want = plain_row_norm(shape, x, w, b, dy);
    const Cells cx = cells(type, x), cdy = cells(type, dy), cy = cells(type, count),
                cdx = cells(type, Floats(x.size(), 2.0F));
    const auto rows = static_cast<std::size_t>(shape.rows);
    const auto weight = array(w), bias = array(b), mean = zeros(rows), inverse = zeros(rows),
               dw = zeros(w.size()), db = zeros(w.size());
    const bool has_mean = shape.is_centred;
    device().row_norm_forward(shape, {cx.data(), weight.data(), has_mean ? bias.data() : nullptr, cy.data(),
                                      has_mean ? mean.data() : nullptr, inverse.data()});
    expect_near(cy.floats(), want.y, tolerance_of(type));
    const auto room = scratch(device().row_norm_scratch_bytes(shape));
    RowNormBackward args{
        cx.data(),  cdy.data(), weight.data(), has_mean ? mean.data() : nullptr, inverse.data(),
        cdx.data(), false,      dw.data(),     has_mean ? db.data() : nullptr};
    device().row_norm_backward(shape, args, room.data());
    // One value per centred row has no gradient but rounding; a mean square's is as small.
    const bool has_gradient = shape.width > 1;
    if (has_gradient) expect_near(cdx.floats(), want.dx, 4 * tolerance_of(type));
    expect_near(dw.values(), want.dweight, 1e-5);
    if (has_mean) expect_near(db.values(), want.dbias, 1e-5);
    // Added to what is there.
    const Floats once = cdx.floats();
    args.accumulate = true;
    device().row_norm_backward(shape, args, room.data());
    if (has_gradient) expect_near(cdx.floats(), doubled(once), 4 * tolerance_of(type));
  };
  for (const ValueType type : kTypes) {
    for (const auto& [rows, width] :
         {std::pair{1, 1}, {3, 7}, {5, 16}, {40, 100}, {700, 128}, {3, 1100}, {300, 1336}}) {
      check({rows, width, type});
      check({rows, width, type, 1e-6, false});
      check({rows, width, type, 1e-6, false, 1, 0, true});
    }
    check({5, 24, type, 0.5, true});
  }
}

// Heads of positions: what lies between them is neither read nor written. 400 positions are more than one
// thread takes at once; a stride or a start that is no multiple of eight has no vectors on a GPU.
TEST_P(RowNormTest, HeadsAreRowsWithGaps) {
  constexpr std::int64_t kHeads = 3;
  const auto check = [&](ValueType type, std::int64_t positions, std::int64_t width, std::int64_t stride,
                         std::int64_t start) {
    const std::int64_t rows = positions * kHeads;
    const RowNormShape plain{rows, width, type, 1e-6, false};
    RowNormShape heads = plain;
    heads.beside = kHeads;
    heads.stride = stride;
    const Floats x = rounded(type, random_floats(rows * width, 1, 3)),
                 dy = rounded(type, random_floats(rows * width, 2)), w = random_floats(width, 3);
    const auto spread = [&](const Floats& values) {
      Floats out(static_cast<std::size_t>(positions * stride), 5.0F);
      for (std::int64_t i = 0; i < rows * width; ++i) {
        const std::int64_t row = i / width, at = row / kHeads * stride + row % kHeads * width + i % width;
        out[static_cast<std::size_t>(start + at)] = values[static_cast<std::size_t>(i)];
      }
      return out;
    };
    const auto weight = array(w);
    const auto run = [&](const RowNormShape& shape, const Floats& in, const Floats& gradient,
                         const Floats& before, std::int64_t first) {
      const Cells cx = cells(type, in), cdy = cells(type, gradient), cy = cells(type, before),
                  cdx = cells(type, before);
      const auto at = [&](const Cells& c) {
        return static_cast<std::byte*>(c.data()) + first * value_bytes(type);
      };
      const auto inverse = zeros(static_cast<std::size_t>(rows)), dw = zeros(w.size());
      device().row_norm_forward(shape, {at(cx), weight.data(), nullptr, at(cy), nullptr, inverse.data()});
      const auto room = scratch(device().row_norm_scratch_bytes(shape));
      RowNormBackward args{at(cx),  at(cdy), weight.data(), nullptr, inverse.data(),
                           at(cdx), false,   dw.data(),     nullptr};
      device().row_norm_backward(shape, args, room.data());
      const Floats once = cdx.floats();
      args.accumulate = true;
      device().row_norm_backward(shape, args, room.data());
      return std::tuple(cy.floats(), once, cdx.floats(), dw.values());
    };
    const Floats none(x.size(), 5.0F);
    const auto [y, dx, twice, dw] = run(plain, x, dy, none, 0);
    const auto [wide_y, wide_dx, wide_twice, wide_dw] =
        run(heads, spread(x), spread(dy), spread(none), start);
    EXPECT_EQ(wide_y, spread(y));
    EXPECT_EQ(wide_dx, spread(dx));
    EXPECT_EQ(wide_twice, spread(twice));
    expect_near(wide_dw, Doubles(dw.begin(), dw.end()), 1e-5);
  };
  for (const ValueType type : kTypes) {
    check(type, 70, 7, 200, 24);
    check(type, 70, 48, 200, 24);
    check(type, 400, 48, 200, 24);
    check(type, 20, 48, 203, 24);
    check(type, 20, 48, 200, 4);
  }
}

// ---- activations -----------------------------------------------------------------------------------------
constexpr Activation kActivations[] = {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
                                       Activation::kSilu, Activation::kTanh};
double plain_activation(Activation f, double x) {
  switch (f) {
    case Activation::kRelu:
      return x > 0 ? x : 0;
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
  }
  return 0;
}
double plain_slope(Activation f, double x) {
  if (f == Activation::kRelu) return x > 0 ? 1 : 0;
  return (plain_activation(f, x + 1e-5) - plain_activation(f, x - 1e-5)) / 2e-5;
}

TEST_P(ActivationTest, ValuesAndSlopesOverTheWholeRange) {
  Floats x;
  for (int i = -1300; i <= 1300; ++i) x.push_back(static_cast<float>(i) * 0.01F);
  for (const float far : {-1e30F, -200.0F, 200.0F, 1e12F}) x.push_back(far);
  for (const Activation f : kActivations) {
    for (const ValueType type : kTypes) {
      const Floats values = rounded(type, x);
      const auto count = static_cast<std::int64_t>(values.size());
      const Floats dy = rounded(type, random_floats(count, 5));
      const Cells cx = cells(type, values), cy = cells(type, count), cdy = cells(type, dy),
                  cdx = cells(type, Floats(values.size(), 1.0F));
      ActivationArgs args{.function = f,
                          .type = type,
                          .width = count,
                          .x = cx.data(),
                          .y = cy.data(),
                          .dy = cdy.data(),
                          .dx = cdx.data(),
                          .accumulate = true};
      device().activate(args);
      if (reads_output(f, false)) args.x = cy.data();
      device().activate_backward(args);
      const Floats y = cy.floats(), dx = cdx.floats();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double v = values[i], want = plain_activation(f, v);
        ASSERT_NEAR(y[i], want, (std::abs(want) + 1e-2) * tolerance_of(type)) << v;
        if (std::abs(v) > 100) continue;
        ASSERT_NEAR(dx[i], 1 + dy[i] * plain_slope(f, v), (std::abs(dy[i]) + 1) * 4 * tolerance_of(type))
            << v;
      }
    }
  }
}

TEST_P(ActivationTest, NanStaysNan) {
  const auto x = array(Floats{std::nanf("")}), y = zeros(1), dx = zeros(1);
  for (const Activation f : kActivations) {
    device().activate({.function = f, .width = 1, .x = x.data(), .y = y.data()});
    EXPECT_TRUE(std::isnan(y.values()[0]));
    if (f == Activation::kRelu) continue;  // it has passed, or it has not
    device().activate_backward({.function = f, .width = 1, .x = x.data(), .dy = x.data(), .dx = dx.data()});
    EXPECT_TRUE(std::isnan(dx.values()[0]));
  }
}

TEST_P(ActivationTest, GatesOneHalfOfTheChannelsByTheOther) {
  for (const Activation f : kActivations) {
    for (const ValueType type : kTypes) {
      for (const auto& [rows, width] : {std::pair{1, 1}, {3, 7}, {5, 16}, {41, 100}}) {
        const std::int64_t count = std::int64_t{1} * rows * width;
        const Floats x = rounded(type, random_floats(2 * count, 1, 4)),
                     dy = rounded(type, random_floats(count, 2));
        Doubles y, dx(x.size());
        for (std::size_t r = 0, w = static_cast<std::size_t>(width); r < static_cast<std::size_t>(rows);
             ++r) {
          for (std::size_t c = 0; c < w; ++c) {
            const double a = x[2 * r * w + c], b = x[(2 * r + 1) * w + c], d = dy[r * w + c];
            y.push_back(plain_activation(f, a) * b);
            dx[2 * r * w + c] = d * b * plain_slope(f, a);
            dx[(2 * r + 1) * w + c] = d * plain_activation(f, a);
          }
        }
        const Cells cx = cells(type, x), cy = cells(type, count), cdy = cells(type, dy),
                    cdx = cells(type, 2 * count);
        ActivationArgs args{f, true, type, rows, width, cx.data(), cy.data(), cdy.data(), cdx.data()};
        device().activate(args);
        expect_near(cy.floats(), y, tolerance_of(type));
        device().activate_backward(args);
        const Floats once = cdx.floats();
        expect_near(once, dx, 2 * tolerance_of(type));
        args.accumulate = true;
        device().activate_backward(args);
        expect_near(cdx.floats(), doubled(once), 2 * tolerance_of(type));
      }
    }
  }
}

TEST_P(ActivationTest, FarGatesStayFiniteAndNanStaysNan) {
  const auto x = array(Floats{-1000, 1000, std::nanf(""), 2, 3, 4}), y = zeros(3);
  device().activate({Activation::kSilu, true, ValueType::kFp32, 1, 3, x.data(), y.data()});
  const Floats got = y.values();
  EXPECT_NEAR(got[0], 0, 1e-30);
  EXPECT_EQ(got[1], 3000);
  EXPECT_TRUE(std::isnan(got[2]));
}

// ---- means of sequences ----------------------------------------------------------------------------------
TEST_P(MeanTest, IsOfThePositionsThatAreThere) {
  const std::vector<std::int32_t> counts{5, 1, 3};
  const auto lengths = array(counts);
  for (const ValueType type : kTypes) {
    for (const bool whole : {false, true}) {
      for (const bool is_weighted : {false, true}) {
        const MeanShape s{3, 5, 131, type, whole ? nullptr : lengths.data(), is_weighted};
        const Floats x = rounded(type, random_floats(3 * 5 * 131, 1)),
                     dy = rounded(type, random_floats(3 * 131, 2));
        Doubles y(3 * 131), dx(x.size(), 1.0);
        for (std::size_t n = 0; n < 3; ++n) {
          const auto count = whole ? std::size_t{5} : static_cast<std::size_t>(counts[n]);
          for (std::size_t t = 0; t < count; ++t) {
            const double plain = 1.0 / static_cast<double>(count),
                         share = is_weighted ? 2.0 * static_cast<double>(t + 1) * plain /
                                                   static_cast<double>(count + 1)
                                             : plain;
            for (std::size_t c = 0; c < 131; ++c) {
              y[n * 131 + c] += share * x[(n * 5 + t) * 131 + c];
              dx[(n * 5 + t) * 131 + c] += share * dy[n * 131 + c];
            }
          }
        }
        const Cells cx = cells(type, x), cy = cells(type, 3 * 131), cdy = cells(type, dy),
                    cdx = cells(type, Floats(x.size(), 1.0F));
        device().mean_forward(s, cx.data(), cy.data());
        expect_near(cy.floats(), y, tolerance_of(type));
        device().mean_backward(s, cdy.data(), cdx.data(), true);
        expect_near(cdx.floats(), dx, tolerance_of(type));
      }
    }
  }
}

// ---- squares ---------------------------------------------------------------------------------------------
TEST_P(SquareLossTest, IsTheSumOfSquaresAndItsMeansSlope) {
  for (const ValueType type : kTypes) {
    const Floats x = rounded(type, random_floats(1500, 1)), targets = random_floats(1500, 2);
    const Cells cx = cells(type, x), cdx = cells(type, 1500);
    const auto t = array(targets);
    const auto result = array(std::vector<LossResult>{{9, 9}});
    const LossArgs args{{1500, 1}, type, cx.data(), nullptr, t.data(), result.data(), cdx.data()};
    device().loss_forward(args);
    device().loss_backward(args);
    double sum = 0;
    Doubles dx;
    for (std::size_t i = 0; i < 1500; ++i) {
      const double off = static_cast<double>(x[i]) - targets[i];
      sum += off * off;
      dx.push_back(2 * off / 1500);
    }
    EXPECT_NEAR(result.values()[0].sum, sum, 1e-9 * sum);
    EXPECT_EQ(result.values()[0].correct, 0);
    expect_near(cdx.floats(), dx, tolerance_of(type));
  }
}

TEST_P(SquareLossTest, SeveralTargetsARowAreSigmoidsAndTheMeanMayBeOfOtherRows) {
  constexpr std::size_t kRows = 300, kClasses = 5;
  for (const ValueType type : kTypes) {
    Floats x = rounded(type, random_floats(kRows * kClasses, 1)), targets = random_floats(x.size(), 2);
    x[0] = 200;  // exp(x) overflows here
    x[1] = -200;
    for (float& t : targets) t = t > 0 ? 1.0F : 0.0F;
    for (std::size_t c = 0; c < kClasses; ++c) targets[10 + c] = x[10 + c] > 0 ? 1.0F : 0.0F;
    const Cells cx = cells(type, x), cdx = cells(type, x.size());
    const auto t = array(targets);
    const auto result = array(std::vector<LossResult>{{9, 9}});
    for (const double mean_of : {0.0, 17.5}) {
      const LossArgs args{{kRows, kClasses}, type,          cx.data(),  nullptr,
                          t.data(),          result.data(), cdx.data(), mean_of};
      device().loss_forward(args);
      device().loss_backward(args);
      double sum = 0;
      std::int64_t right = 0;
      Doubles dx;
      for (std::size_t i = 0; i < kRows; ++i) {
        bool all = true;
        for (std::size_t c = i * kClasses; c < (i + 1) * kClasses; ++c) {
          const double told = 1 / (1 + std::exp(-double{x[c]})), other = 1 / (1 + std::exp(double{x[c]}));
          // -log of the probability of what is: exp(-200) is one
          sum -= std::log(targets[c] > 0 ? told : other) / kClasses;
          all = all && (x[c] > 0) == (targets[c] > 0);
          dx.push_back((told - targets[c]) / kClasses / (mean_of > 0 ? mean_of : kRows));
        }
        right += all ? 1 : 0;
      }
      EXPECT_NEAR(result.values()[0].sum, sum, 1e-9 * sum);
      EXPECT_EQ(result.values()[0].correct, right);
      EXPECT_GT(right, 0);
      expect_near(cdx.floats(), dx, tolerance_of(type));
    }
  }
}

// ---- rotary positions ------------------------------------------------------------------------------------
TEST_P(RotaryTest, TurnsPairsByTheirPositionAndBack) {
  for (const ValueType type : kTypes) {
    // Widths of a head below, at and past a vector; all heads rotated, some, none; all of a head or a part;
    // rows of several shards.
    for (const auto& [batch, heads, rotated, width, part] : {std::tuple{2, 1, 1, 2, 0},
                                                             {2, 3, 2, 6, 0},
                                                             {2, 4, 3, 16, 0},
                                                             {2, 5, 0, 8, 0},
                                                             {2, 6, 5, 64, 0},
                                                             {40, 6, 5, 64, 0},
                                                             {2, 3, 2, 8, 6},
                                                             {2, 3, 2, 64, 48},
                                                             {2, 2, 2, 7, 2}}) {
      const RotaryShape s{batch * 9, 9, heads, rotated, width, type, part};
      const std::int64_t count = s.rows * s.width(), half = (part > 0 ? part : width) / 2;
      const Floats x = rounded(type, random_floats(count, 1));
      Floats angles;
      for (std::int64_t t = 0; t < s.length; ++t) {
        for (const bool is_sine : {false, true}) {
          for (std::int64_t i = 0; i < half; ++i) {
            const double angle = static_cast<double>(t) * (0.3 + static_cast<double>(i));
            angles.push_back(static_cast<float>(is_sine ? std::sin(angle) : std::cos(angle)));
          }
        }
      }
      Doubles want(x.begin(), x.end());
      for (std::int64_t r = 0; r < s.rows; ++r) {
        for (std::int64_t h = 0; h < rotated; ++h) {
          for (std::int64_t i = 0; i < half; ++i) {
            const auto at = static_cast<std::size_t>((r * heads + h) * width + i),
                       to = at + static_cast<std::size_t>(half);
            const double angle = static_cast<double>(r % s.length) * (0.3 + static_cast<double>(i));
            want[at] = x[at] * std::cos(angle) - x[to] * std::sin(angle);
            want[to] = x[to] * std::cos(angle) + x[at] * std::sin(angle);
          }
        }
      }
      const Cells cx = cells(type, x), cy = cells(type, count), back = cells(type, Floats(x.size(), 1.0F));
      const auto table = array(angles);
      device().rotary({s, table.data(), false, cx.data(), cy.data()});
      expect_near(cy.floats(), want, tolerance_of(type));
      std::vector<std::int32_t> rows;  // by lists of places that are those of sequences: the same bits
      for (std::int64_t r = 0; r < s.rows; ++r) rows.push_back(static_cast<std::int32_t>(r % s.length));
      const Cells by_places = cells(type, count);
      const auto places = array(rows);
      RotaryShape listed = s;
      listed.length = s.rows;
      device().rotary({listed, table.data(), false, cx.data(), by_places.data(), false, places.data()});
      EXPECT_EQ(by_places.floats(), cy.floats());
      device().rotary({s, table.data(), true, cy.data(), back.data(), true});
      Doubles one_more;
      for (const float v : x) one_more.push_back(1.0 + v);
      expect_near(back.floats(), one_more, 2 * tolerance_of(type));
    }
  }
}

// ---- dropout ---------------------------------------------------------------------------------------------
// The share that is dropped, the mean, the same elements for the same noise, and each by its own draw.
TEST_P(DropoutTest, DropsByTheDrawOfTheElement) {
  const std::int64_t count = 20001;
  const Dropout drop{{3, 1, 4, 15}, 16384, 4.0F / 3};
  const Floats x = random_floats(count, 15);
  for (const ValueType type : kTypes) {
    const Floats held = rounded(type, x);
    const Cells cx = cells(type, x), cy = cells(type, Floats(x.size(), 0.0F));
    device().dropout({{type, count}, drop, cx.data(), cy.data()});
    const Floats y = cy.floats();
    int dropped = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const bool keeps = noise_draw(drop.noise, static_cast<std::int64_t>(i)) >= 16384;
      ASSERT_NEAR(y[i], keeps ? held[i] * 4 / 3 : 0, std::abs(held[i]) * tolerance_of(type)) << i;
      dropped += keeps ? 0 : 1;
    }
    EXPECT_NEAR(dropped, 0.25 * static_cast<double>(count),
                5 * std::sqrt(0.1875 * static_cast<double>(count)));
    device().dropout({{type, count}, drop, cx.data(), cy.data(), true});
    const Floats twice = cy.floats();
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(twice[i], 2 * y[i], std::abs(y[i]) * 3 * tolerance_of(type));
  }
}

// ---- attention -------------------------------------------------------------------------------------------
// Documents of these lengths, one after the other, in all sequences.
struct DocumentLists {
  std::vector<std::int32_t> starts, ends, places;
  DocumentLists(int length, const std::vector<int>& documents) {
    int start = 0;
    for (const int positions : documents) {
      for (int place = 0; place < positions; ++place) {
        starts.push_back(start);
        ends.push_back(start + positions);
        places.push_back(place);
      }
      start = (start + positions) % length;
    }
  }
};
struct HeldDocuments {
  DeviceArray<std::int32_t> starts, ends, places;
  HeldDocuments(PackedDevice& device, const DocumentLists& of)
      : starts(device, of.starts), ends(device, of.ends), places(device, of.places) {}
  Documents view() const { return {starts.data(), ends.data(), places.data()}; }
};

// y of one sequence set, in double, and d(sum dy * y) / dq and dkv. `lengths`, and `starts` of documents, are
// on the host. For self-attention `kv` is empty; so is `bias` where there is none, and dbias is its gradient.
Doubles plain_attention(const AttentionShape& s, const std::vector<std::int32_t>& lengths, const Floats& q,
                        const Floats& kv, const Dropout& drop, const Floats& dy, Doubles* dq, Doubles* dkv,
                        const std::vector<std::int32_t>& starts = {}, const Floats& bias = {},
                        Doubles* dbias = nullptr) {
  const int d = s.head_width;
  if (dbias != nullptr) dbias->assign(bias.size(), 0);
  Doubles y(static_cast<std::size_t>(s.rows() * s.width()));
  dq->assign(q.size(), 0);
  dkv->assign(kv.size(), 0);
  const Floats& keys = s.is_self() ? q : kv;
  Doubles& dkeys = s.is_self() ? *dq : *dkv;
  const std::int64_t q_width = std::int64_t{d} * (s.is_self() ? s.heads + 2 * s.key_heads() : s.heads),
                     k_width = s.is_self() ? q_width : 2 * s.key_width();
  for (int n = 0; n < s.batch; ++n) {
    for (int h = 0; h < s.heads; ++h) {
      const int key_head = h / (s.heads / s.key_heads());
      const int first_key = s.is_self() ? s.heads : 0;
      const auto query = [&](int t, int c) {
        return static_cast<std::size_t>((std::int64_t{n} * s.length + t) * q_width + h * d + c);
      };
      const auto key = [&](int t, int c) {
        return static_cast<std::size_t>((std::int64_t{n} * s.key_rows() + t) * k_width +
                                        (first_key + key_head) * d + c);
      };
      const auto value = [&](int t, int c) { return key(t, c + s.key_heads() * d); };
      const auto out = [&](int t, int c) {
        return static_cast<std::size_t>((std::int64_t{n} * s.length + t) * s.width() + h * d + c);
      };
      for (int t = 0; t < s.length; ++t) {
        const int all = lengths.empty() ? s.key_rows() : lengths[static_cast<std::size_t>(n)];
        const int start = starts.empty() ? 0 : starts[static_cast<std::size_t>(n * s.length + t)];
        const int at = s.is_causal ? t : std::min(t, all - 1);  // behind the end as at it
        const int end = s.window > 0 ? std::min(at + s.window, all) : all, seen = s.is_causal ? t + 1 : end,
                  first = std::max(start, s.window > 0 ? at + 1 - s.window : 0);
        const auto bias_at = [&](int u) {
          return static_cast<std::size_t>((u - t + s.length - 1) * s.heads + h);
        };
        Doubles p(static_cast<std::size_t>(seen)), dp(p.size());
        double most = -1e300, sum = 0, mean = 0;
        for (int u = first; u < seen; ++u) {
          double score = 0;
          for (int c = 0; c < d; ++c) score += 1.0 * q[query(t, c)] * keys[key(u, c)] / std::sqrt(1.0 * d);
          if (!bias.empty()) score += bias[bias_at(u)];
          p[static_cast<std::size_t>(u)] = score;
          most = std::max(most, score);
        }
        for (int u = first; u < seen; ++u) {
          double& v = p[static_cast<std::size_t>(u)];
          sum += v = std::exp(v - most);
        }
        for (int u = first; u < seen; ++u) {
          double& v = p[static_cast<std::size_t>(u)];
          v /= sum;
          const std::int64_t padded = (s.key_rows() + 127) / 128 * 128;
          const std::int64_t element = ((std::int64_t{n} * s.heads + h) * s.length + t) * padded + u;
          const double kept = noise_draw(drop.noise, element) >= drop.threshold ? drop.scale : 0;
          for (int c = 0; c < d; ++c) {
            y[out(t, c)] += kept * v * keys[value(u, c)];
            dp[static_cast<std::size_t>(u)] += kept * dy[out(t, c)] * keys[value(u, c)];
            dkeys[value(u, c)] += kept * v * dy[out(t, c)];
          }
          mean += v * dp[static_cast<std::size_t>(u)];
        }
        for (int u = first; u < seen; ++u) {
          const auto i = static_cast<std::size_t>(u);
          if (!bias.empty()) (*dbias)[bias_at(u)] += p[i] * (dp[i] - mean);
          const double ds = p[i] * (dp[i] - mean) / std::sqrt(1.0 * d);
          for (int c = 0; c < d; ++c) {
            (*dq)[query(t, c)] += ds * keys[key(u, c)];
            dkeys[key(u, c)] += ds * q[query(t, c)];
          }
        }
      }
    }
  }
  return y;
}

struct AttentionCase {
  AttentionShape shape;
  std::vector<std::int32_t> lengths = {};
  std::vector<int> documents = {};
};
AttentionShape windowed(AttentionShape shape, int window) {
  shape.window = window;
  return shape;
}
AttentionShape biased(AttentionShape shape) {
  shape.has_bias = true;
  return shape;
}
// Lengths below, at and past one and two tiles of scores, every width of a tile; heads that share keys;
// attention to all positions, to the first of each sequence, to those of another value, within windows of one
// position, below and past a tile, and longer than the sequence; and within documents of one position, that
// end at a tile, within one and past several, with heads that share keys and in a window. Windows to both
// sides, of sequences that are filled up by less and more than the window and a tile; and with a bias.
std::vector<AttentionCase> attention_cases(ValueType type) {
  return {{{2, 1, 1, 4, type}},
          {{2, 9, 3, 5, type}},
          {{1, 128, 2, 16, type}},
          {{1, 129, 1, 8, type}},
          {{1, 70, 1, 40, type}},
          {{1, 70, 1, 100, type}},
          {{1, 40, 1, 160, type}},
          {{1, 130, 1, 64, type}},
          {{1, 67, 2, 128, type, 1}},
          {{1, 3, 4, 64, type, 2, false, nullptr, 70}, {69}},
          {{2, 300, 2, 8, type}},
          {{2, 70, 6, 8, type, 2}},
          {{1, 140, 3, 16, type, 1}},
          {{2, 9, 2, 5, type, 0, false}},
          {{2, 140, 4, 8, type, 2, false}},
          {{3, 140, 2, 8, type, 0, false}, {1, 129, 140}},
          {{2, 9, 2, 5, type, 0, false, nullptr, 4}},
          {{2, 1, 4, 8, type, 2, false, nullptr, 70}, {70, 3}},
          {{2, 5, 4, 8, type, 4, false, nullptr, 150}, {1, 140}},
          {{2, 150, 3, 16, type, 1, false, nullptr, 20}, {20, 7}},
          {windowed({2, 9, 3, 5, type}, 1)},
          {windowed({1, 140, 4, 16, type, 2}, 3)},
          {windowed({1, 300, 2, 8, type}, 100)},
          {windowed({1, 150, 1, 100, type}, 33)},
          {windowed({1, 70, 2, 64, type, 1}, 64)},
          {windowed({1, 20, 2, 8, type}, 500)},
          {{2, 9, 3, 5, type}, {}, {4, 5, 1, 1, 7}},
          {{2, 140, 2, 16, type}, {}, {64, 1, 75, 3, 129, 8}},
          {{1, 300, 4, 64, type, 2}, {}, {10, 20, 34, 200, 36}},
          {{1, 150, 1, 100, type}, {}, {70, 80}},
          {windowed({1, 150, 2, 8, type}, 40), {}, {20, 100, 30}},
          {windowed({2, 9, 3, 5, type, 0, false}, 1)},
          {windowed({1, 300, 2, 16, type, 0, false}, 65)},
          {windowed({1, 20, 2, 8, type, 0, false}, 500)},
          {windowed({3, 200, 4, 64, type, 2, false}, 17), {3, 150, 200}},
          {windowed({2, 300, 2, 8, type, 0, false}, 130), {1, 270}},
          {biased({2, 9, 3, 5, type, 0, false})},
          {biased({3, 140, 2, 16, type, 0, false}), {1, 129, 140}},
          {biased({1, 70, 1, 100, type, 0, false})},
          {biased({1, 300, 4, 64, type, 2, false})},
          {biased(windowed({1, 150, 2, 8, type, 1, false}, 40)), {140}},
          {biased({1, 140, 2, 8, type})}};
}

TEST_P(AttentionTest, ForwardAndBackwardAreThoseOfPlainLoops) {
  for (const ValueType type : kTypes) {
    int number = 0;
    for (const AttentionCase& c : attention_cases(type)) {
      // Sanitizers see each case once, every other one in bf16, and some with dropout. Fibers, which are
      // slow, see heads of both types where few cases have that width.
      const bool is_slow = kSanitized || (GetParam() == EmulatedCuda::kName && c.shape.head_width <= 16);
      if (is_slow && (++number % 2 == 0) != (type == ValueType::kBf16)) continue;
      AttentionShape shape = c.shape;
      const auto lengths = array(c.lengths);
      if (!c.lengths.empty()) shape.lengths = lengths.data();
      const DocumentLists documents(shape.length, c.documents);
      const HeldDocuments held(device(), documents);
      if (!c.documents.empty()) shape.documents = held.view();
      const bool is_self = shape.is_self();
      const std::int64_t count = shape.rows() * shape.width(),
                         queries = is_self ? shape.rows() * shape.row_width() : count,
                         others = is_self ? 0 : 2 * shape.batch * shape.key_rows() * shape.key_width();
      const Floats q = rounded(type, random_floats(queries, 6)), kv = rounded(type, random_floats(others, 5)),
                   dy = rounded(type, random_floats(count, 7));
      const Floats bias = random_floats(shape.has_bias ? shape.distances() * shape.heads : 0, 8);
      const auto held_bias = array(bias);
      for (const Dropout& drop : {Dropout{}, Dropout{{3, 1, 4, 13}, 13107, 1.25F}}) {
        if (kSanitized && (number / 2 % 2 == 0) != (drop.threshold != 0)) continue;
        Doubles want_dq, want_dkv, want_dbias;
        const Doubles want = plain_attention(shape, c.lengths, q, kv, drop, dy, &want_dq, &want_dkv,
                                             documents.starts, bias, &want_dbias);
        const auto dbias = zeros(bias.size());
        const Cells cq = cells(type, q), ckv = cells(type, kv), cy = cells(type, count),
                    cdy = cells(type, dy), cdq = cells(type, queries),
                    cdkv = cells(type, Floats(kv.size(), 1.0F));
        const auto log_sums = zeros(static_cast<std::size_t>(shape.rows() * shape.heads));
        const auto room = scratch(device().attention_scratch_bytes(shape));
        AttentionForward forward{shape,           cq.data(),  is_self ? nullptr : ckv.data(), drop, cy.data(),
                                 log_sums.data(), room.data()};
        if (shape.has_bias) forward.bias = held_bias.data();
        device().attention_forward(forward);
        expect_near(cy.floats(), want, tolerance_of(type));
        AttentionBackward args{shape,
                               cq.data(),
                               is_self ? nullptr : ckv.data(),
                               drop,
                               cy.data(),
                               cdy.data(),
                               log_sums.data(),
                               cdq.data(),
                               nullptr,
                               false,
                               true,
                               room.data()};
        if (!is_self) args.dkv = cdkv.data();
        args.bias = forward.bias;
        if (shape.has_bias) args.bias_gradient = dbias.data();
        device().attention_backward(args);
        const Floats once = cdq.floats(), bias_once = dbias.values();
        expect_near(bias_once, want_dbias, 2 * tolerance_of(type));
        expect_near(once, want_dq, 2 * tolerance_of(type));
        for (double& v : want_dkv) v += 1;  // the value before
        expect_near(cdkv.floats(), want_dkv, 2 * tolerance_of(type));
        if (shape.length > 100) continue;
        args.accumulate = args.accumulate_bias = true;
        device().attention_backward(args);
        expect_near(cdq.floats(), doubled(once), 2 * tolerance_of(type));
        expect_near(dbias.values(), doubled(bias_once), 2 * tolerance_of(type));
      }
    }
  }
}

// Values above 0, so that nothing cancels: probabilities and results are rounded to bf16, by 2^-8 each.
TEST_P(AttentionTest, ErrorsAreThoseOfRoundingTwice) {
  for (const int width : {16, 64, 128}) {
    const AttentionShape shape{1, 150, 1, width, ValueType::kBf16};
    Floats q = random_floats(shape.rows() * shape.row_width(), 9);
    for (std::size_t i = 0; i < q.size(); ++i) {
      if (i % static_cast<std::size_t>(3 * width) >= static_cast<std::size_t>(2 * width))
        q[i] = std::abs(q[i]);
    }
    q = rounded(shape.type, q);
    const Floats dy(static_cast<std::size_t>(shape.rows() * shape.width()), 0.0F);
    Doubles dq, dkv;
    const Doubles want = plain_attention(shape, {}, q, {}, {}, dy, &dq, &dkv);
    const Cells cq = cells(shape.type, q), y = cells(shape.type, shape.rows() * shape.width());
    const auto log_sums = zeros(150);
    const auto room = scratch(device().attention_scratch_bytes(shape));
    device().attention_forward({shape, cq.data(), nullptr, {}, y.data(), log_sums.data(), room.data()});
    const Floats got = y.floats();
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 0x1.04p-7 * want[i]) << i;
  }
}

// What a sequence makes of its own queries, keys and values, and their gradients; those of the results are
// drawn.
std::pair<Floats, Floats> attend(Device& device, const AttentionShape& shape, const Floats& values) {
  const std::int64_t count = shape.rows() * shape.width();
  const Cells qkv(device, shape.type, values), y(device, shape.type, count),
      dy(device, shape.type, random_floats(count, 9)), dqkv(device, shape.type, std::ssize(values));
  const DeviceArray<float> log_sums(device, Floats(static_cast<std::size_t>(shape.rows() * shape.heads)));
  const auto room = scratch_on(device, device.attention_scratch_bytes(shape));
  device.attention_forward({shape, qkv.data(), nullptr, {}, y.data(), log_sums.data(), room.data()});
  device.attention_backward({.shape = shape,
                             .q = qkv.data(),
                             .y = y.data(),
                             .dy = dy.data(),
                             .log_sums = log_sums.data(),
                             .dq = dqkv.data(),
                             .scratch = room.data()});
  return {y.floats(), dqkv.floats()};
}

// A value that is not a number reaches the results and gradients of the positions that see it.
TEST_P(AttentionTest, NotANumberReachesWhatSeesIt) {
  for (const ValueType type : kTypes) {
    const AttentionShape shape{1, 150, 1, 16, type};
    for (const std::size_t part : {0U, 1U, 2U}) {  // query, key and value 70 in turn
      Floats values = random_floats(shape.rows() * shape.row_width(), 8);
      values[70 * 48 + part * 16] = std::nanf("");
      const auto [out, gradients] = attend(device(), shape, values);
      for (std::size_t t = 0; t < 150; ++t) {
        if (part == 0 ? t != 70 : t < 70) continue;
        ASSERT_TRUE(std::isnan(out[16 * t])) << t << " of part " << part;
        ASSERT_TRUE(std::isnan(gradients[48 * t])) << t << " of part " << part;
      }
    }
  }
}

// Attention in pieces, after the cached ones, gives the same as in one.
TEST_P(AttentionTest, CachedIsTheWhole) {
  for (const ValueType type : kTypes) {
    for (const auto& [kv_heads, window] : {std::pair{2, 0}, {1, 0}, {1, 5}, {2, 70}}) {
      const AttentionShape whole = windowed({1, 150, 2, 24, type, kv_heads}, window);
      const Floats qkv = rounded(type, random_floats(whole.rows() * whole.row_width(), 8));
      const Cells all = cells(type, qkv), want = cells(type, whole.rows() * whole.width());
      const auto log_sums = zeros(300);
      const auto room = scratch(device().attention_scratch_bytes(whole));
      device().attention_forward({whole, all.data(), nullptr, {}, want.data(), log_sums.data(), room.data()});
      const Cells cache = cells(type, 2 * whole.rows() * whole.key_width());
      Floats got;
      int past = 0;
      for (const int length : {1, 70, 1, 65, 13}) {
        AttentionShape part = whole;
        part.length = length;
        const auto from = qkv.begin() + past * whole.row_width();
        const Cells rows = cells(type, Floats(from, from + length * whole.row_width())),
                    y = cells(type, length * whole.width());
        device().attention_forward(
            {part, rows.data(), nullptr, {}, y.data(), nullptr, room.data(), cache.data(), 150, past});
        const Floats more = y.floats();
        got.insert(got.end(), more.begin(), more.end());
        past += length;
      }
      const Floats expected = want.floats();
      expect_near(got, Doubles(expected.begin(), expected.end()), tolerance_of(type));
    }
  }
}

// Several sequences, in a cache with room for more.
TEST_P(AttentionTest, EachSequenceHasItsPartOfTheCache) {
  constexpr int kSequences = 3, kLength = 6;
  constexpr std::int64_t kRoom = 9;
  for (const ValueType type : kTypes) {
    const AttentionShape whole{kSequences, kLength, 4, 8, type, 2};
    const std::int64_t width = whole.row_width();
    const Floats qkv = rounded(type, random_floats(whole.rows() * width, 8));
    const Cells all = cells(type, qkv), want = cells(type, whole.rows() * whole.width()),
                cache = cells(type, kSequences * kRoom * 2 * whole.key_width());
    const auto log_sums = zeros(static_cast<std::size_t>(whole.rows() * whole.heads));
    const auto room = scratch(device().attention_scratch_bytes(whole));
    device().attention_forward({whole, all.data(), nullptr, {}, want.data(), log_sums.data(), room.data()});
    const Floats expected = want.floats();
    int past = 0;
    for (const int length : {1, 3, 1, 1}) {
      AttentionShape part = whole;
      part.length = length;
      Floats rows;
      Doubles wanted;
      for (std::int64_t i = 0; i < kSequences; ++i) {
        const auto from = qkv.begin() + (i * kLength + past) * width;
        rows.insert(rows.end(), from, from + length * width);
        const auto out = expected.begin() + (i * kLength + past) * whole.width();
        wanted.insert(wanted.end(), out, out + length * whole.width());
      }
      const Cells in = cells(type, rows), y = cells(type, part.rows() * part.width());
      device().attention_forward(
          {part, in.data(), nullptr, {}, y.data(), nullptr, room.data(), cache.data(), kRoom, past});
      expect_near(y.floats(), wanted, tolerance_of(type));
      past += length;
    }
  }
}

TEST(CudaEmulated, RefusesHeadsThatAreTooWide) {
  const auto device = make_device("cuda-emulated", 1);
  EXPECT_NO_THROW(device->attention_scratch_bytes({1, 8, 1, 256, ValueType::kFp32}));
  EXPECT_THROW(device->attention_scratch_bytes({1, 8, 1, 257, ValueType::kFp32}), std::invalid_argument);
}

// Scores far apart: the online maximum must hold; and a row with one enormous score is that row's value.
TEST_P(AttentionTest, LargeScoresStayFinite) {
  const AttentionShape shape{1, 200, 1, 4, ValueType::kFp32};
  Floats values(static_cast<std::size_t>(3 * shape.rows() * 4), 0.0F);
  for (int t = 0; t < shape.length; ++t) {
    values[static_cast<std::size_t>(12 * t)] = 300;  // q
    values[static_cast<std::size_t>(12 * t + 4)] =
        static_cast<float>(t);  // k grows with t: the last one wins
    values[static_cast<std::size_t>(12 * t + 8)] = static_cast<float>(t);  // v
  }
  const auto qkv = array(values), out = zeros(static_cast<std::size_t>(shape.rows() * 4)), sums = zeros(200);
  const auto room = scratch(device().attention_scratch_bytes(shape));
  device().attention_forward({shape, qkv.data(), nullptr, {}, out.data(), sums.data(), room.data()});
  const Floats y = out.values(), log_sums = sums.values();
  for (int t = 0; t < shape.length; ++t) {
    ASSERT_EQ(y[static_cast<std::size_t>(4 * t)], static_cast<float>(t));
    ASSERT_NEAR(log_sums[static_cast<std::size_t>(t)], 150.0 * t, 1e-3 * (t + 1));
  }
}

TEST_P(AttentionTest, TheFutureChangesNothing) {
  const AttentionShape shape{1, 150, 2, 8, ValueType::kFp32};
  Floats values = random_floats(3 * shape.rows() * shape.width(), 8);
  auto qkv = array(values);
  const auto out = zeros(static_cast<std::size_t>(shape.rows() * shape.width())), log_sums = zeros(300);
  const auto room = scratch(device().attention_scratch_bytes(shape));
  device().attention_forward({shape, qkv.data(), nullptr, {}, out.data(), log_sums.data(), room.data()});
  const Floats y = out.values();
  const auto cut = static_cast<std::size_t>(140 * shape.width());
  for (std::size_t i = 3 * cut; i < values.size(); ++i) values[i] = -values[i];
  qkv.assign(values);
  device().attention_forward({shape, qkv.data(), nullptr, {}, out.data(), log_sums.data(), room.data()});
  const Floats other = out.values();
  EXPECT_TRUE(std::equal(y.begin(), y.begin() + static_cast<std::ptrdiff_t>(cut), other.begin()));
  EXPECT_NE(y, other);
}

// Blocks of keys that no query sees are not even read: what is there is not a number.
TEST_P(AttentionTest, WhatIsBeforeTheWindowChangesNothing) {
  for (const ValueType type : kTypes) {
    const AttentionShape shape = windowed({1, 300, 1, 16, type}, 20);
    Floats values = random_floats(300 * 48, 8);
    std::fill(values.begin(), values.begin() + 100 * 48, std::nanf(""));
    const auto [out, gradients] = attend(device(), shape, values);
    // These are the last tile of queries, which is as wide as on any device.
    for (std::size_t t = 256; t < 300; ++t) {
      ASSERT_TRUE(std::isfinite(out[16 * t])) << t;
      ASSERT_TRUE(std::isfinite(gradients[48 * t])) << t;
    }
  }
}

// Results and gradients of the second document, to the bit.
TEST_P(AttentionTest, TheDocumentBeforeChangesNothing) {
  for (const ValueType type : kTypes) {
    const HeldDocuments documents(device(), DocumentLists(150, {83, 67}));
    AttentionShape shape{1, 150, 2, 16, type, 1};
    shape.documents = documents.view();
    const auto width = static_cast<std::size_t>(shape.row_width());
    Floats values = random_floats(150 * shape.row_width(), 8);
    const auto [y, gradients] = attend(device(), shape, values);
    for (std::size_t i = 0; i < 83 * width; ++i) values[i] = 3 - values[i];
    const auto [other_y, other_gradients] = attend(device(), shape, values);
    EXPECT_TRUE(std::equal(y.begin() + 83 * 32, y.end(), other_y.begin() + 83 * 32));
    EXPECT_TRUE(std::equal(gradients.begin() + 83 * static_cast<std::ptrdiff_t>(width), gradients.end(),
                           other_gradients.begin() + 83 * static_cast<std::ptrdiff_t>(width)));
    EXPECT_NE(y, other_y);
    EXPECT_NE(gradients, other_gradients);
  }
}

// ---- embedding -------------------------------------------------------------------------------------------
TEST_P(EmbeddingTest, AddsTheRowOfEachPlace) {
  const std::int64_t width = 7;
  const Floats tokens = random_floats(3 * width, 9), positions = random_floats(4 * width, 8);
  const std::vector<std::int32_t> places = {0, 1, 0, 1, 2, 0};
  const auto of_tokens = array(tokens), of_positions = array(positions);
  const auto of_places = array(places);
  const Cells y = cells(ValueType::kFp32, 3 * width);
  device().embedding_forward(
      {ValueType::kFp32, width, 6, 3, 3, of_tokens.data(), of_positions.data(), y.data(), of_places.data()});
  const Floats got = y.floats();
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t c = 0; c < 7; ++c) {
      ASSERT_EQ(got[7 * i + c],
                tokens[7 * i + c] + positions[7 * static_cast<std::size_t>(places[3 + i]) + c]);
    }
  }
}

TEST_P(EmbeddingTest, SumsTheRowsOfEachGroupInOrder) {
  const std::int64_t width = 19;
  const Floats x = random_floats(6 * width, 9);
  const auto rows = array(std::vector<std::int32_t>{4, 0, 0, 5});
  const auto first = array(std::vector<std::int64_t>{0, 1, 1, 4});
  const auto targets = array(std::vector<std::int32_t>{1, 2, 5});
  const RowGroups groups{rows.data(), first.data(), targets.data(), 3};
  for (const ValueType type : kTypes) {
    const Cells in = cells(type, x);
    const Floats held = rounded(type, x);
    Floats want(static_cast<std::size_t>(7 * width), 0.0F);
    for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c) {
      const auto at = [&](std::size_t row) { return held[row * static_cast<std::size_t>(width) + c]; };
      want[static_cast<std::size_t>(width) + c] = at(4);
      want[static_cast<std::size_t>(5 * width) + c] = at(0) + at(0) + at(5);
    }
    // The whole matrix, and parts that begin and end within rows.
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 7 * width},
                                     {width + 3, 5 * width + 4},
                                     {2 * width, 5 * width},
                                     {6 * width, 7 * width}}) {
      const auto out = array(Floats(static_cast<std::size_t>(end - begin), 9.0F));
      device().sum_rows({type, width, in.data(), groups, begin, end, out.data()});
      EXPECT_EQ(out.values(), Floats(want.begin() + begin, want.begin() + end)) << begin;
    }
  }
}

// ---- loss ------------------------------------------------------------------------------------------------
struct Vocabulary {
  std::int64_t rows = 23, classes = 101;
  Floats logits = random_floats(rows * classes, 10, 5);
  std::vector<std::int32_t> labels;
  Vocabulary() {
    for (std::int64_t r = 0; r < rows; ++r) labels.push_back(static_cast<std::int32_t>(r * 37 % classes));
  }
  Floats columns(std::int64_t first, std::int64_t count) const {
    Floats part;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto at = logits.begin() + r * classes + first;
      part.insert(part.end(), at, at + count);
    }
    return part;
  }
};

TEST_P(ChunkedSoftmaxTest, AnyChunksGiveTheLoss) {
  const Vocabulary v;
  const auto labels = array(v.labels);
  const auto log_sums = zeros(static_cast<std::size_t>(v.rows));
  for (const std::int64_t chunk : {1, 7, 16, 50, 100, 101}) {
    // The state that an earlier loss left is forgotten.
    const auto state = array(std::vector<SoftmaxRow>(static_cast<std::size_t>(v.rows), {9, 9, 9, 9}));
    const auto result = array(std::vector<LossResult>{{-1, -1}});
    for (std::int64_t first = 0; first < v.classes; first += chunk) {
      const std::int64_t n = std::min(chunk, v.classes - first);
      const auto columns = array(v.columns(first, n));
      device().softmax_scan({{v.rows, 101}, labels.data(), first, n, columns.data(), state.data()});
    }
    device().softmax_finish({.shape = {v.rows, 101},
                             .labels = labels.data(),
                             .state = state.data(),
                             .log_sums = log_sums.data(),
                             .result = result.data()});
    const std::vector<SoftmaxRow> rows = state.values();
    const Floats sums = log_sums.values();
    double loss = 0;
    std::int64_t correct = 0;
    for (std::int64_t r = 0; r < v.rows; ++r) {
      const SoftmaxRow& s = rows[static_cast<std::size_t>(r)];
      const float* row = v.logits.data() + r * v.classes;
      const std::int32_t label = v.labels[static_cast<std::size_t>(r)];
      double sum = 0;
      for (std::int64_t c = 0; c < v.classes; ++c) sum += std::exp(static_cast<double>(row[c]));
      ASSERT_EQ(s.best, std::max_element(row, row + v.classes) - row);
      ASSERT_EQ(s.target, row[label]);
      ASSERT_NEAR(s.maximum + std::log(s.sum), std::log(sum), 1e-5);
      ASSERT_NEAR(sums[static_cast<std::size_t>(r)], std::log(sum), 1e-5);
      loss += std::log(sum) - row[label];
      correct += s.best == label ? 1 : 0;
    }
    EXPECT_NEAR(result.values()[0].sum, loss, 1e-5 * loss);
    EXPECT_EQ(result.values()[0].correct, correct);
  }
}

TEST_P(ChunkedSoftmaxTest, AnyChunksGiveTheGradient) {
  const Vocabulary v;
  Floats sums;
  for (std::int64_t r = 0; r < v.rows; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < v.classes; ++c) {
      sum += std::exp(static_cast<double>(v.logits[static_cast<std::size_t>(r * v.classes + c)]));
    }
    sums.push_back(static_cast<float>(std::log(sum)));
  }
  const auto labels = array(v.labels);
  const auto log_sums = array(sums);
  for (const std::int64_t chunk : {1, 7, 50, 101}) {
    for (std::int64_t first = 0; first < v.classes; first += chunk) {
      const std::int64_t n = std::min(chunk, v.classes - first);
      const Floats logits = v.columns(first, n);
      const auto columns = array(logits), again = array(logits);
      const Cells narrow = cells(ValueType::kBf16, v.rows * n);
      device().softmax_gradient({{v.rows, 101},
                                 labels.data(),
                                 first,
                                 n,
                                 columns.data(),
                                 nullptr,
                                 log_sums.data(),
                                 nullptr,
                                 0.25F,
                                 ValueType::kFp32,
                                 columns.data()});
      device().softmax_gradient({{v.rows, 101},
                                 labels.data(),
                                 first,
                                 n,
                                 again.data(),
                                 nullptr,
                                 log_sums.data(),
                                 nullptr,
                                 0.25F,
                                 ValueType::kBf16,
                                 narrow.data()});
      const Floats gradient = columns.values();
      ASSERT_EQ(narrow.floats(), rounded(ValueType::kBf16, gradient));
      for (std::int64_t i = 0; i < v.rows * n; ++i) {
        const auto r = static_cast<std::size_t>(i / n);
        const double p = std::exp(static_cast<double>(logits[static_cast<std::size_t>(i)]) - sums[r]);
        const double wanted = v.labels[r] == first + i % n ? 1 : 0;
        ASSERT_NEAR(gradient[static_cast<std::size_t>(i)], 0.25 * (p - wanted), 1e-6);
      }
    }
  }
}

// Smoothed labels, and rows that count for nothing.
TEST_P(ChunkedSoftmaxTest, SpreadsLabelsAndLeavesRowsOut) {
  Vocabulary v;
  for (const std::size_t r : {std::size_t{0}, std::size_t{7}, std::size_t{22}}) v.labels[r] = -1;
  constexpr double kSmoothing = 0.1;
  const LossShape shape{v.rows, static_cast<int>(v.classes), kSmoothing};
  const auto labels = array(v.labels);
  for (const std::int64_t chunk : {7, 50, 101}) {
    const auto state = array(std::vector<SoftmaxRow>(static_cast<std::size_t>(v.rows)));
    const auto result = array(std::vector<LossResult>{{-1, -1}});
    const auto log_sums = zeros(static_cast<std::size_t>(v.rows));
    for (std::int64_t first = 0; first < v.classes; first += chunk) {
      const std::int64_t n = std::min(chunk, v.classes - first);
      const auto columns = array(v.columns(first, n));
      device().softmax_scan({shape, labels.data(), first, n, columns.data(), state.data()});
    }
    device().softmax_finish({.shape = shape,
                             .labels = labels.data(),
                             .state = state.data(),
                             .log_sums = log_sums.data(),
                             .result = result.data()});
    double loss = 0;
    std::int64_t correct = 0;
    for (std::int64_t first = 0; first < v.classes; first += chunk) {
      const std::int64_t n = std::min(chunk, v.classes - first);
      const auto columns = array(v.columns(first, n));
      const Cells narrow = cells(ValueType::kBf16, v.rows * n);
      device().softmax_gradient({shape, labels.data(), first, n, columns.data(), nullptr, log_sums.data(),
                                 nullptr, 0.25F, ValueType::kBf16, narrow.data()});
      const Floats wide = v.columns(first, n), gradient = narrow.floats();
      for (std::int64_t r = 0; r < v.rows; ++r) {
        const float* row = v.logits.data() + r * v.classes;
        const std::int32_t label = v.labels[static_cast<std::size_t>(r)];
        double sum = 0;
        for (std::int64_t c = 0; c < v.classes; ++c) sum += std::exp(static_cast<double>(row[c]));
        for (std::int64_t c = first; c < first + n; ++c) {
          const double q = (c == label ? 1 - kSmoothing : 0) + kSmoothing / static_cast<double>(v.classes),
                       log_p = row[c] - std::log(sum);
          const float got = gradient[static_cast<std::size_t>(r * n + c - first)];
          if (label < 0) {
            ASSERT_EQ(got, 0);
            continue;
          }
          loss -= q * log_p;
          ASSERT_NEAR(got, 0.25 * (std::exp(log_p) - q), 2e-3 * (0.1 + std::abs(got)));
        }
        if (first == 0 && label >= 0)
          correct += std::max_element(row, row + v.classes) - row == label ? 1 : 0;
      }
    }
    EXPECT_NEAR(result.values()[0].sum, loss, 1e-5 * loss);
    EXPECT_EQ(result.values()[0].correct, correct);
  }
}

// More rows than threads of the block that sums them.
TEST_P(ChunkedSoftmaxTest, SumsManyRows) {
  std::vector<SoftmaxRow> rows;
  std::vector<std::int32_t> wanted;
  double loss = 0;
  for (int r = 0; r < 2500; ++r) {
    const float most = 0.001F * static_cast<float>(r);
    rows.push_back({most, 0.5F, 2.0, r % 7});
    wanted.push_back(r % 3);
    loss += static_cast<double>(most) + std::log(2.0) - 0.5;
  }
  const auto state = array(rows);
  const auto labels = array(wanted);
  const auto log_sums = zeros(rows.size());
  const auto result = array(std::vector<LossResult>{{-1, -1}});
  device().softmax_finish({.shape = {2500, 7},
                           .labels = labels.data(),
                           .state = state.data(),
                           .log_sums = log_sums.data(),
                           .result = result.data()});
  EXPECT_NEAR(result.values()[0].sum, loss, 1e-10 * loss);
  EXPECT_EQ(result.values()[0].correct, 358);
}

// Pairs of answers among rows that are of none, against the formula in double; a factor is the slope.
TEST_P(ChunkedSoftmaxTest, PreferencesCompareAnswers) {
  constexpr std::size_t kRows = 150;
  std::vector<SoftmaxRow> rows;
  std::vector<std::int32_t> wanted;
  for (std::size_t r = 0; r < kRows; ++r) {
    rows.push_back({1.0F, 0.01F * static_cast<float>(r % 37), 1.5 + 0.1 * static_cast<double>(r % 5), 0});
    wanted.push_back(r % 4 == 1 ? -1 : 3);
  }
  const std::vector<PreferencePair> list{{0, 40, 45, 60, 2.5}, {62, 65, 65, 150, -3.0}};
  const auto state = array(rows);
  const auto labels = array(wanted);
  const auto pairs = array(list);
  for (const bool is_mean : {false, true}) {
    for (const double smoothing : {0.0, 0.2}) {
      const auto factors = zeros(kRows);
      const auto differences = array(Doubles(2));
      const auto result = array(std::vector<LossResult>{{-1, -1, -1}});
      device().preference_loss({.count = 2,
                                .pairs = pairs.data(),
                                .beta = 0.3,
                                .smoothing = smoothing,
                                .is_mean = is_mean,
                                .labels = labels.data(),
                                .state = state.data(),
                                .factors = factors.data(),
                                .differences = differences.data(),
                                .result = result.data()});
      const auto loss_of = [&](double m) {
        return (1 - smoothing) * std::log1p(std::exp(-m)) + smoothing * std::log1p(std::exp(m));
      };
      double loss = 0, margin = 0;
      std::int64_t correct = 0;
      for (std::size_t i = 0; i < list.size(); ++i) {
        const auto log_probability = [&](std::int64_t begin, std::int64_t end, double& count) {
          double sum = 0;
          for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r) {
            if (wanted[r] < 0) continue;
            sum += rows[r].target - 1.0 - std::log(rows[r].sum);
            ++count;
          }
          if (!is_mean) count = 1;
          return sum / count;
        };
        double chosen = 0, rejected = 0;
        const double difference = log_probability(list[i].chosen, list[i].chosen_end, chosen) -
                                  log_probability(list[i].rejected, list[i].rejected_end, rejected),
                     m = 0.3 * (difference - list[i].reference), step = 1e-6,
                     slope = -0.3 * (loss_of(m + step) - loss_of(m - step)) / (2 * step);
        EXPECT_NEAR(differences.values()[i], difference, 1e-12 * std::abs(difference));
        const Floats got = factors.values();
        EXPECT_NEAR(got[static_cast<std::size_t>(list[i].chosen_end) - 1], slope / chosen, 1e-6);
        EXPECT_NEAR(got[static_cast<std::size_t>(list[i].rejected)], -slope / rejected, 1e-6);
        loss += loss_of(m);
        margin += m;
        correct += m > 0 ? 1 : 0;
      }
      EXPECT_EQ(factors.values()[42], 0);  // between the answers
      EXPECT_NEAR(result.values()[0].sum, loss, 1e-12 * loss);
      EXPECT_NEAR(result.values()[0].margin, margin, 1e-12 * std::abs(margin));
      EXPECT_EQ(result.values()[0].correct, correct);
    }
  }
}

TEST_P(ChunkedSoftmaxTest, AFactorOfEachRowIsOnItsGradient) {
  Vocabulary v;
  const LossShape shape{v.rows, static_cast<int>(v.classes)};
  const auto labels = array(v.labels);
  const auto log_sums = zeros(static_cast<std::size_t>(v.rows));
  Floats times;
  for (std::int64_t r = 0; r < v.rows; ++r) times.push_back(static_cast<float>(r) - 3);
  const auto factors = array(times);
  const auto plain = array(v.columns(0, v.classes)), scaled = array(v.columns(0, v.classes));
  SoftmaxArgs args{.shape = shape,
                   .labels = labels.data(),
                   .columns = v.classes,
                   .logits = plain.data(),
                   .log_sums = log_sums.data(),
                   .scale = 0.5F,
                   .gradient = plain.data()};
  device().softmax_gradient(args);
  args.logits = scaled.data();
  args.gradient = scaled.data();
  args.factors = factors.data();
  device().softmax_gradient(args);
  const Floats want = plain.values(), got = scaled.values();
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(got[i], want[i] * times[i / static_cast<std::size_t>(v.classes)]) << i;
}

TEST_P(ChunkedSoftmaxTest, NanReachesTheSum) {
  Floats values(40, 1.0F);
  values[21] = std::nanf("");
  const auto logits = array(values);
  const auto label = array(std::vector<std::int32_t>{0});
  const auto state = array(std::vector<SoftmaxRow>(1));
  device().softmax_scan({{1, 40}, label.data(), 0, 40, logits.data(), state.data()});
  EXPECT_TRUE(std::isnan(state.values()[0].sum));
}

// ---- the same bits ---------------------------------------------------------------------------------------
Floats bias_gradient_of(Device& device, const Cells& qkv, const Cells& dy, const Dropout& drop) {
  AttentionShape shape{3, 140, 2, 48, ValueType::kBf16, 0, false};
  shape.has_bias = true;
  const auto distances = static_cast<std::size_t>(shape.distances() * shape.heads);
  const DeviceArray<float> bias(device, random_floats(shape.distances() * shape.heads, 16)),
      gradient(device, Floats(distances)), log_sums(device, Floats(3 * 2 * 140));
  const Cells y(device, shape.type, 3 * 140 * 96), dqkv(device, shape.type, 3 * 420 * 96);
  const auto room = scratch_on(device, device.attention_scratch_bytes(shape));
  device.attention_forward({.shape = shape,
                            .q = qkv.data(),
                            .drop = drop,
                            .y = y.data(),
                            .log_sums = log_sums.data(),
                            .scratch = room.data(),
                            .bias = bias.data()});
  device.attention_backward({.shape = shape,
                             .q = qkv.data(),
                             .drop = drop,
                             .y = y.data(),
                             .dy = dy.data(),
                             .log_sums = log_sums.data(),
                             .dq = dqkv.data(),
                             .scratch = room.data(),
                             .bias = bias.data(),
                             .bias_gradient = gradient.data()});
  return gradient.values();
}
// Returns the results of all kernels that sum, on values of one seed.
Floats sums_of(Device& device) {
  constexpr ValueType kType = ValueType::kBf16;
  const RowNormShape norm{900, 96, kType};
  const AttentionShape attention{3, 140, 2, 48, kType};
  const Dropout drop{{3, 1, 4, 13}, 6554, 1.1F};
  const auto floats = [&](std::size_t count) { return DeviceArray<float>(device, Floats(count)); };
  const Cells x(device, kType, random_floats(900 * 96, 11)), dy(device, kType, random_floats(900 * 96, 12)),
      dx(device, kType, 900 * 96), y(device, kType, 900 * 96);
  const DeviceArray<float> w(device, random_floats(96, 13));
  const auto mean = floats(900), inverse = floats(900), dw = floats(96), db = floats(96);
  const auto room = scratch_on(device, device.row_norm_scratch_bytes(norm));
  device.row_norm_forward(norm, {x.data(), w.data(), w.data(), y.data(), mean.data(), inverse.data()});
  device.row_norm_backward(
      norm,
      {x.data(), dy.data(), w.data(), mean.data(), inverse.data(), dx.data(), false, dw.data(), db.data()},
      room.data());
  const Cells qkv(device, kType, random_floats(3 * 420 * 96, 14)), dqkv(device, kType, 3 * 420 * 96);
  const auto log_sums = floats(3 * 2 * 140);
  const auto more_room = scratch_on(device, device.attention_scratch_bytes(attention));
  device.attention_forward(
      {attention, qkv.data(), nullptr, drop, y.data(), log_sums.data(), more_room.data()});
  device.attention_backward({attention, qkv.data(), nullptr, drop, y.data(), dy.data(), log_sums.data(),
                             dqkv.data(), nullptr, false, false, more_room.data()});
  const Floats bias_gradient = bias_gradient_of(device, qkv, dy, drop);
  // Logits of 40 classes in two chunks.
  const DeviceArray<float> logits(device, random_floats(900 * 20, 15));
  const DeviceArray<std::int32_t> labels(device, std::vector<std::int32_t>(900, 7));
  const DeviceArray<SoftmaxRow> state(device, std::vector<SoftmaxRow>(900));
  const DeviceArray<LossResult> result(device, {{}, {}});
  const auto row_sums = floats(900);
  for (const std::int64_t first : {0, 20}) {
    device.softmax_scan({{900, 40, 0.1}, labels.data(), first, 20, logits.data(), state.data()});
  }
  device.softmax_finish({.shape = {900, 40, 0.1},
                         .labels = labels.data(),
                         .state = state.data(),
                         .log_sums = row_sums.data(),
                         .result = result.data()});
  device.loss_forward(
      {{900, 20, 0.1}, ValueType::kFp32, logits.data(), labels.data(), nullptr, result.data() + 1});
  Floats losses = row_sums.values();
  for (const LossResult& loss : result.values()) {
    losses.push_back(static_cast<float>(loss.sum));
    losses.push_back(static_cast<float>(loss.sum - losses.back()));  // the bits that are left
  }
  Floats all = dx.floats();
  for (const Floats& more : {losses, y.floats(), dqkv.floats(), log_sums.values(), dw.values(), db.values(),
                             mean.values(), bias_gradient}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

TEST(CpuSequence, SameBitsForAnyThreads) {
  CpuDevice one(1), two(2), three(3);
  const Floats want = sums_of(one);
  EXPECT_EQ(sums_of(two), want);
  EXPECT_EQ(sums_of(three), want);
}
TEST_P(AttentionTest, SameBitsInTwoRuns) {
  EXPECT_EQ(sums_of(device()), sums_of(device()));
}

}  // namespace
}  // namespace lpmm::kernels
