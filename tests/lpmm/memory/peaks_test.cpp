// Tests the peaks that the watch keeps of elements: against plain fp64, counted, and of which tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/roles.h"
#include "tests/kernels/device_array.h"
#include "tests/lpmm/memory/one_tensor.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

const std::vector<TensorInfo> kLayers = {{"w", {40, 50}}, {"b", {77}}};

Policy with_peaks(std::string_view preset) {
  Policy policy = make_policy(preset);
  policy.keeps_peaks = true;
  return policy;
}

std::vector<std::uint8_t> peaks_of_tensor(const ModelMemory& memory, int tensor) {
  const std::span<std::uint8_t> there = memory.peaks(tensor);
  std::vector<std::uint8_t> codes(there.size());
  memory.device().download(codes.data(), there.data(), std::ssize(codes));
  return codes;
}

// Gradients of one size, but for element 7, which is a thousand times as large in step 21.
std::vector<float> gradient_of(std::int64_t elements, std::uint32_t step) {
  std::vector<float> g = normal_values(elements, step, 0.01F);
  if (step == 21) g[7] = 10;
  return g;
}

void step(ModelMemory& memory, std::uint32_t number, bool watches = true) {
  Step this_step = memory.begin_step({number, 0.003, false, watches});
  std::list<kernels::DeviceArray<float>> gradients;
  for (int t = 0; t < memory.tensors(); ++t) {
    const std::vector<float> g = gradient_of(memory.info(t).elements(), number);
    this_step.fold(t, 0, {gradients.emplace_back(memory.device(), g).data(), g.size()}, 0);
  }
  ASSERT_TRUE(std::move(this_step).commit().applied);
}

// AdamW of one element in fp64, and its peaks.
struct PlainElement {
  double p = 0, m = 0, v = 0;
  double log_update = -1e9, log_ratio = -1e9;  // values of the step
  int update = 0, ratio = 0;

  static int code(double log_size, int lowest) {
    return static_cast<int>(std::clamp(std::floor(log_size) - lowest + 1, 0.0, 15.0));
  }
  void step(double g, double t) {
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double root = std::sqrt(v / (1 - std::pow(0.999, t)));
    const double u = 0.003 * (m / (1 - std::pow(0.9, t)) / (root + 1e-8) + 0.1 * p);
    log_update = std::log2(std::abs(u / p));
    log_ratio = std::log2(g * g / std::pow(std::max(root, 1e-8), 2));
    const int fallen = static_cast<int>(t) % 16 == 0 ? 1 : 0;
    update = std::max(std::max(0, update - fallen), code(log_update, -11));
    ratio = std::max(std::max(0, ratio - fallen), code(log_ratio, -1));
    p -= u;
  }
};
// fp32 and fp64 may see a power of 2 from its two sides.
bool is_near_a_power(double log_size) {
  return std::abs(log_size - std::round(log_size)) < 1e-3;
}

TEST(Peaks, AreThoseOfPlainArithmetic) {
  OptimizerConfig c = of_rule("adamw");
  c.weight_decay = 0.1;
  CpuDevice device(2);
  ModelMemory memory({{"w", {30, 10}}}, with_peaks("fp32"), c, 1, 1, device);
  const std::vector<float> start = normal_values(300, 99);
  memory.initialize(0, 0, start);
  std::vector<PlainElement> plain(300);
  for (std::size_t i = 0; i < 300; ++i) plain[i].p = start[i];
  int equal = 0;
  for (std::uint32_t t = 1; t <= 40; ++t) {
    step(memory, t);
    const std::vector<float> g = gradient_of(300, t);
    const std::vector<std::uint8_t> codes = peaks_of_tensor(memory, 0);
    const std::uint8_t* ratios = codes.data() + peak_bytes(memory.info(0));
    for (std::size_t i = 0; i < 300; ++i) {
      plain[i].step(g[i], t);
      const auto e = static_cast<std::int64_t>(i);
      const int update = static_cast<int>(load_code(codes.data(), kPeakFormat, e)),
                ratio = static_cast<int>(load_code(ratios, kPeakFormat, e));
      ASSERT_NEAR(update, plain[i].update, is_near_a_power(plain[i].log_update) ? 1 : 0)
          << "step " << t << ", element " << i;
      ASSERT_NEAR(ratio, plain[i].ratio, is_near_a_power(plain[i].log_ratio) ? 1 : 0)
          << "step " << t << ", element " << i;
      equal += update == plain[i].update && ratio == plain[i].ratio ? 1 : 0;
      plain[i].update = update;
      plain[i].ratio = ratio;
    }
  }
  EXPECT_GT(equal, 11500);       // 12,000 are compared
  EXPECT_EQ(plain[7].ratio, 5);  // (1 - 0.999^21) / 0.001 = 20.8 in step 21 is code 6, and one fall since
}

