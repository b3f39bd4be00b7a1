// Programs end to end: gradients of whole networks, threads, microbatches, failures, memory.
#include "lpmm/program/program.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>
#include <unistd.h>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <stdexcept>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/program/ops/activations.h"
#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/batch_norm.h"
#include "lpmm/program/ops/convolution.h"
#include "lpmm/program/ops/input.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/loss.h"
#include "lpmm/program/ops/patches.h"
#include "lpmm/program/ops/pool.h"
#include "lpmm/program/ops/shortcut.h"
#include "lpmm/program/program_plan.h"
#include "tests/lpmm/memory/net.h"

namespace lpmm {
namespace {

// Every op once: stem, residual block with a shortcut, pools, ReLU, add, two linear layers.
void every_op(ProgramBuilder& b) {
  Value x = input(b, 8, 8, 3);
  x = batch_norm(b, "bn0", convolution(b, "conv0", x, 8, 3, 1), true);
  const Value y = batch_norm(b, "bn1", convolution(b, "conv1", x, 12, 3, 2), true);
  const Value z = batch_norm(b, "bn2", convolution(b, "conv2", y, 12, 3, 1), true, shortcut(b, x, 12, 2));
  Value s = add(b, relu(b, z), y);
  s = add(b, add(b, max_pool(b, s, 2, 2), average_pool(b, s, 2, 2)), max_pool(b, s, 3, 2, 1));
  s = batch_norm(b, "bn3", convolution(b, "conv3", s, 16, 1, 1), false);
  s = batch_norm(b, "bn4", s, false, {}, {.frozen = true});
  s = linear(b, "hidden", s, 20, true);
  loss(b, linear(b, "head", s, 5, false), 0.1);
}
// Patches, a position in front, one position taken.
void of_patches(ProgramBuilder& b) {
  Value x = projection(b, "proj", patches(b, input(b, 8, 8, 3), 4), 24, 0.2);
  x = prepend(b, "token", x);
  x = add(b, x, projection(b, "mix", relu(b, x), 24, 0.2));
  const Value s = add(b, select(b, x, 0), select(b, x, 3));
  loss(b, linear(b, "head", s, 5, false), 0);
}
void linear_only(ProgramBuilder& b) {
  loss(b, linear(b, "head", input(b, 1, 1, 777), 3001, false), 0);
}

Batch random_batch(int count, std::int64_t values, int classes, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Batch batch;
  batch.count = count;
  batch.images.resize(static_cast<std::size_t>(count * values));
  for (float& v : batch.images) v = normal(generator);
  for (int i = 0; i < count; ++i)
    batch.labels.push_back(static_cast<std::int32_t>(generator() % static_cast<unsigned>(classes)));
  return batch;
}

TEST(Program, GradientsOfEveryTensorByFiniteDifferences) {
  Net net(every_op, 64, ValueType::kFp32, 2);
  expect_finite_differences(net, random_batch(64, 192, 5, 3));
}

TEST(Program, GradientsOfPatchesByFiniteDifferences) {
  Net net(of_patches, 32, ValueType::kFp32, 2);
  expect_finite_differences(net, random_batch(32, 192, 5, 3));
}

// 700 x 200 x 3 x 3 weights are two panels, which end inside tiles.
TEST(Program, ConvolutionsOfPanelsByFiniteDifferences) {
  const Forward wide = [](ProgramBuilder& b) {
    Value x = batch_norm(b, "bn0", convolution(b, "narrow", input(b, 4, 4, 2), 200, 1, 1), true);
    x = batch_norm(b, "bn1", convolution(b, "wide", x, 700, 3, 2), true);
    loss(b, linear(b, "head", x, 5, false), 0);
  };
  Net net(wide, 16, ValueType::kFp32, 2);
  ASSERT_GT(net.memory->info(net.memory->find("wide.weight")).elements(), net.device.panel_sizes().weights);
  EXPECT_LT(net.program->largest_transient_bytes(), std::int64_t{4} * 700 * 200 * 9 * 2 / 3);
  expect_finite_differences(net, random_batch(16, 32, 5, 3));
}

TEST(Program, Bf16GradientsPointTheSameWay) {
  Net exact(every_op, 32, ValueType::kFp32, 2), rough(every_op, 32, ValueType::kBf16, 2);
  const Batch batch = random_batch(32, 192, 5, 4);
  EXPECT_NEAR(exact.run(batch), rough.run(batch), 0.02);
  for (int t = 0; t < exact.memory->tensors(); ++t) {
    const Floats a = exact.gradient(t), b = rough.gradient(t);
    EXPECT_GT(dot(a, b) / (norm(a) * norm(b)), 0.98) << exact.memory->info(t).name;
    EXPECT_NEAR(norm(b) / norm(a), 1, 0.1) << exact.memory->info(t).name;
  }
}

// 777 inputs, 3,001 outputs: panels end inside tiles, and folds wait for the next panel.
TEST(Program, LinearPanelsGiveTheWholeGradient) {
  constexpr int kIn = 777, kOut = 3001, kBatch = 4;
  Net net(linear_only, kBatch, ValueType::kFp32, 2);
  const Batch batch = random_batch(kBatch, kIn, kOut, 5);
  net.run(batch);
  const Floats w = net.parameter(0), bias = net.parameter(1), dw = net.gradient(0), db = net.gradient(1);
  std::vector<double> p(kBatch * kOut);
  for (std::size_t n = 0; n < kBatch; ++n) {
    double sum = 0;
    for (std::size_t o = 0; o < kOut; ++o) {
      double y = bias[o];
      for (std::size_t i = 0; i < kIn; ++i) y += 1.0 * w[o * kIn + i] * batch.images[n * kIn + i];
      sum += p[n * kOut + o] = std::exp(y);
    }
    for (std::size_t o = 0; o < kOut; ++o) {
      p[n * kOut + o] =
          (p[n * kOut + o] / sum - (static_cast<std::int32_t>(o) == batch.labels[n] ? 1 : 0)) / kBatch;
    }
  }
  for (std::size_t o = 0; o < kOut; ++o) {
    double want_bias = 0;
    for (std::size_t n = 0; n < kBatch; ++n) want_bias += p[n * kOut + o];
    ASSERT_NEAR(db[o], want_bias, 1e-6);
    for (std::size_t i = 0; i < kIn; ++i) {
      double want = 0;
      for (std::size_t n = 0; n < kBatch; ++n) want += p[n * kOut + o] * batch.images[n * kIn + i];
      ASSERT_NEAR(dw[o * kIn + i], want, 2e-6) << o << ", " << i;
    }
  }
}

// Losses, parameters and buffers of three steps of two microbatches.
std::vector<Floats> short_run(ValueType compute, int threads) {
  Net net(every_op, 12, compute, threads, 2, "lpmm-compact");
  std::vector<Floats> all;
  for (std::uint32_t step = 1; step <= 3; ++step) {
    net.buffers->begin();
    Step this_step = net.memory->begin_step({step, 0.1});
    for (int m = 0; m < 2; ++m) {
      const Batch batch = random_batch(12, 192, 5, 10 * step + static_cast<unsigned>(m));
      all.push_back({static_cast<float>(
          net.program->train(*net.memory, this_step, *net.buffers, batch, m).read().loss_sum)});
    }
    EXPECT_TRUE(std::move(this_step).commit().applied);
    net.buffers->commit();
  }
  for (int t = 0; t < net.memory->tensors(); ++t) all.push_back(net.parameter(t));
  for (int b = 0; b < static_cast<int>(net.buffers->infos().size()); ++b) {
    all.emplace_back(net.buffers->value(b).begin(), net.buffers->value(b).end());
  }
  return all;
}

TEST(Program, LearnsTheSameBitsWithOneTwoThreeThreads) {
  for (const ValueType compute : {ValueType::kFp32, ValueType::kBf16}) {
    const std::vector<Floats> one = short_run(compute, 1);
    for (const int threads : {2, 3}) EXPECT_EQ(one, short_run(compute, threads)) << threads;
  }
}

// Our own loops at every instruction set, tiles and activations both; the library's products stay as they
// are.
TEST(Program, LearnsTheSameBitsWithEveryInstructionSet) {
  for (const ValueType compute : {ValueType::kFp32, ValueType::kBf16}) {
    const std::vector<Floats> best = short_run(compute, 2);
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      EXPECT_EQ(best, short_run(compute, 2)) << hwy::TargetName(target);
    }
    hwy::SetSupportedTargetsForTest(0);
    for (const char* const level : kernels::simd_levels()) {
      kernels::use_simd_level(level);
      EXPECT_EQ(best, short_run(compute, 2)) << level;
    }
    kernels::use_simd_level("");
  }
}

TEST(Program, LearnsOneBatch) {
  for (const ValueType compute : {ValueType::kFp32, ValueType::kBf16}) {
    Net net(every_op, 16, compute, 2, 1, "lpmm");
    const Batch batch = random_batch(16, 192, 5, 6);
    double loss = 0;
    for (int i = 0; i < 40; ++i) {
      loss = net.run(batch, 0.1);
      net.commit();
      net.buffers->commit();
    }
    EXPECT_LT(loss, 0.6);  // smoothing 0.1 of 5 classes cannot go below 0.39
    // Running statistics have followed: evaluation sees the same batch almost as well.
    const BatchResult seen = net.program->evaluate(*net.memory, *net.buffers, batch);
    EXPECT_EQ(seen.count, 16);
    EXPECT_GE(seen.correct, 15);
  }
}

TEST(Program, EvaluationOfAPartialBatchIgnoresTheRest) {
  Net net(every_op, 16, ValueType::kFp32, 2);
  Batch batch = random_batch(16, 192, 5, 7);
  double sum = 0;
  for (const std::size_t first : {0, 5, 10}) {
    const std::size_t count = first == 10 ? 6 : 5;
    Batch part;
    part.count = static_cast<std::int64_t>(count);
    part.images.assign(batch.images.begin() + static_cast<std::ptrdiff_t>(192 * first),
                       batch.images.begin() + static_cast<std::ptrdiff_t>(192 * (first + count)));
    part.labels.assign(batch.labels.begin() + static_cast<std::ptrdiff_t>(first),
                       batch.labels.begin() + static_cast<std::ptrdiff_t>(first + count));
    sum += net.program->evaluate(*net.memory, *net.buffers, part).loss_sum;
  }
  EXPECT_NEAR(sum, net.program->evaluate(*net.memory, *net.buffers, batch).loss_sum, 1e-4);
}

// Each microbatch adds a tenth of its own statistics, with the unbiased variance, to the proposal.
TEST(Program, RunningStatisticsInClosedForm) {
  const Forward norm_of_input = [](ProgramBuilder& b) {
    Value x = batch_norm(b, "bn", input(b, 1, 1, 2), false);
    loss(b, x, 0);
  };
  Net net(norm_of_input, 4, ValueType::kFp32, 1, 2);
  Batch a, c;
  a.count = c.count = 4;
  a.labels = c.labels = {0, 1, 0, 1};
  a.images = {1, 0, 2, 0, 3, 0, 6, 4};  // means 3, 1; unbiased variances 14/3, 4
  c.images = {0, 5, 0, 5, 0, 5, 0, 5};  // means 0, 5; variances 0
  net.buffers->begin();
  Step this_step = net.memory->begin_step({1});
  net.program->train(*net.memory, this_step, *net.buffers, a, 0);
  net.program->train(*net.memory, this_step, *net.buffers, c, 1);
  EXPECT_EQ(net.buffers->value(0)[0], 0);  // nothing is committed yet
  EXPECT_EQ(net.buffers->value(1)[0], 1);
  net.buffers->commit();
  EXPECT_NEAR(net.buffers->value(0)[0], 0.9 * 0.3, 1e-6);
  EXPECT_NEAR(net.buffers->value(0)[1], 0.9 * 0.1 + 0.5, 1e-6);
  EXPECT_NEAR(net.buffers->value(1)[0], 0.9 * (0.9 + 0.1 * 14 / 3), 1e-6);
  EXPECT_NEAR(net.buffers->value(1)[1], 0.9 * (0.9 + 0.1 * 4), 1e-6);
}

// A frozen norm is of the statistics it has, in training as in tests, whatever the images are.
TEST(Program, FrozenStatisticsStayAndAreUsedInTraining) {
  const auto norm_of_input = [](bool frozen) {
    return [frozen](ProgramBuilder& b) {
      loss(b, batch_norm(b, "bn", input(b, 1, 1, 2), false, {}, {.frozen = frozen}), 0);
    };
  };
  Batch batch;
  batch.count = 4;
  batch.labels = {0, 1, 0, 1};
  batch.images = {1, 0, 2, 0, 3, 0, 6, 4};
  for (const bool frozen : {true, false}) {
    Net net(norm_of_input(frozen), 4, ValueType::kFp32, 1, 1);
    net.buffers->value(0)[0] = 2;
    net.buffers->value(1)[0] = 9;
    const double tested = net.program->evaluate(*net.memory, *net.buffers, batch).loss_sum;
    net.buffers->begin();
    Step this_step = net.memory->begin_step({1});
    const double trained = net.program->train(*net.memory, this_step, *net.buffers, batch, 0).read().loss_sum;
    net.buffers->commit();
    EXPECT_EQ(trained == tested, frozen);
    EXPECT_EQ(net.buffers->value(0)[0] == 2, frozen);
    EXPECT_EQ(net.buffers->value(1)[0] == 9, frozen);
  }
}

TEST(Program, NanLossFailsTheStepAndChangesNothing) {
  for (const ValueType compute : {ValueType::kFp32, ValueType::kBf16}) {
    Net net(every_op, 8, compute, 2, 2, "lpmm-compact");
    std::vector<Floats> before;
    for (int t = 0; t < net.memory->tensors(); ++t) before.push_back(net.parameter(t));
    Batch batch = random_batch(8, 192, 5, 8);
    net.buffers->begin();
    Step this_step = net.memory->begin_step({1, 0.1});
    net.program->train(*net.memory, this_step, *net.buffers, batch, 0);
    EXPECT_FALSE(this_step.failed());
    batch.images[100] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(
        std::isnan(net.program->train(*net.memory, this_step, *net.buffers, batch, 1).read().loss_sum));
    EXPECT_TRUE(this_step.failed());
    const StepReport report = std::move(this_step).commit();
    EXPECT_FALSE(report.applied);
    EXPECT_NE(report.failed_tensor.find("loss"), std::string::npos) << report.failed_tensor;
    for (int t = 0; t < net.memory->tensors(); ++t) {
      EXPECT_EQ(net.parameter(t), before[static_cast<std::size_t>(t)]);
    }
    EXPECT_EQ(net.buffers->value(0)[0], 0);
  }
}

// ---- memory ----------------------------------------------------------------------------------------------
std::int64_t mapped_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

// Building allocates nothing large; the first step maps the arena and the workspace, the next ones nothing.
TEST(Program, AllocatesWhatItPlans) {
  const Forward wide = [](ProgramBuilder& b) {
    Value x = input(b, 32, 32, 16);
    for (int i = 0; i < 6; ++i)
      x = batch_norm(b, "bn" + std::to_string(i), convolution(b, "c" + std::to_string(i), x, 16, 3, 1), true);
    loss(b, linear(b, "head", x, 10, false), 0);
  };
  Net first(wide, 4, ValueType::kFp32,
            1);  // memory that libraries keep from their first use is not counted
  first.run(random_batch(4, 32 * 32 * 16, 10, 1));
  first.commit();
  Net net(wide, 64, ValueType::kFp32, 1);
  const Batch batch = random_batch(64, 32 * 32 * 16, 10, 1);
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const auto whole_pages = [&](std::int64_t bytes) { return (bytes + page - 1) / page * page; };
  const std::int64_t planned =
      whole_pages(net.program->activation_bytes()) + whole_pages(net.program->workspace_bytes());
  ASSERT_GT(planned, 50 << 20);
  const std::int64_t before = mapped_bytes();
  net.run(batch);
  const std::int64_t after = mapped_bytes();
  net.commit();
  EXPECT_GE(after - before, planned);
  EXPECT_LT(after - before, planned + (1 << 20));  // the heap may grow by its usual step
  net.run(batch);
  net.commit();
  EXPECT_LT(mapped_bytes() - after, 1 << 20);
}

TEST(Program, RefusesWhatItWasNotBuiltFor) {
  Net net(every_op, 8, ValueType::kFp32, 1);
  Step this_step = net.memory->begin_step({1});
  EXPECT_THROW(net.program->train(*net.memory, this_step, *net.buffers, random_batch(7, 192, 5, 1), 0),
               std::logic_error);
  EXPECT_THROW(net.program->evaluate(*net.memory, *net.buffers, random_batch(9, 192, 5, 1)),
               std::logic_error);
  for (const std::int32_t wrong : {-1, 5}) {
    Batch lies = random_batch(8, 192, 5, 1);
    lies.labels[3] = wrong;
    EXPECT_THROW(net.program->evaluate(*net.memory, *net.buffers, lies), RunError) << wrong;
  }
}

// Hands its input on, and may break in backward.
class BreakingOp : public Op {
 public:
  BreakingOp(std::int64_t count, const bool& breaks) : count_(count), breaks_(breaks) {}
  void forward(RunState& run) const override {
    run.device.copy_or_add({plan->compute, count_}, data(run, inputs[0]), data(run, output), false);
  }
  void backward(RunState& run) const override {
    if (breaks_) throw std::runtime_error("broken");
    run.device.copy_or_add({plan->compute, count_}, gradient(run, output), gradient(run, inputs[0]),
                           accumulate[0]);
  }

