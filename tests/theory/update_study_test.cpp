#include "theory/update_study.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu.h"
#include "tests/normal_values.h"

namespace lpmm::theory {
namespace {

// ln v is normal with the deviation `spread`, m is normal at the size of sqrt(v).
std::vector<AdamState> states(float spread) {
  AdamState s;
  s.variance = normal_values(128 * 64, 1, spread, false);
  s.momentum = normal_values(128 * 64, 2, 0.3F, false);
  for (std::size_t i = 0; i < s.variance.size(); ++i) {
    s.variance[i] = 1e-6F * std::exp(s.variance[i]);
    s.momentum[i] *= std::sqrt(s.variance[i]);
  }
  return {s, s};
}

UpdateStudyResult study_of(Role role, const char* spec, float spread = 1.4F) {
  CpuDevice device(1);
  return run_update_study({.stored = role, .spec = parse_spec(spec)}, states(spread), device);
}

TEST(UpdateStudyTest, ExactStorageHasNoError) {
  for (const Role role : {Role::kMomentum, Role::kVariance}) {
    const UpdateStudyResult r = study_of(role, "fp32");
    EXPECT_EQ(r.error, 0);
    EXPECT_EQ(r.worst, 0);
    EXPECT_NEAR(r.length, 1, 1e-12);
  }
}

// Published simulations of this spread and block: 7.5 % to nearest, 10.7 % stochastic.
TEST(UpdateStudyTest, LogMapsHaveLessThanHalfTheErrorOfSquares) {
  const double squares = study_of(Role::kVariance, "sqrt04:block128:rn").error;
  const double logarithms = study_of(Role::kVariance, "log04:block128:rn").error;
  EXPECT_NEAR(logarithms, 0.075, 0.02);
  EXPECT_LT(logarithms, 0.45 * squares);
  EXPECT_NEAR(study_of(Role::kVariance, "log04:block128:sr").error, 0.107, 0.03);
}

// The mean of 1 / sqrt(v) is kept by ur alone; rounding v lengthens steps (Jensen's inequality).
TEST(UpdateStudyTest, RoundingInTheUpdateKeepsTheLengthOfSteps) {
  for (const char* format : {"sqrt04", "log03", "de04"}) {
    const std::string name = format;
    const UpdateStudyResult value = study_of(Role::kVariance, (name + ":sr").c_str(), 0.6F);
    const UpdateStudyResult update = study_of(Role::kVariance, (name + ":ur").c_str(), 0.6F);
    EXPECT_GT(value.length, 1.002) << name;
    EXPECT_NEAR(update.length, 1, 0.25 * (value.length - 1)) << name;
    EXPECT_LT(update.error, value.error) << name;
  }
}

TEST(UpdateStudyTest, MomentumIsRoundedInItsPlace) {
  const UpdateStudyResult r = study_of(Role::kMomentum, "soft4:block128:sr", 0.6F);
  EXPECT_GT(r.error, 0.05);
  EXPECT_LT(r.error, 0.35);
  EXPECT_NEAR(r.length, 1, 0.01);
  EXPECT_LT(study_of(Role::kMomentum, "soft6:block128:sr", 0.6F).error, 0.4 * r.error);
}

}  // namespace
}  // namespace lpmm::theory
