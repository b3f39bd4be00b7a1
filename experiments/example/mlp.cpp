// A network with forward and backward of its own, whose weights, gradients and optimizer state are packed:
// four microbatches a step, clipping, and a checkpoint that the loop goes on from, to the bit.
#include <lpmm/kernels/cpu_packed.h>
#include <lpmm/memory/model_memory.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

using Floats = std::vector<float>;
constexpr int kIn = 2, kHidden = 64, kBatch = 32, kMicrobatches = 4, kSteps = 600;

// out[r][c] = sum over k of a[r][k] * b[k][c], where strides say how a row and a column are reached.
struct View {
  const float* at;
  int row, column;
};
void multiply(int rows, int columns, int depth, View a, View b, Floats& out) {
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      float sum = 0;
      for (int k = 0; k < depth; ++k) sum += a.at[r * a.row + k * a.column] * b.at[k * b.row + c * b.column];
      out[r * columns + c] = sum;
    }
  }
}

// Points of two rings, and whether each lies in the outer one: the same data, wherever the loop began.
std::vector<bool> draw_points(int step, int microbatch, Floats& x) {
  std::mt19937 draws(step * kMicrobatches + microbatch);
  std::uniform_real_distribution<float> uniform;
  std::vector<bool> outer(kBatch);
  for (int i = 0; i < kBatch; ++i) {
    outer[i] = uniform(draws) < 0.5F;
    const float radius = (outer[i] ? 1.5F : 0.5F) + 0.4F * uniform(draws), angle = 6.283F * uniform(draws);
    x[i * kIn] = radius * std::cos(angle);
    x[i * kIn + 1] = radius * std::sin(angle);
  }
  return outer;
}

int main(int argc, char** argv) {
  const std::string file = argc > 1 ? argv[1] : "mlp.safetensors";
  const int stop = argc > 2 ? std::stoi(argv[2]) : kSteps;
  lpmm::CpuPackedDevice device;
  lpmm::OptimizerConfig adamw{.rule = "adamw", .learning_rate = 0.01, .clip_norm = 1};
  lpmm::ModelMemory memory({{"first", {kIn, kHidden}}, {"second", {kHidden, 1}}},
                           lpmm::make_policy("lpmm-compact", adamw), adamw, /*seed=*/1, kMicrobatches,
                           device);
  if (std::filesystem::exists(file)) {
    memory.load(file);
  } else {
    std::mt19937 draws(1);
    std::normal_distribution<float> normal(0, 0.7F);
    for (int tensor = 0; tensor < memory.tensors(); ++tensor) {
      Floats values(memory.info(tensor).elements());
      for (float& v : values) v = normal(draws);
      memory.initialize(tensor, 0, values);
    }
  }

  Floats first(kIn * kHidden), second(kHidden), x(kBatch * kIn), hidden(kBatch * kHidden), logit(kBatch);
  Floats dfirst(first.size()), dsecond(second.size()), dhidden(hidden.size()), dlogit(kBatch);
  int right = 0, seen = 0;
  for (int number = static_cast<int>(memory.last_step()) + 1; number <= stop; ++number) {
    lpmm::Step step = memory.begin_step({.learning_rate = 0.01 * (1 - 0.9 * number / kSteps)});
    for (int microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
      memory.decode(0, 0, first);
      memory.decode(1, 0, second);
      const std::vector<bool> outer = draw_points(number, microbatch, x);
      multiply(kBatch, kHidden, kIn, {x.data(), kIn, 1}, {first.data(), kHidden, 1}, hidden);
      for (float& h : hidden) h = h > 0 ? h : 0;
      multiply(kBatch, 1, kHidden, {hidden.data(), kHidden, 1}, {second.data(), 1, 1}, logit);
      for (int i = 0; i < kBatch; ++i) {
        const float z = logit[i] - 4;  // a bias that stays
        dlogit[i] = (1 / (1 + std::exp(-z)) - (outer[i] ? 1.0F : 0.0F)) / kBatch;
        right += (z > 0) == outer[i] ? 1 : 0;
        ++seen;
      }
      multiply(kHidden, 1, kBatch, {hidden.data(), 1, kHidden}, {dlogit.data(), 1, 1}, dsecond);
      multiply(kBatch, kHidden, 1, {dlogit.data(), 1, 1}, {second.data(), 1, 1}, dhidden);
      for (std::size_t i = 0; i < hidden.size(); ++i) dhidden[i] = hidden[i] > 0 ? dhidden[i] : 0;
      multiply(kIn, kHidden, kBatch, {x.data(), 1, kIn}, {dhidden.data(), kHidden, 1}, dfirst);
      step.fold(0, 0, dfirst, microbatch);
      step.fold(1, 0, dsecond, microbatch);
    }
    std::move(step).commit();
    if (number % 100 == 0) {
      memory.save(file);
      std::printf("step %d: accuracy %.3f\n", number, static_cast<double>(right) / seen);
      right = seen = 0;
    }
  }
}