 private:
  std::int64_t count_;
  const bool& breaks_;
};

// The gradient of the head's bias waits in the program's memory when the op below it breaks.
TEST(Program, AnErrorInBackwardLeavesTheStep) {
  kernels::EmulatedCuda device(1);
  bool breaks = false;
  const auto define = [&](ProgramBuilder& b) {
    Value x = linear(b, "hidden", input(b, 1, 1, 16), 8, true);
    x = b.add_op(std::make_unique<BreakingOp>(4 * x.values(), breaks), {x}, b.add_value(1, 1, 8), {});
    loss(b, linear(b, "head", x, 5, false), 0);
  };
  ProgramBuilder declaring(4, ValueType::kFp32, device);
  define(declaring);
  Buffers none({}, device);
  const Batch batch = random_batch(4, 16, 5, 1);
  const auto train = [&](const ModelMemory& memory, Step& step) {
    ProgramBuilder builder(4, ValueType::kFp32, device);
    define(builder);
    builder.finish()->train(memory, step, none, batch, 0);
  };
  Floats ends[2];
  for (const bool once : {false, true}) {
    ModelMemory memory(declaring.tensors(), make_policy("fp32"), {}, 1, 1, device);
    breaks = once;
    if (breaks) {
      Step broken = memory.begin_step({1, 0.5});
      EXPECT_THROW(train(memory, broken), std::runtime_error);
      EXPECT_FALSE(std::move(broken).commit().applied);
      breaks = false;
    }
    Step whole = memory.begin_step({2, 0.5});
    train(memory, whole);
    EXPECT_TRUE(std::move(whole).commit().applied);
    Floats& end = ends[once ? 1 : 0];
    end.resize(5);
    memory.read(memory.find("head.bias"), 0, end);
  }
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_NE(ends[0], Floats(5));
}

}  // namespace
}  // namespace lpmm
