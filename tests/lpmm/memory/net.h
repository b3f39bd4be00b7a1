// A small network with its memory, for tests of programs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "kernels/cpu.h"
#include "lpmm/program/forward_model.h"

namespace lpmm {

using Floats = std::vector<float>;

// A network with its memory, initialised with seeded normals (norms near 1 and 0).
struct Net {
  Net(const Forward& forward, int batch, ValueType compute, int threads, int microbatches = 1,
      const char* preset = "fp32", const OptimizerConfig& optimizer = {})
      : device(threads) {
    ProgramBuilder builder(batch, compute, device);
    forward(builder);
    memory = std::make_unique<ModelMemory>(builder.tensors(), make_policy(preset), optimizer, 1, microbatches,
                                           device);
    buffers = std::make_unique<Buffers>(builder.buffers(), device);
    for (int t = 0; t < memory->tensors(); ++t) {
      std::mt19937 generator(static_cast<unsigned>(t) + 10);
      std::normal_distribution<float> normal;
      const Initial initial = builder.initials()[static_cast<std::size_t>(t)];
      Floats v(static_cast<std::size_t>(memory->info(t).elements()));
      for (float& x : v) {
        x = initial.kind == InitialKind::kConstant
                ? static_cast<float>(initial.scale) + 0.2F * normal(generator)
                : static_cast<float>(initial.scale) * normal(generator);
      }
      memory->initialize(t, 0, v);
    }
    program = builder.finish();
  }
  Floats parameter(int tensor) const {
    Floats v(static_cast<std::size_t>(memory->info(tensor).elements()));
    memory->decode(tensor, 0, v);
    return v;
  }
  // One microbatch; the accumulators hold the gradient until commit().
  double run(const Batch& batch, double rate = 0) {
    buffers->begin();
    open.emplace(memory->begin_step({.learning_rate = rate}));
    const BatchResult result = program->train(*memory, *open, *buffers, batch, 0).read();
    return result.loss_sum / static_cast<double>(result.count);
  }
  Floats gradient(int tensor) {
    Floats v(static_cast<std::size_t>(memory->info(tensor).elements()));
    device.decode(memory->view(tensor, Role::kAccumulator), 0, memory->info(tensor).elements(), v.data());
    return v;
  }
  StepReport commit() {
    const StepReport report = std::move(*open).commit();
    open.reset();
    return report;
  }

  CpuDevice device;
  std::unique_ptr<ModelMemory> memory;
  std::unique_ptr<Buffers> buffers;
  std::unique_ptr<Program> program;
  std::optional<Step> open;  // a step
};

inline double norm(const Floats& v) {
  double sum = 0;
  for (const float x : v) sum += 1.0 * x * x;
  return std::sqrt(sum);
}
inline double dot(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += 1.0 * a[i] * b[i];
  return sum;
}

// Gradients of every tensor against central differences of the loss.
inline void expect_finite_differences(Net& net, const Batch& batch) {
  net.run(batch);
  std::vector<Floats> gradients;
  for (int t = 0; t < net.memory->tensors(); ++t) gradients.push_back(net.gradient(t));
  net.commit();
  for (int t = 0; t < net.memory->tensors(); ++t) {
    SCOPED_TRACE(net.memory->info(t).name);
    const Floats start = net.parameter(t), &g = gradients[static_cast<std::size_t>(t)];
    // Along the gradient and one random direction mixed with it.
    for (const bool mixed : {false, true}) {
      Floats direction = g;
      if (mixed) {
        std::mt19937 generator(static_cast<unsigned>(t));
        std::normal_distribution<float> normal;
        const auto scale = static_cast<float>(norm(g) / std::sqrt(static_cast<double>(g.size())));
        for (float& d : direction) d += scale * normal(generator);
      }
      const double h = 1e-3 * std::max(norm(start), 0.1) / norm(direction);
      double loss[2];
      for (const int side : {0, 1}) {
        Floats moved = start;
        for (std::size_t i = 0; i < moved.size(); ++i) {
          moved[i] += static_cast<float>((side == 0 ? h : -h) * direction[i]);
        }
        net.memory->initialize(t, 0, moved);
        loss[side] = net.run(batch);
        net.commit();
      }
      net.memory->initialize(t, 0, start);
      const double want = dot(direction, g);
      // Biases of a convolution's norm chain are small; the loss carries 1e-7 of fp32 noise.
      EXPECT_NEAR((loss[0] - loss[1]) / (2 * h), want, 0.03 * std::abs(want) + 3e-7 / h) << mixed;
    }
  }
}

}  // namespace lpmm
