// A softmax regression on 16x16 averaged pixels with a running mean as its buffer: small enough to train in
// milliseconds, with everything a run must keep. NaN gradients can be asked for.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/noise.h"
#include "lpmm/program/program.h"

namespace lpmm {

constexpr int kTinyFeatures = 16 * 16 * 3, kTinyClasses = 10;

// Faults and hooks that a test asks for: the first two once per microbatch, the third once per test batch.
struct TinyHooks {
  std::function<bool()> poison = {};                          // NaN in the gradient
  std::function<bool()> poison_buffer = {};                   // Inf in the running mean
  std::function<bool()> poison_test = {};                     // a loss that is NaN
  std::function<void()> built = {};                           // called where a program is built
  std::function<float(std::uint32_t step)> bias_factor = {};  // for the bias's gradient
};

class TinyProgram : public Program {
 public:
  explicit TinyProgram(TinyHooks hooks) : hooks_(std::move(hooks)) {}
  std::int64_t activation_bytes() const override { return kTinyFeatures * 8; }
  std::int64_t workspace_bytes() const override { return kTinyFeatures * kTinyClasses * 8; }
  std::int64_t largest_transient_bytes() const override { return kTinyFeatures * kTinyClasses * 4; }

  PendingLoss train(const ModelMemory& memory, Step& step, Buffers& buffers, const Batch& batch,
                    int microbatch) override {
    std::vector<float> weight_gradient(kTinyFeatures * kTinyClasses), bias_gradient(kTinyClasses);
    const BatchResult result = pass(memory, buffers, batch, &weight_gradient, &bias_gradient);
    kernels::LossResult* loss = step.next_loss();
    *loss = {result.loss_sum, result.correct};
    std::vector<float> means(kTinyFeatures);
    float* proposal = buffers.proposal(0).data();
    buffers.device().download(means.data(), proposal, 4 * kTinyFeatures);
    for (std::size_t i = 0; i < kTinyFeatures; ++i) means[i] = 0.9F * means[i] + 0.1F * last_features_[i];
    buffers.device().upload(proposal, means.data(), 4 * kTinyFeatures);
    if (hooks_.poison_buffer && hooks_.poison_buffer()) *buffers.finite(0) = false;
    const float factor = hooks_.bias_factor ? hooks_.bias_factor(step.noise(0, 0).step) : 1.0F;
    for (float& g : bias_gradient) g *= factor;
    if (hooks_.poison && hooks_.poison()) weight_gradient[17] = std::numeric_limits<float>::quiet_NaN();
    step.fold(1, 0, bias_gradient, microbatch);
    step.fold(0, 0, weight_gradient, microbatch);
    return {loss, result.count};
  }
  BatchResult evaluate(const ModelMemory& memory, const Buffers& buffers, const Batch& batch,
                       std::vector<float>* /*outputs*/) override {
    BatchResult result = pass(memory, buffers, batch, nullptr, nullptr);
    if (hooks_.poison_test && hooks_.poison_test()) result.loss_sum = -std::nan("");
    return result;
  }

 private:
  BatchResult pass(const ModelMemory& memory, const Buffers& buffers, const Batch& batch,
                   std::vector<float>* weight_gradient, std::vector<float>* bias_gradient) {
    std::vector<float> weight(kTinyFeatures * kTinyClasses), bias(kTinyClasses), x(kTinyFeatures),
        means(kTinyFeatures);
    memory.read(0, 0, weight);
    memory.read(1, 0, bias);
    buffers.device().download(means.data(), buffers.value(0).data(), 4 * kTinyFeatures);
    BatchResult result;
    for (std::int64_t image = 0; image < batch.count; ++image) {
      const float* pixels = batch.images.data() + image * 32 * 32 * 3;
      for (int f = 0; f < kTinyFeatures; ++f) {
        const int c = f % 3, column = f / 3 % 16 * 2, row = f / 48 * 2;
        const auto at = [&](int r, int col) { return pixels[(r * 32 + col) * 3 + c]; };
        x[static_cast<std::size_t>(f)] =
            (at(row, column) + at(row, column + 1) + at(row + 1, column) + at(row + 1, column + 1)) / 4 -
            0.01F * means[static_cast<std::size_t>(f)];
      }
      double logits[kTinyClasses], sum = 0;
      for (std::size_t k = 0; k < kTinyClasses; ++k) {
        logits[k] = bias[k];
        for (std::size_t f = 0; f < kTinyFeatures; ++f) logits[k] += weight[k * kTinyFeatures + f] * x[f];
      }
      const double top = *std::max_element(logits, logits + kTinyClasses);
      for (const double l : logits) sum += std::exp(l - top);
      const auto label = static_cast<std::size_t>(batch.labels[static_cast<std::size_t>(image)]);
      result.loss_sum += top + std::log(sum) - logits[label];
      result.correct += logits[label] == top ? 1 : 0;
      ++result.count;
      if (weight_gradient == nullptr) continue;
      for (std::size_t k = 0; k < kTinyClasses; ++k) {
        const auto g = static_cast<float>((std::exp(logits[k] - top) / sum - (k == label ? 1.0 : 0.0)) /
                                          static_cast<double>(batch.count));
        (*bias_gradient)[k] += g;
        for (std::size_t f = 0; f < kTinyFeatures; ++f) (*weight_gradient)[k * kTinyFeatures + f] += g * x[f];
      }
      last_features_ = x;
    }
    return result;
  }
  TinyHooks hooks_;
  std::vector<float> last_features_;
};

class TinyModel : public Model {
 public:
  explicit TinyModel(std::function<bool()> poison = nullptr) { hooks_.poison = std::move(poison); }
  explicit TinyModel(TinyHooks hooks) : hooks_(std::move(hooks)) {}
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const std::vector<BufferInfo>& buffers() const override { return buffers_; }
  void initialize(ModelMemory& memory, std::uint64_t seed, const ProgressCall&) const override {
    std::vector<float> weight(kTinyFeatures * kTinyClasses), bias(kTinyClasses);
    const Noise noise{seed, 0, 0, static_cast<std::uint32_t>(Stream::kTest)};
    for (std::size_t i = 0; i < weight.size(); ++i) {
      weight[i] = (static_cast<float>(noise_draw(noise, static_cast<std::int64_t>(i))) - 32768.0F) * 1e-6F;
    }
    memory.initialize(0, 0, weight);
    memory.initialize(1, 0, bias);
  }
  std::unique_ptr<Program> build(int, ValueType, Device&, int = 0) const override {
    if (hooks_.built) hooks_.built();
    return std::make_unique<TinyProgram>(hooks_);
  }

 private:
  std::vector<TensorInfo> tensors_ = {{"head.weight", {kTinyClasses, kTinyFeatures}},
                                      {"head.bias", {kTinyClasses}}};
  std::vector<BufferInfo> buffers_ = {{"input.running_mean", {kTinyFeatures}, 0.0F}};
  TinyHooks hooks_;
};

}  // namespace lpmm
