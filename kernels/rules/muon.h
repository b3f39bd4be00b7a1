// Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon; PyTorch's convention): the step of a hidden
// matrix is its momentum, made orthogonal by Newton and Schulz's iteration (kernels/orthogonal.h), with
// decoupled decay. Embeddings, heads and vectors take AdamW's steps.
//
// An update of such a matrix is more than one pass over it: the momentum takes the gradient and its direction
// goes, in fp32, into the workspace; that is made orthogonal there; and the parameter takes the result as
// if it were its gradient. Each pass is an update of some roles, of which the workspace may be one.
#pragma once

#include <algorithm>
#include <variant>

#include "kernels/rules/adam.h"
#include "kernels/rules/sgd.h"

namespace lpmm {

struct Muon {
  enum class Pass : std::uint8_t { kAll, kDirection, kNormalize, kCombine };

  // Scalars of one step. With momentum 0 there is no state and m is not read.
  float momentum = 0;
  float one_minus_momentum = 1;
  float gradient_scale = 1;  // the clip factor
  bool nesterov = false;
  Pass pass = Pass::kAll;
  float kept = 1, moved = 0;  // p <- kept * p + moved * g
  // The tensor: as many matrices, one below the other.
  std::int64_t parts = 1, rows = 0, columns = 0;  // of each
  int iterations = 0;

  template <class F>
  LPMM_HD void operator()(Elements<F>& x) const {
    F &p = x[Role::kParameter], &m = x[Role::kMomentum];
    F g = x[Role::kAccumulator];
    if (pass != Pass::kDirection) {
      p = scaled(p, kept) + F(moved) * g;
      return;
    }
    g = scaled(g, gradient_scale);
    if (!same(momentum, 0.0F)) {
      m = F(momentum) * m + F(one_minus_momentum) * g;
      g = nesterov ? F(one_minus_momentum) * g + F(momentum) * m : m;
    }
    p = g;
  }

  static constexpr int kNorms = 1;
  bool needs_norms() const { return pass == Pass::kNormalize; }
  template <class F>
  LPMM_HD void terms(Elements<F>& x, F (&out)[kNorms]) const {
    out[0] = x[Role::kParameter];
  }
  LPMM_HD void take_norms(const double (&square_sums)[kNorms]) {
    constexpr double kEpsilon = 1e-7;
    kept = static_cast<float>(1 / (sqrt(square_sums[0]) + kEpsilon));
  }

  static constexpr std::string_view kName = "muon";
  static constexpr double kLearningRate =
      1e-3;  // torch.optim.Muon; its own 0.02 is for steps without match_rms
  static constexpr std::string_view kHelp =
      "Muon: steps of hidden matrices are made orthogonal, the rest takes adamw's; weight decay pulls on the "
      "weights";
  static constexpr std::array kStates = {Role::kMomentum, Role::kVariance};

  struct Settings {
    double momentum = 0.95;
    bool nesterov = true;
    double ns_steps = 5;
    bool match_rms = true;
    double adamw_rate_scale = 1, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
    // NOLINTNEXTLINE(google-explicit-constructor): what takes adamw's steps has its settings
    operator Adam::Settings() const { return {beta1, beta2, epsilon}; }
  };
  static constexpr double kMostIterations = 100;
  static constexpr std::array kSettings = {
      Setting("momentum", &Settings::momentum, kBelowOne, "share of the momentum that stays; 0: none"),
      Setting("nesterov", &Settings::nesterov, "step by where the momentum will be"),
      Setting("ns_steps", &Settings::ns_steps, Range{1, kMostIterations, "a whole number from 1 to 100"},
              "iterations that make a matrix orthogonal"),
      Setting("match_rms", &Settings::match_rms,
              "steps as large as adamw's, 0.2 sqrt(max(rows, columns)), so that both take one rate; off: "
              "sqrt(max(1, rows / columns))"),
      Setting("adamw_rate_scale", &Settings::adamw_rate_scale, kFromZero,
              "factor on the rate of what takes adamw's steps"),
      Setting("beta1", &Settings::beta1, kBelowOne, "share of the momentum that stays"),
      Setting("beta2", &Settings::beta2, kBelowOne, "share of the variance that stays"),
      Setting("epsilon", &Settings::epsilon, kAboveZero, "added to the root of the variance"),
  };
  static constexpr std::string_view kNoFeedback =
      "a step is made of a whole matrix, and no change of the momentum gives back the rounding error of one "
      "weight";

  // A matrix that is made orthogonal. One without elements has nothing to be made.
  static bool is_matrix(const TensorTraits& tensor) { return tensor.is_hidden && tensor.columns > 0; }
  static bool uses(const Settings& s, const TensorTraits& tensor, Role role) {
    return !is_matrix(tensor) || (role == Role::kMomentum && s.momentum > 0);
  }
  static std::string_view problem(const Settings& s) {
    return s.ns_steps != std::floor(s.ns_steps) ? "ns_steps must be a whole number from 1 to 100" : "";
  }
  static double momentum_kept(const Settings& s) { return s.momentum; }
  static double typical_move(double learning_rate, double /*size*/) { return 0.2 * learning_rate; }
  // Matrices accumulate as with SGD; tensors that take adamw's steps keep their accumulator.
  static bool accumulates(const TensorTraits& tensor) { return is_matrix(tensor); }
  static std::string_view no_accumulation(const Settings& s) {
    return Sgd::no_accumulation({.momentum = s.momentum, .nesterov = s.nesterov});
  }
  static double accumulated_weight(const Settings& s, std::int64_t /*update*/, int microbatches) {
    return (1 - s.momentum) / (microbatches * s.momentum);
  }

  // The singular values of what is made orthogonal are about 1: a weight of it is about 1 / sqrt(max(rows,
  // columns)).
  static double size_of_step(const Settings& s, double rows, double columns) {
    return s.match_rms ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
  }

  static std::variant<Muon, AdamW> make(const Settings& s, const RuleStep& step) {
    if (!is_matrix(step.tensor)) {
      RuleStep scaled = step;
      scaled.learning_rate *= s.adamw_rate_scale;
      return AdamW::make(s, scaled);
    }
    Muon muon;
    muon.momentum = static_cast<float>(s.momentum);
    muon.one_minus_momentum = static_cast<float>(1 - s.momentum);
    muon.gradient_scale = static_cast<float>(step.clip);
    muon.nesterov = s.nesterov;
    muon.parts = step.tensor.parts;
    muon.rows = step.tensor.rows / muon.parts;
    muon.columns = step.tensor.columns;
    muon.iterations = static_cast<int>(s.ns_steps);
    const double size = size_of_step(s, static_cast<double>(muon.rows), static_cast<double>(muon.columns));
    muon.kept = static_cast<float>(step.decay_factor());
    muon.moved = static_cast<float>(-step.learning_rate * size);
    return muon;
  }
};

}  // namespace lpmm
