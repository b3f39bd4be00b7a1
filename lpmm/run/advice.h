// Advice to a person about underflow, before training and while it runs.
//
// Lost updates only hurt under nearest rounding: with stochastic rounding an increment u moves a code by one
// step with probability |u| / step, and the mean is right. So warnings are about packed (and bf16) parameters
// under rn; of parameters of two terms, about compensations under rn.
//
// Before the first step the gradients are unknown. Adam moves a weight by about the learning rate; for SGD we
// take 1e-3 of the tensor's root mean square, the size of a healthy step, or the learning rate's share of it
// where that is smaller. An increment u ~ N(0, s) is lost
// with probability erf(step / (2 sqrt(2) s)) (an update below half a step: theory/README.md 2). After a
// measured step the ledger's counts replace the guess.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lpmm/memory/model_memory.h"

namespace lpmm {

inline constexpr double kLostShare = 0.5;       // more than this lost under rn: say so
inline constexpr double kStalledShare = 0.999;  // more than this lost under rn: the parameters stand still

struct LostUpdates {
  double share = 0;   // of all increments of parameters under rn
  std::string worst;  // the tensor with the largest share
  double worst_share = 0;
  std::int64_t elements = 0;  // increments the shares are about; 0: nothing to say
  bool compensates = false;   // it is a compensation's rounding that loses them
};

// Expected at start-up, for the peak learning rate.
LostUpdates expect_lost_updates(const ModelMemory& memory, double learning_rate);
// Measured: from take_stats().
LostUpdates count_lost_updates(const ModelMemory& memory, std::span<const TensorStats> stats);

// One line for a person, empty where all is well. `expected` says whether the numbers are a forecast.
std::string underflow_warning(const LostUpdates& lost, bool expected);
// Not empty where parameters that should change do not: all but kStalledShare of the increments were lost
// under rn, none of them changed a code whatever the rounding, or no parameter had any increment at all.
std::string stall_warning(const ModelMemory& memory, std::span<const TensorStats> stats);
// Both of what a run measures, each said once; of a stall alone where there is one.
class UnderflowWarnings {
 public:
  std::vector<std::string> add(const ModelMemory& memory, std::span<const TensorStats> stats);

 private:
  bool stalled_ = false, loses_ = false;
};

// Warnings about what is known before a run, each for the first tensor that it is true of:
// - a variance may be stored as 0 though it is not: up to 6 bits of a map with a 0 (`ude6`);
// - a variance of equal ratios (`log08`) is rounded to nearest, and hardly ever moves;
// - the rule's variance is a sum, Adagrad's, and rounding does not keep it: nearest loses what is added, `ur`
//   and `ar` keep another mean; at 4 bits and fewer, steps that follow the largest of a block lift it, and
//   all others, time and again;
// - a slow momentum has so few bits that nearest rounding loses a gradient's share of it, or that the noise
//   of stochastic rounding, over the steps that it averages, is more than a tenth of a block's largest value.
std::vector<std::string> storage_warnings(const Policy& policy, const OptimizerConfig& optimizer,
                                          std::span<const TensorInfo> tensors);

}  // namespace lpmm
