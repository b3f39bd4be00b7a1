#include "theory/sign_study.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu.h"
#include "tests/normal_values.h"

namespace lpmm::theory {
namespace {

constexpr std::int64_t kElements = 128 * 16;
constexpr double kBeta1 = 0.9, kBeta2 = 0.99;

// `updates` of random gradients about a mean of `drift`; the last half counts.
TurnedSigns turned(const char* spec, float drift, int updates = 200) {
  CpuDevice device(1);
  SignStudy study(parse_spec(spec), kBeta1, kBeta2, 3);
  std::vector<float> momentum(kElements);
  for (int t = 0; t < updates; ++t) {
    if (t == updates / 2) study.begin_count();
    std::vector<float> gradient = normal_values(kElements, static_cast<std::uint64_t>(t) + 1, 1.0F, false);
    for (float& g : gradient) g += drift;
    study.update(0, momentum, gradient, device);
    for (std::size_t i = 0; i < momentum.size(); ++i) {
      momentum[i] = static_cast<float>(kBeta2) * momentum[i] + static_cast<float>(1 - kBeta2) * gradient[i];
    }
  }
  return study.turned();
}

TEST(SignStudyTest, NothingTurnsWhereStorageIsExact) {
  EXPECT_EQ(turned("fp32", 0).elements, 0);
  EXPECT_EQ(turned("fp32", 0).weight, 0);
}

// c has the deviation sqrt(0.01 + 0.81 / 199); a sign turns where the stored error, 0.9 e, passes it: for e
// with the deviation s, at the share atan(0.9 s / that) / pi.
TEST(SignStudyTest, TurnedSharesAreThoseOfTheErrorThatStays) {
  const double deviation = std::sqrt(0.01 + 0.81 / 199);
  const TurnedSigns few = turned("int8:block128:sr:sticky", 0, 600);
  // A block's largest of 128 is about 2.6 deviations, sticky room included; sr adds step^2 / 6 on average,
  // and the average keeps 1 / (1 - 0.99^2) = 50 of these.
  const double step = 2.8 * std::sqrt(1 / 199.0) / 127;
  const double error = std::sqrt(step * step / 6 * 50.25);
  EXPECT_NEAR(few.elements, std::atan(0.9 * error / deviation) / 3.14159, 0.25 * few.elements);
  EXPECT_LT(few.weight, 0.1 * few.elements);  // signs that turn say little
}

TEST(SignStudyTest, FewerBitsTurnMoreSigns) {
  double before = 0;
  for (const char* spec : {"int12:sr", "int8:sr", "soft6:sr", "soft4:sr", "soft3:sr"}) {
    const double now = turned(spec, 0).elements;
    EXPECT_GT(now, before) << spec;
    before = now;
  }
  EXPECT_LT(before, 0.5);
}

// Gradients that agree leave no doubt about a sign.
TEST(SignStudyTest, LargeMeansKeepTheirSigns) {
  EXPECT_LT(turned("soft4:sr", 8).elements, 1e-4);
}

}  // namespace
}  // namespace lpmm::theory
