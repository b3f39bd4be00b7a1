// The choice of experts, its order, and the loss that balances experts, on every device, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/sequence.h"
#include "tests/kernels/activations.h"

namespace lpmm::kernels {
namespace {

LPMM_DEVICE_SUITE(ExpertsTest);

using Doubles = std::vector<double>;
using Ints = std::vector<std::int32_t>;
constexpr ValueType kTypes[] = {ValueType::kFp32, ValueType::kBf16};
constexpr ChoiceShape kChoiceShapes[] = {
    {37, 11, 3, true}, {37, 11, 3, false}, {150, 70, 8, true}, {5, 4, 4, true}, {9, 1, 1, true}};

std::size_t sized(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

// What a choice is, in double.
struct Plain {
  Doubles probabilities, weights;  // weights in order
  Ints experts, rows, places;
  std::vector<std::int64_t> first;

  Plain(const ChoiceShape& s, const Floats& logits) {
    std::vector<std::vector<std::int32_t>> of_expert(sized(s.experts));
    Doubles weight_of_choice;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const float* const row = logits.data() + r * s.experts;
      const double most = *std::max_element(row, row + s.experts);
      double sum = 0;
      for (int e = 0; e < s.experts; ++e) sum += std::exp(row[e] - most);
      for (int e = 0; e < s.experts; ++e) probabilities.push_back(std::exp(row[e] - most) / sum);
      const double* const p = probabilities.data() + r * s.experts;
      Ints all(sized(s.experts));
      std::iota(all.begin(), all.end(), 0);
      std::stable_sort(all.begin(), all.end(), [&](int a, int b) { return row[a] > row[b]; });
      double chosen = 0;
      for (int j = 0; j < s.chosen; ++j) chosen += p[all[sized(j)]];
      for (int j = 0; j < s.chosen; ++j) {
        const std::int32_t e = all[sized(j)];
        experts.push_back(e);
        weight_of_choice.push_back(p[e] / (s.is_normed ? chosen : 1));
        of_expert[sized(e)].push_back(static_cast<std::int32_t>(r * s.chosen + j));
      }
    }
    places.resize(experts.size());
    for (const auto& choices : of_expert) {
      first.push_back(std::ssize(rows));
      for (const std::int32_t choice : choices) {
        places[sized(choice)] = static_cast<std::int32_t>(rows.size());
        rows.push_back(choice / s.chosen);
        weights.push_back(weight_of_choice[sized(choice)]);
      }
    }
    first.push_back(std::ssize(rows));
  }
};

// A choice on a device.
struct Chosen {
  ChoiceShape shape;
  DeviceArray<float> probabilities, weights;
  DeviceArray<std::int32_t> experts, rows, places;
  DeviceArray<std::int64_t> first;

