// The parts of a rule. A rule is a struct in a file of its own in kernels/rules/ and an entry of the variant
// in kernels/rules.h; everything that lists rules (config keys and their checks, plan, bench, advise, the
// loops of every backend, --help) reads the struct. It has
//
//   the scalars of one step, and the arithmetic of one element: operator()(Elements<F>&), for F = float and
//     vectors of floats, with +, -, *, / and the functions below; no fused operations, so that every level
//     and backend rounds alike;
//   kName, kHelp; kLearningRate, what it takes where none is given, as its reference does; kStates, the roles
//     it keeps from step to step;
//   Settings, a struct with its defaults, and kSettings, their keys, ranges and help; problem(); uses(),
//     which of kStates it keeps of a tensor with these settings;
//   make(), which makes a step's scalars from settings in fp64; of this rule, or a variant of it and others
//     that take some of the tensors;
//   feed_back() and kMomentumSetting, the key of the momentum's share that stays, or kNoFeedback, why not:
//     what rounding took from the parameter, `error` = wanted - stored, comes back through the momentum
//     (ECO, arXiv 2601.22101);
//   accumulated_weight() and no_accumulation(), or kNoAccumulation, why gradients cannot be folded straight
//     into the momentum; accumulates(), of which tensors they can, where that is not all;
//   kFusedStates, those of kStates that its usual settings keep, where that is not all: what fused loops do;
//   kHasFloatLoops, where fused loops also take parameters, or sums, in fp32: as much code again;
//   slow_momentum_kept(), where it has a slow momentum: the share that stays;
//   usually_zero(rule), a scalar that costs arithmetic where it is not 0: loops of a GPU are compiled without
//   it too; kVarianceGrows, where the variance is a sum over all steps, not an average; where a rule derived
//   from it has the same arithmetic and scalars, Arithmetic, its own name; where a variance is kept per row,
//   or per row and column, next(), what it becomes, given the mean
//     square of the clipped gradient there, and take_row_mean(), where the rule asks for the mean over all
//     rows: a pass before all others that reads the accumulator; shares(), where some rows share one;
//   where an update is several passes over the whole tensor, Pass, which of them this one is;
//   where a step needs norms over the whole tensor, kNorms, needs_norms(), terms() and take_norms(): a first
//     pass over the tensor that only reads sums the squares of the terms, in fp64 and a fixed order.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include "kernels/formats/codec.h"
#include "kernels/macros.h"
#include "kernels/roles.h"

namespace lpmm {

LPMM_HD float square_root(float x) {
  return sqrtf(x);
}
LPMM_HD float larger_of(float a, float b) {
  return a > b ? a : b;
}
// 0 for 0.
LPMM_HD float sign(float x) {
  return x > 0.0F ? 1.0F : x < 0.0F ? -1.0F : 0.0F;
}

// True if two scalars of a step are the same to the bit: a comparison of integers, which costs a loop less.
LPMM_HD bool same(float a, float b) {
  return float_bits(a) == float_bits(b);
}
// A factor that is usually 1 costs nothing then.
template <class F>
LPMM_HD F scaled(F x, float factor) {
  return same(factor, 1.0F) ? x : F(factor) * x;
}

// The values of one element; the accumulator's is its gradient.
template <class F>
using Elements = RoleArray<F>;

// Settings and rates become fp32 scalars of loops: sizes that are numbers there.
inline constexpr double kLeastScalar = 1e-30, kMostScalar = 1e30;

struct Range {
  double low = 0, high = 0;
  std::string_view text;  // "in [0, 1)"
  bool low_is_open = false, high_is_open = false;

  constexpr bool holds(double x) const {
    if (x < 0 ? x > -kLeastScalar : x > 0 && x < kLeastScalar) return false;
    return x >= low && x <= high && !(low_is_open && x == low) && !(high_is_open && x == high);
  }
  friend bool operator==(const Range&, const Range&) = default;
};
inline constexpr Range kFromZero = {0, kMostScalar, "0, or 1e-30 to 1e30"};
inline constexpr Range kAboveZero = {kLeastScalar, kMostScalar, "1e-30 to 1e30"};
inline constexpr Range kShare = {0, 1, "0, or 1e-30 to 1"};
inline constexpr Range kBelowOne = {0, 1, "0, or 1e-30 to below 1", false, true};
inline constexpr Range kSwitch = {0, 1, "true or false"};

// A number or a switch of a rule's Settings.
template <class S>
struct Setting {
  using Number = double S::*;
  using Flag = bool S::*;
  std::string_view key;
  Number number = nullptr;
  Flag flag = nullptr;
  Range range = kSwitch;
  std::string_view help;

