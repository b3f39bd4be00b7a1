#include "theory/step_study.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "kernels/formats/element.h"
#include "kernels/formats/maps.h"

namespace lpmm::theory {
namespace {

constexpr int kSteps = 1500;
constexpr double kMomentum = 0.9;

// Gradient at `x` into `g`, and the loss without noise and decay.
class Problem {
 public:
  virtual ~Problem() = default;
  virtual std::vector<float> start() = 0;
  virtual void gradient(const std::vector<float>& x, std::vector<float>& g) = 0;
  virtual double loss(const std::vector<float>& x) const = 0;
  virtual double learning_rate() const = 0;
};

class Quadratic : public Problem {
 public:
  explicit Quadratic(std::uint64_t seed) : random_(seed), optimum_(kSize), curvature_(kSize) {
    for (std::size_t i = 0; i < kSize; ++i) {
      optimum_[i] = normal_(random_);
      curvature_[i] = std::pow(10.0F, -2 * uniform_(random_));
    }
  }
  std::vector<float> start() override {
    std::vector<float> x(kSize);
    for (float& v : x) v = 0.1F * normal_(random_);
    return x;
  }
  void gradient(const std::vector<float>& x, std::vector<float>& g) override {
    for (std::size_t i = 0; i < kSize; ++i) {
      g[i] = curvature_[i] * (x[i] - optimum_[i]) + 0.3F * std::sqrt(curvature_[i]) * normal_(random_);
    }
  }
  double loss(const std::vector<float>& x) const override {
    double sum = 0;
    for (std::size_t i = 0; i < kSize; ++i) {
      sum += 0.5 * curvature_[i] * (x[i] - optimum_[i]) * (x[i] - optimum_[i]);
    }
    return sum / kSize;
  }
  double learning_rate() const override { return 0.1; }

 private:
  static constexpr std::size_t kSize = 2048;
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
  std::uniform_real_distribution<float> uniform_;
  std::vector<float> optimum_, curvature_;
};

class Logistic : public Problem {
 public:
  explicit Logistic(std::uint64_t seed) : random_(seed), input_(kSamples * kSize), label_(kSamples) {
    std::vector<float> teacher(kSize);
    for (float& w : teacher) w = normal_(random_) * std::sqrt(4.0F / kSize);
    for (float& v : input_) v = normal_(random_);
    for (std::size_t s = 0; s < kSamples; ++s) {
      double z = 0;
      for (std::size_t i = 0; i < kSize; ++i) z += teacher[i] * input_[s * kSize + i];
      label_[s] = z + normal_(random_) > 0 ? 1.0F : -1.0F;
    }
  }
  std::vector<float> start() override {
    std::vector<float> x(kSize);
    for (float& v : x) v = normal_(random_) * std::sqrt(1.0F / kSize);
    return x;
  }
  void gradient(const std::vector<float>& x, std::vector<float>& g) override {
    for (std::size_t i = 0; i < kSize; ++i) g[i] = kDecay * x[i];
    for (int b = 0; b < kBatch; ++b) {
      const std::size_t s = random_() % kSamples;
      const float* row = &input_[s * kSize];
      float z = 0;
      for (std::size_t i = 0; i < kSize; ++i) z += x[i] * row[i];
      const float weight = -label_[s] / (1 + std::exp(label_[s] * z)) / kBatch;
      for (std::size_t i = 0; i < kSize; ++i) g[i] += weight * row[i];
    }
  }
  double loss(const std::vector<float>& x) const override {
    double sum = 0;
    for (std::size_t s = 0; s < kSamples; ++s) {
      double z = 0;
      for (std::size_t i = 0; i < kSize; ++i) z += x[i] * input_[s * kSize + i];
      sum += std::log1p(std::exp(-label_[s] * z));
    }
    return sum / kSamples;
  }
  double learning_rate() const override { return 0.1; }

 private:
  static constexpr std::size_t kSize = 512, kSamples = 2048;
  static constexpr int kBatch = 64;
  static constexpr float kDecay = 1e-3F;
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
  std::vector<float> input_, label_;
};

// Weights as codes and steps.
class Packed {
 public:
  Packed(const StepStudy& study, std::size_t size)
      : study_(study),
        format_{Map::kLinear, static_cast<std::uint8_t>(study.bits)},
        codes_(size),
        steps_((size + block() - 1) / block()) {}

  void write(const std::vector<float>& x, std::uint32_t step_number) {
    const float limit = map_limit(format_);
    const Noise noise{study_.seed, 0, step_number, noise_stream(Role::kParameter)};
    for (std::size_t b = 0; b < steps_.size(); ++b) {
      const std::size_t end = std::min(x.size(), (b + 1) * block());
      float largest = 0;
      for (std::size_t i = b * block(); i < end; ++i) largest = std::max(largest, std::abs(x[i]));
      const std::uint16_t old = steps_[b];
      const float range = bf16_to_float(old) * limit;
      const bool keep =
          !study_.moving && largest <= range && largest >= static_cast<float>(study_.slack) * range;
      const float room = study_.moving ? 1.0F : static_cast<float>(study_.room);
      if (!keep) steps_[b] = covering_step(largest * room, limit);
      moves_ += steps_[b] != old ? 1 : 0;
      ++writes_;
      const float step = bf16_to_float(steps_[b]);
      used_range_ = b == 0 ? 0 : used_range_;
      used_range_ += largest / (step * limit) / static_cast<double>(steps_.size());
      for (std::size_t i = b * block(); i < end; ++i) {
        codes_[i] = encode_value(format_, table_, Rounding::kStochastic, x[i], step,
                                 rounding_draw(noise, static_cast<std::int64_t>(i)));
      }
    }
  }
  void read(std::vector<float>& x) const {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = decode_code(format_, table_, codes_[i], bf16_to_float(steps_[i / block()]));
    }
  }
  double moves() const { return static_cast<double>(moves_) / static_cast<double>(writes_); }
  double used_range() const { return used_range_; }

 private:
  std::size_t block() const { return static_cast<std::size_t>(study_.block); }
  StepStudy study_;
  Format format_;
  MapTable table_ = map_table(format_);
  std::vector<std::uint32_t> codes_;
  std::vector<std::uint16_t> steps_;
  std::int64_t moves_ = 0, writes_ = 0;
  double used_range_ = 0;
};

}  // namespace

StepStudyResult run_step_study(const StepStudy& study) {
  Quadratic quadratic(study.seed);
  Logistic logistic(study.seed);
  Problem& problem = study.problem == StudyProblem::kQuadratic ? static_cast<Problem&>(quadratic) : logistic;
  std::vector<float> x = problem.start();
  std::vector<float> g(x.size()), m(x.size());
  Packed packed(study, x.size());
  const bool is_packed = study.bits > 0;
  if (is_packed) packed.write(x, 0);
  for (std::uint32_t t = 1; t <= kSteps; ++t) {
    if (is_packed) packed.read(x);
    problem.gradient(x, g);
    const double phase = std::numbers::pi * (t - 1) / kSteps;
    const auto lr = static_cast<float>(problem.learning_rate() * 0.5 * (1 + std::cos(phase)));
    for (std::size_t i = 0; i < x.size(); ++i) {
      m[i] = static_cast<float>(kMomentum) * m[i] + g[i];
      x[i] -= lr * m[i];
    }
    if (is_packed) packed.write(x, t);
  }
  if (is_packed) packed.read(x);
  return {problem.loss(x), is_packed ? packed.moves() : 0, is_packed ? packed.used_range() : 0};
}

}  // namespace lpmm::theory
