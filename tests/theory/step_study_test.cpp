#include "theory/step_study.h"

#include <gtest/gtest.h>

namespace lpmm::theory {
namespace {

TEST(StepStudyTest, StickyStepsLoseLessThanMovingOnes) {
  for (const auto problem : {StudyProblem::kQuadratic, StudyProblem::kLogistic}) {
    const StepStudyResult exact = run_step_study({.problem = problem, .bits = 0});
    const StepStudyResult sticky = run_step_study({.problem = problem, .bits = 8});
    const StepStudyResult moving = run_step_study({.problem = problem, .bits = 8, .moving = true});
    EXPECT_LT(exact.loss, sticky.loss);
    EXPECT_LT(sticky.loss - exact.loss, 0.6 * (moving.loss - exact.loss));
    EXPECT_LT(sticky.moves, 0.05);
    EXPECT_GT(moving.moves, 0.3);
  }
}

TEST(StepStudyTest, ATighterStepIsBetterOnTheQuadratic) {
  const StepStudyResult wide = run_step_study({.bits = 6, .room = 2});
  const StepStudyResult tight = run_step_study({.bits = 6, .room = 1.0625, .slack = 0.8});
  EXPECT_LT(tight.loss, wide.loss);
  EXPECT_GT(tight.used_range, wide.used_range);
}

}  // namespace
}  // namespace lpmm::theory