TEST(Peaks, AreTheSameOnEveryDeviceAndChangeNothingElse) {
  for (const char* rule : {"adamw", "sgd", "lion", "lamb", "rmsprop"}) {
    for (const std::string_view preset : preset_names()) {
      const OptimizerConfig c = of_rule(rule, {{"momentum", 0.9}});
      CpuDevice one(1), three(3);
      kernels::EmulatedCuda emulated(2, false);
      ModelMemory a(kLayers, with_peaks(preset), c, 1, 1, one),
          b(kLayers, with_peaks(preset), c, 1, 1, three), e(kLayers, with_peaks(preset), c, 1, 1, emulated),
          none(kLayers, make_policy(preset), c, 1, 1, one);
      for (ModelMemory* m : {&a, &b, &e, &none}) {
        for (int t = 0; t < 2; ++t) m->initialize(t, 0, normal_values(m->info(t).elements(), 3));
        for (std::uint32_t s = 13; s < 18; ++s) step(*m, s, s != 14);
      }
      for (int t = 0; t < 2; ++t) {
        EXPECT_FALSE(a.peaks(t).empty());
        EXPECT_TRUE(none.peaks(t).empty());
        EXPECT_TRUE(peaks_of_tensor(a, t) == peaks_of_tensor(b, t)) << rule << " " << preset;
        EXPECT_TRUE(peaks_of_tensor(a, t) == peaks_of_tensor(e, t)) << rule << " " << preset;
        std::vector<float> x(static_cast<std::size_t>(a.info(t).elements())), y = x;
        a.read(t, 0, x);
        none.read(t, 0, y);
        EXPECT_EQ(x, y) << rule << " " << preset;
      }
    }
  }
}

// 8 bits an element, 4 without a variance, of whole packing groups.
TEST(Peaks, AreCounted) {
  const auto ledger = [&](const char* rule, const Policy& policy) {
    CpuDevice device(1);
    const OptimizerConfig c = of_rule(rule, {{"momentum", 0.9}});
    const ModelMemory memory(kLayers, policy, c, 1, 1, device);
    const Ledger all = memory_ledger(kLayers, policy, c);
    EXPECT_EQ(memory.ledger().peaks, all.peaks) << rule;
    EXPECT_EQ(memory.ledger().model_memory(), all.model_memory()) << rule;
    EXPECT_EQ(std::ssize(memory.peaks(0)) + std::ssize(memory.peaks(1)), all.peaks) << rule;
    return all;
  };
  EXPECT_EQ(ledger("adamw", with_peaks("lpmm")).peaks, 2048 + 128);
  EXPECT_EQ(ledger("sgd", with_peaks("lpmm")).peaks, 1024 + 64);
  EXPECT_EQ(ledger("adamw", make_policy("lpmm")).peaks, 0);
  const TensorInfo even{"w", {128, 100}};
  const auto bits = [&](const Policy& policy) {
    return memory_ledger(std::span(&even, 1), policy, of_rule("adamw")).bits_per_parameter();
  };
  EXPECT_DOUBLE_EQ(bits(with_peaks("lpmm")), bits(make_policy("lpmm")) + 8);
}

TEST(Peaks, AreOfTensorsWhoseUpdatesCanBeSeen) {
  CpuDevice device(1);
  OptimizerConfig frozen = of_rule("adamw");
  frozen.groups = {{.pattern = "b", .frozen = true}};
  EXPECT_TRUE(ModelMemory(kLayers, with_peaks("lpmm"), frozen, 1, 1, device).peaks(1).empty());
  const ModelMemory muon(kLayers, with_peaks("lpmm"), of_rule("muon"), 1, 1, device);
  EXPECT_TRUE(muon.peaks(0).empty());
  EXPECT_EQ(muon.peaks(1).size(), 128U);
  Policy at_once = with_peaks("lpmm");
  at_once.apply_at_once = true;
  EXPECT_THROW(ModelMemory(kLayers, at_once, of_rule("adamw"), 1, 1, device), UsageError);
  for (const char* rule : {"adam_mini", "adamw_factored", "adafactor"}) {
    try {
      const ModelMemory memory(kLayers, with_peaks("lpmm"), of_rule(rule), 1, 1, device);
      ADD_FAILURE() << rule;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("watch.every"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(rule), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace lpmm
