// The measurements behind the presets (`lpmm ablate`), each a CSV file and a plot in one folder:
//   quadratic  noise floors of SGD and SGDM, measured on packed runs and predicted by theory/floors.h
//   momentum   the same floors with gradients accumulated in the momentum, beside that of fp32
//   logistic   noise floors and lost updates of logistic regression: theory/logistic.h
//   steps      the constants of sticky steps, and the block: theory/step_study.h
//   variance   Adam's steps with a packed variance: theory/variance_study.h
//   quantiles  errors of code books made from quantiles, and Adam's updates with them: experiments/quantiles/
//   update_error  what one step loses with a state in few bits, on states of a real run:
//   theory/update_study.h
//   lion_signs  which signs of Lion's steps turn where its momentum has few bits: theory/sign_study.h
#pragma once

#include <string>
#include <vector>

namespace lpmm {

std::vector<std::string> ablation_parts();

struct AblationOptions {
  std::string out;
  std::vector<std::string> parts = ablation_parts();
  int threads = 0;
  bool quick = false;  // a corner of each grid, to see that it works
  bool svg = false;    // draws its charts as SVG too
};

// Returns kDone. Throws UsageError, RunError.
int run_ablation(const AblationOptions& options);

}  // namespace lpmm
