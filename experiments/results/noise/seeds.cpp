// The seeds of README.md's second table; linked against theory, models, core and kernels of a build of each
// commit.
#include <cmath>
#include <cstdio>
#include "kernels/cpu.h"
#include "lpmm/memory/spec.h"
#include "theory/floors.h"
#include "theory/quadratic.h"
#include "theory/variance_study.h"
using namespace lpmm;
using namespace lpmm::theory;
static Spec int_spec(int b) {
  return {{Map::kLinear, (std::uint8_t)b}, 128, Rounding::kStochastic, StepMode::kSticky};
}
template <class F>
void over_seeds(const char* n, F f) {
  double s = 0, q = 0;
  int N = 12;
  for (int i = 1; i <= N; ++i) {
    double x = f((std::uint64_t)i);
    s += x;
    q += x * x;
  }
  double m = s / N;
  printf("%-28s mean %.4f sd %.4f\n", n, m, std::sqrt(std::max(0.0, (q / N - m * m) * N / (N - 1))));
  fflush(stdout);
}
int main() {
  CpuDevice device(2);
  over_seeds("qr int4 lr .1", [&](std::uint64_t s) {
    QuadraticRun r;
    r.parameter = int_spec(4);
    r.parameter.rounding = Rounding::kQuasiStochastic;
    r.blocks = 8;
    r.learning_rate = .1;
    r.momentum = 0;
    r.seed = s;
    auto x = run_quadratic(r, device);
    return x.variance / predict(r, x).variance;
  });
  auto fl = [&](const char* m, bool e, std::uint64_t s) {
    QuadraticRun r;
    r.parameter = int_spec(8);
    r.blocks = 8;
    r.learning_rate = 1e-4;
    r.momentum = .9;
    r.seed = s;
    r.momentum_state = parse_spec(m);
    r.error_feedback = e;
    auto x = run_quadratic(r, device);
    return x;
  };
  over_seeds("feedback four/plain", [&](std::uint64_t s) {
    return fl("soft4:block128:sr", true, s).variance / fl("soft4:block128:sr", false, s).variance;
  });
  over_seeds("lin04 .95 steps/pred", [&](std::uint64_t s) {
    VarianceStudy v{
        .variance = parse_spec("lin04:block128:sr:sticky"), .beta2 = .95, .spread = .1, .blocks = 16};
    v.seed = s;
    auto r = run_variance_study(v, device);
    return (r.step_ratio - 1) / (step_lengthening(r.gap, .95) - 1);
  });
}
