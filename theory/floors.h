// Closed forms for low-precision model memory: rounding error, underflow, and the noise floor of SGD and SGD
// with momentum on a quadratic. theory/README.md derives each; tests/theory checks each against simulation
// and against packed runs. Values and steps share one unit (that of the parameter); variances are its square.
#pragma once

#include <Eigen/Core>
#include <cstdint>

#include "kernels/formats/codec.h"

namespace lpmm::theory {

// ---- rounding (README 1) -------------------------------------------------------------------------------
struct RoundingMoments {
  double bias = 0;                                         // E[stored] - x
  double variance = 0;                                     // Var[stored]
  double error() const { return bias * bias + variance; }  // E[(stored - x)^2]
};

// One value x in a block with this step, on any packed map. `x` within the block's range. Eq. (1), (2).
RoundingMoments rounding_moments(Format format, MapTable table, Rounding rounding, double x, double step);

// E[(stored - x)^2] on a linear grid for x = (a grid point) + N(0, spread^2). Eq. (3), (4). The limits are
// step * E|x| - E x^2 (sr, small spread) and step^2/6 (sr), step^2/12 (rn) for a large one.
double grid_error(Rounding rounding, double step, double spread);

// The same for x ~ N(0, spread^2) on any packed map, by quadrature; values beyond the range are left out.
double map_error(Format format, MapTable table, Rounding rounding, double step, double spread);

// Covariance of the errors that `qr` makes of one element in two writes `lag` apart, each from a grid point,
// the updates N(0, spread^2) and correlated by `correlation`. Eq. (5b).
double quasi_covariance(double step, double spread, double correlation, std::int64_t lag);

// The part of sr's rounding noise that is left with qr in the long run: (5b) summed over all lags, over that
// of lag 0. Updates are correlated by momentum^lag. Eq. (5c). Throws UsageError for a momentum outside
// [0, 1).
double quasi_share(double step, double spread, double momentum);

// E[max^2] of `count` independent |N(0, 1)|: an abs-max block's step is about spread * sqrt(this) / limit.
double expected_square_of_largest(int count);

// Noise that a state with a moving step adds at each write, its elements being N(0, spread^2). README 1.4.
double state_noise(const Codec& codec, MapTable table, double spread);

// Noise in an accumulator after `folds` folds of g / folds with sr: g is a mean over microbatches that is
// N(0, mean_spread^2) over elements, and around it N(0, noise_spread^2), new in each. Eq. (5).
double fold_noise(const Codec& codec, MapTable table, int folds, double mean_spread, double noise_spread);

// ---- underflow (README 2) ------------------------------------------------------------------------------
// Share of the non-zero updates N(0, spread^2), from a grid point, that leave the code unchanged. Eq. (6),
// (7).
double underflow_share(Rounding rounding, double step, double spread);

// The inputs x for which rn stores decay * value + weight * x as `value` again, both in units of the step;
// `value` is one of the map's. Infinite where the map ends. Eq. (8).
struct DeadBand {
  double low = 0, high = 0;
};
DeadBand dead_band(Format format, MapTable table, double value, double decay, double weight);

// The largest of the map's values, in units of the step, that rn never lets decay: x = 0 lies in its dead
// band. At the very edge of it an even code of a linear map stays.
double stuck_value(Format format, MapTable table, double decay);

// ---- Adam's steps (README 6) ---------------------------------------------------------------------------
// E[1 / sqrt(v)] of a variance v stored with sr and a sticky step, times the root of its mean: how much
// longer steps get. `gap` is the distance of v's neighbours on the map over its mean, `decay` is beta2;
// gradients are normal. It holds to second order in the spread of v that rounding makes. Eq. (15).
double step_lengthening(double gap, double decay);

// ---- noise floor (README 3, 4) -------------------------------------------------------------------------
// True if the formulas below say where a run ends: not with rn, nor with qr on a grid that moves.
bool has_floor(Rounding rounding, StepMode steps);

// Solves P = A P A' + Q for a stable A (spectral radius < 1). Throws UsageError where A is not.
Eigen::MatrixXd stationary_covariance(const Eigen::MatrixXd& a, const Eigen::MatrixXd& q);

// Noise floor of x <- x - lr * m, m <- momentum * m + g, g = curvature * (x - optimum) + gradient_noise * xi,
// xi ~ N(0, 1), parameter stored with sr or qr on a linear grid. momentum = 0 is plain SGD.
struct QuadraticProblem {
  double curvature = 1;       // h
  double gradient_noise = 1;  // sigma
  double learning_rate = 0.01;
  double momentum = 0;
  double step = 0;               // of the parameter's grid, delta; its root mean square where it moves
  double moves = 0;              // share of writes at which the grid moved: 0 sticky, 1 moving freely
  double momentum_noise = 0;     // variance that storing the momentum adds at each write
  double accumulator_noise = 0;  // variance that storing the gradient adds at each step
  bool error_feedback = false;   // what rounding takes from x comes back through m; needs momentum
  bool quasi = false;            // qr instead of sr; for steps that are sticky and without error feedback
};

struct Floor {
  double variance = 0;         // E[(x - optimum)^2], averaged over where the optimum lies in its cell
  double loss = 0;             // curvature * variance / 2
  double rounding_noise = 0;   // variance that storing the parameter adds at each write
  double noise_kept = 1;       // of what that adds to `variance` with sr: below 1 where errors of qr cancel
  double update_spread = 0;    // standard deviation of lr * m
  double momentum_spread = 0;  // standard deviation of m as it is stored, without the noise of storing it
  double underflow = 0;        // share of updates that leave the stored parameter unchanged
};

// The Lyapunov equation of (x, m) with the parameter's rounding noise made self-consistent. Eq. (9) to (12),
// with qr (14a). Throws UsageError for what does not settle and what the formulas do not cover.
Floor quadratic_floor(const QuadraticProblem& problem);

// The factor by which error feedback lengthens the momentum of a rule whose steps are `rate` times the
// parameter whatever the momentum, as LAMB's; rounding errors are `error` times the parameter. Infinite where
// such steps are too short to bring the errors back. README 4.
double fed_back_length(double error, double rate, double momentum);

// The variance of `quadratic_floor` with sr in closed form, given the rounding noise. Eq. (13), (14).
double floor_variance(const QuadraticProblem& problem, double rounding_noise);

// The noise floor, as a multiple of the one without rounding the parameter, for learning rates that are small
// beside 1 / curvature: README 4. The variances are of one write of it and of one update, which gradient
// noise makes.
double floor_growth(double rounding_noise, double update_variance, double momentum);

// ---- convergence (README 7) ----------------------------------------------------------------------------
// SGD on an L-smooth function f, x <- x - lr * g, stored with sr: what the theorems there assume.
struct DescentProblem {
  double smoothness = 1;      // L
  double excess = 1;          // f(start) - inf f
  double gradient_noise = 0;  // E |g - grad f|^2 over all elements, at most
  double learning_rate = 0;   // at most 1 / L; with momentum at most (1 - momentum)^2 / 4L
  double momentum = 0;        // with error feedback only
  double step = 0;            // of the parameters' grid, at most
  std::int64_t elements = 0;
  std::int64_t steps = 0;
  bool moving = false;  // the grid is another one at every write
};

// Most that the mean over the steps of E |grad f|^2 can be. Theorem 1 (momentum 0), Theorem 2 (momentum with
// error feedback). Throws UsageError where the assumptions do not hold.
double gradient_bound(const DescentProblem& problem);

}  // namespace lpmm::theory
