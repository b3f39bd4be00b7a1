// Measures how the constants of sticky steps (kStickyRoom, kStickySlack in kernels/formats/codec.h), the
// block and the bits change the final loss of a cosine run: SGD with momentum 0.9 in fp32, parameters packed
// as int with sr by the scalar codec, with room and slack as arguments. The two problems have a known loss.
#pragma once

#include <cstdint>

namespace lpmm::theory {

enum class StudyProblem : std::uint8_t {
  kQuadratic,  // 2,048 elements, curvatures 0.01 to 1, optimum N(0, 1), weights that grow from a tenth of it
  kLogistic,   // 512 weights, 2,048 samples, batch 64, decay 1e-3
};

struct StepStudy {
  StudyProblem problem = StudyProblem::kQuadratic;
  int bits = 8;  // 0: fp32
  int block = 128;
  bool moving = false;  // a step chosen afresh at each write; room and slack are then not used
  double room = 1.125;  // a new step covers room * largest
  double slack = 0.5;   // an old one is dropped below slack * its range
  std::uint64_t seed = 1;
};

struct StepStudyResult {
  double loss = 0;        // at the end, of the stored weights, without decay
  double moves = 0;       // share of writes at which a block's step changed
  double used_range = 0;  // mean of largest / range at the end
};

StepStudyResult run_step_study(const StepStudy& study);

}  // namespace lpmm::theory
