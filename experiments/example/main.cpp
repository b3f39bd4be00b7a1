// Logistic regression on a stream of random points: a plain fp32 loop with SGD and momentum, and the same
// loop with weights, gradient and momentum packed. Lines (1) and (2) differ. For Adam: {.rule = "adam"}.
#include <lpmm/memory/packed_vector.h>

#include <cmath>
#include <cstdio>
#include <random>

constexpr int kSize = 200, kSteps = 4000;

int main() {
  std::mt19937 draws(1);
  std::normal_distribution<float> normal;
#ifdef PLAIN
  std::vector<float> w(kSize), m(kSize);  // (1)
#else
  lpmm::PackedVector w(std::vector<float>(kSize), "lpmm-compact",
                       {.learning_rate = 0.01, .settings = {{"momentum", 0.9}}});  // (1)
#endif
  int right = 0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> now = w, x(kSize), g(kSize);
    float truth = 0, z = 0;
    for (int i = 0; i < kSize; ++i) {
      x[i] = normal(draws);
      truth += i % 3 == 0 ? x[i] : -x[i];
      z += now[i] * x[i];
    }
    for (int i = 0; i < kSize; ++i) g[i] = (1 / (1 + std::exp(-z)) - (truth > 0 ? 1 : 0)) * x[i];
    if (step >= kSteps / 2) right += (z > 0) == (truth > 0) ? 1 : 0;
#ifdef PLAIN
    for (int i = 0; i < kSize; ++i) m[i] = 0.9F * m[i] + g[i];  // (2)
    for (int i = 0; i < kSize; ++i) w[i] -= 0.01F * m[i];
#else
    w.step(g);                                                                     // (2)
#endif
  }
  std::printf("accuracy %.3f\n", 2.0 * right / kSteps);
}