  Chosen(Device& device, const ChoiceShape& s, ValueType type, const Floats& logits)
      : shape(s),
        probabilities(device, Floats(sized(s.rows * s.experts))),
        weights(device, Floats(sized(s.choices()))),
        experts(device, Ints(sized(s.choices()))),
        rows(device, Ints(sized(s.choices()))),
        places(device, Ints(sized(s.choices()))),
        first(device, std::vector<std::int64_t>(sized(s.experts + 1))) {
    const Cells in(device, type, logits);
    ChoiceArgs args = this->args(type);
    args.logits = in.data();
    device.choose(args);
    device.order_choices(args);
    device.synchronize();
  }
  ChoiceArgs args(ValueType type) const {
    return {.shape = shape,
            .type = type,
            .choices = {probabilities.data(), experts.data()},
            .order = {weights.data(), rows.data(), places.data(), first.data()}};
  }
};

// Some rows have equal logits.
Floats logits_of(const ChoiceShape& s, ValueType type) {
  Floats logits = rounded(type, random_floats(s.rows * s.experts, 3, 2));
  for (std::int64_t e = 0; e < s.experts; ++e) logits[sized(2 * s.experts + e)] = 1;
  for (std::int64_t e = 0; e + 1 < s.experts; e += 2)
    logits[sized(4 * s.experts + e)] = logits[sized(4 * s.experts + e + 1)];
  return logits;
}

TEST_P(ExpertsTest, ChoicesAndTheirOrderAreThoseOfPlainLoops) {
  for (const ValueType type : kTypes) {
    for (const ChoiceShape& s : kChoiceShapes) {
      const Floats logits = logits_of(s, type);
      const Plain want(s, logits);
      const Chosen got(device(), s, type, logits);
      expect_near(got.probabilities.values(), want.probabilities, 2e-6);
      EXPECT_EQ(got.experts.values(), want.experts);
      EXPECT_EQ(got.first.values(), want.first);
      EXPECT_EQ(got.rows.values(), want.rows);
      EXPECT_EQ(got.places.values(), want.places);
      expect_near(got.weights.values(), want.weights, 2e-6);
    }
  }
}

TEST_P(ExpertsTest, GradientsAreThoseOfFiniteDifferences) {
  for (const ChoiceShape& s : kChoiceShapes) {
    const Floats logits = random_floats(s.rows * s.experts, 4, 2);
    const Chosen chosen(device(), s, ValueType::kFp32, logits);
    const Floats r = random_floats(s.choices(), 5), more = random_floats(s.rows * s.experts, 6);
    const auto weight_gradient = array(r), slopes = array(more);
    const auto got = array(Floats(logits.size(), 1.0F));
    ChoiceArgs args = chosen.args(ValueType::kFp32);
    args.weight_gradient = weight_gradient.data();
    args.probability_gradient = slopes.data();
    args.accumulate = true;  // to what another loss asks of probabilities
    device().order_choices_backward(args);
    args.logit_gradient = got.data();
    device().choose_backward(args);
    Floats gradient = got.values();
    for (float& g : gradient) g -= 1;
    const Plain plain(s, logits);
    expect_gradient(logits, gradient, 1e-3F, 2e-3, [&](const Floats& x) {
      Plain at(s, x);
      // The choice stays as it was: at its places, whatever is the most probable now.
      double sum = std::inner_product(more.begin(), more.end(), at.probabilities.begin(), 0.0);
      for (std::int64_t row = 0; row < s.rows; ++row) {
        double all = s.is_normed ? 0 : 1;
        const auto p = [&](int j) {
          return at.probabilities[sized(row * s.experts + plain.experts[sized(row * s.chosen + j)])];
        };
        for (int j = 0; s.is_normed && j < s.chosen; ++j) all += p(j);
        for (int j = 0; j < s.chosen; ++j)
          sum += r[sized(plain.places[sized(row * s.chosen + j)])] * p(j) / all;
      }
      return sum;
    });
    // Anew: what was there is forgotten.
    args.accumulate = false;
    device().order_choices_backward(args);
    device().choose_backward(args);
    const Floats anew = slopes.values();
    for (std::size_t i = 0; i < anew.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / s.experts;
      const auto begin = plain.experts.begin() + row * s.chosen, end = begin + s.chosen;
      const bool is_chosen = std::find(begin, end, static_cast<std::int64_t>(i) % s.experts) != end;
      ASSERT_TRUE(is_chosen || anew[i] == 0) << i;
    }
  }
}

// A row chooses each expert once at most, so that no expert has more rows than there are.
TEST_P(ExpertsTest, NotANumberChoosesExpertsThatExist) {
  for (const ChoiceShape& s : {ChoiceShape{8, 11, 3, true}, ChoiceShape{8, 70, 8, false}}) {
    Floats logits = random_floats(s.rows * s.experts, 7);
    logits[5] = std::nanf("");
    std::fill_n(logits.begin() + s.experts, s.experts, std::nanf(""));
    std::fill_n(logits.begin() + 2 * s.experts, s.experts, std::numeric_limits<float>::infinity());
    std::fill_n(logits.begin() + 3 * s.experts, s.experts, -std::numeric_limits<float>::infinity());
    const Chosen got(device(), s, ValueType::kFp32, logits);
    const Ints experts = got.experts.values();
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const std::set<std::int32_t> row(experts.begin() + r * s.chosen, experts.begin() + (r + 1) * s.chosen);
      EXPECT_EQ(std::ssize(row), s.chosen) << r;
      EXPECT_GE(*row.begin(), 0);
      EXPECT_LT(*row.rbegin(), s.experts);
    }
    EXPECT_EQ(got.first.values().back(), s.choices());
    EXPECT_TRUE(std::isnan(got.probabilities.values()[0]));
  }
}

TEST_P(ExpertsTest, RowsAreTakenWeighedAndAdded) {
  const Ints list{4, 0, 2};
  const auto rows = array(list);
  for (const ValueType type : kTypes) {
    for (const std::int64_t width : {1, 20, 2100}) {
      const Floats x = rounded(type, random_floats(6 * width, 8));
      const Cells in = cells(type, x), out = cells(type, 4 * width);
      device().take_rows({type, width, 3, 4, rows.data(), in.data(), out.data()});
      Floats taken;
      for (const std::int32_t row : list)
        taken.insert(taken.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
      taken.resize(sized(4 * width), 0.0F);
      EXPECT_EQ(out.floats(), taken);

      const Floats weights{0.5F, -2.0F, 0.125F}, of_other = rounded(type, random_floats(3 * width, 9));
      const auto by = array(weights), dots = array(Floats(3));
      const Cells other = cells(type, of_other);
      device().weigh_rows({type, width, 3, by.data(), out.data(), other.data(), dots.data()});
      Doubles want_dots(3);
      Floats weighed = taken;
      for (std::size_t i = 0; i < sized(3 * width); ++i) {
        want_dots[i / sized(width)] += double{taken[i]} * of_other[i];
        weighed[i] *= weights[i / sized(width)];
      }
      EXPECT_EQ(out.floats(), weighed);
      expect_near(dots.values(), want_dots, 1e-5);
      device().weigh_rows({type, width, 3, by.data(), out.data()});
      for (std::size_t i = 0; i < sized(3 * width); ++i) weighed[i] *= weights[i / sized(width)];
      EXPECT_EQ(out.floats(), weighed);

      const auto sums = array(Floats(sized(6 * width), 1.0F)), terms = array(taken);
      device().add_rows({width, 3, rows.data(), terms.data(), sums.data()});
      Floats want(sized(6 * width), 1.0F);
      for (std::size_t i = 0; i < sized(3 * width); ++i)
        want[sized(list[i / sized(width)] * width) + i % sized(width)] += taken[i];
      EXPECT_EQ(sums.values(), want);
    }
  }
}

// Two layers: shares are of the choices of both.
TEST_P(ExpertsTest, TheBalanceIsOfAllLayers) {
  for (const ChoiceShape& s : kChoiceShapes) {
    const double factor = 0.3;
    const auto sums = array(Doubles(sized(2 * s.experts)));
    Doubles choices(sized(s.experts)), probabilities(sized(s.experts));
    const auto result = array(std::vector<LossResult>{{.sum = 2, .correct = 3}});
    std::vector<std::unique_ptr<Chosen>> layers;
    BalanceArgs args{.shape = s,
                     .choices = {},
                     .rows = 2 * s.rows,
                     .factor = factor,
                     .sums = sums.data(),
                     .result = result.data()};
    for (const unsigned seed : {10U, 11U}) {
      const Floats logits = random_floats(s.rows * s.experts, seed);
      const Plain plain(s, logits);
      for (const std::int32_t e : plain.experts) choices[sized(e)] += 1;
      for (std::size_t i = 0; i < plain.probabilities.size(); ++i)
        probabilities[i % sized(s.experts)] += plain.probabilities[i];
      layers.push_back(std::make_unique<Chosen>(device(), s, ValueType::kFp32, logits));
      args.choices = layers.back()->args(ValueType::kFp32).choices;
      device().balance_sums(args);
    }
    device().balance_loss(args);
    device().synchronize();
    const double rows = 2.0 * static_cast<double>(s.rows);
    double loss = 0;
    for (std::size_t e = 0; e < choices.size(); ++e)
      loss += factor * s.experts * (choices[e] / rows) * (probabilities[e] / rows);
    EXPECT_NEAR(result.values()[0].sum, 2 + loss, 1e-6);
    EXPECT_EQ(result.values()[0].correct, 3);
    for (const bool accumulate : {false, true}) {
      const auto gradient = array(Floats(sized(s.rows * s.experts), 1.0F));
      args.probability_gradient = gradient.data();
      args.accumulate = accumulate;
      device().balance_backward(args);
      Doubles want;
      for (std::int64_t i = 0; i < s.rows * s.experts; ++i)
        want.push_back((accumulate ? 1 : 0) +
                       factor * s.experts * choices[sized(i % s.experts)] / (rows * rows));
      expect_near(gradient.values(), want, 1e-6);
    }
  }
}

Floats results_of(Device& device) {
  const ChoiceShape s{900, 40, 5, true};
  const Chosen chosen(device, s, ValueType::kBf16, random_floats(s.rows * s.experts, 12));
  const DeviceArray<double> sums(device, Doubles(80));
  device.balance_sums({.shape = s, .choices = chosen.args(ValueType::kBf16).choices, .sums = sums.data()});
  device.synchronize();
  Floats all = chosen.weights.values();
  for (const double sum : sums.values()) {
    all.push_back(static_cast<float>(sum));
    all.push_back(static_cast<float>(sum - double{all.back()}));
  }
  return all;
}
TEST(CpuExperts, SameBitsForAnyThreads) {
  CpuDevice one(1), three(3);
  EXPECT_EQ(results_of(one), results_of(three));
}

}  // namespace
}  // namespace lpmm::kernels