  constexpr Setting(std::string_view k, double S::*n, Range r, std::string_view h)
      : key(k), number(n), range(r), help(h) {}
  constexpr Setting(std::string_view k, bool S::*f, std::string_view h) : key(k), flag(f), help(h) {}
};

// A tensor as rules see it: a matrix. A kernel of a convolution is (out, in * height * width); a vector has
// one row.
struct TensorTraits {
  std::int64_t rows = 1, columns = 1;
  bool is_vector = false;  // one dimension or none: biases, norms
  bool is_hidden = false;  // a matrix that is neither an embedding nor a head
  std::int64_t parts = 1;  // matrices of which it is made, one below the other: queries, keys and values
  std::int64_t heads = 0;  // of attention, in each of them; 0: it is none of attention's
  std::int64_t elements() const { return rows * columns; }
};

// The rows of a matrix that share a variance: of the first `shared` rows every `run` of them, one below the
// other; each of the rest has its own.
struct RowShares {
  std::int64_t shared = 0, run = 1;

  LPMM_HD std::int64_t places(std::int64_t rows) const { return rows - shared + shared / run; }
  LPMM_HD std::int64_t rows(std::int64_t places) const { return places + shared - shared / run; }
  LPMM_HD std::int64_t place(std::int64_t row) const {
    return row < shared ? row / run : row - shared + shared / run;
  }
  LPMM_HD std::int64_t first_row(std::int64_t place) const {
    return place * run < shared ? place * run : rows(place);
  }
  LPMM_HD std::int64_t rows_of(std::int64_t place) const { return place * run < shared ? run : 1; }
};

// The host's inputs to a step's scalars for one tensor.
struct RuleStep {
  double learning_rate = 0;  // with the schedule and the tensor's group
  double weight_decay = 0;   // the tensor's
  std::int64_t update = 1;   // t of the bias corrections, from 1
  double clip = 1;           // factor on the gradient
  bool error_feedback = false;
  double kept = 1;  // of the momentum, where the rate rises under error feedback
  TensorTraits tensor = {};

  // The factor of an error that is fed back, where a change of the momentum by 1 moves the parameter by
  // `moved` in time; 0: none.
  float feedback(double moved) const {
    constexpr double kLeastMoved = 1e-30;  // its inverse is an fp32 number
    return error_feedback && moved > kLeastMoved ? static_cast<float>(1 / moved) : 0.0F;
  }
  double decay_factor() const { return 1 - learning_rate * weight_decay; }
};

// Returns true if the divisor of a rule with a variance is from `least` to `most` for all variances up to
// this one, as spreads_within() of the rule has to say. Here the divisor is the variance's root and epsilon;
// there is room for rounding.
LPMM_HD bool root_within(float epsilon, float least, float most, float variance) {
  return epsilon >= least && epsilon <= 0.5F * most && variance <= 0.0625F * most * most;
}

template <class R>
concept FeedsBack = requires(R r) {
  r.feedback;
};

// Why the rules with a variance have no gradients folded into their momentum.
inline constexpr std::string_view kVarianceNeedsGradient = "the variance needs the gradient by itself";

// The variance of an element by those of its row and column, and what is divided by, given the mean of all
// rows: below the smallest normal number gradients are as good as 0.
LPMM_HD float row_divisor(double mean) {
  constexpr float kLeast = 0x1p-126F;  // the least normal number
  return mean > double{kLeast} ? static_cast<float>(mean) : kLeast;
}
template <class F>
LPMM_HD F factored_variance(const Elements<F>& x, float divisor) {
  return x[Role::kRowVariance] / F(divisor) * x[Role::kColumnVariance];
}

template <class R>
concept HasRows = requires(const R r) {
  r.next(0.0F, 0.0);
};
template <class R>
concept NeedsRowMean = requires(R r) {
  r.take_row_mean(0.0);
};
template <class R>
concept HasNorms = requires {
  R::kNorms;
};
// An update of several passes over the whole tensor, with what is made of it between them.
template <class R>
concept HasPasses = requires {
  typename R::Pass;
};

}  // namespace lpmm
