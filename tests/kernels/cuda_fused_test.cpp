// The fast CUDA kernels on fibers against the CPU, byte for byte.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/cpu/packed/fused.h"
#include "kernels/cuda/fused_update.h"
#include "kernels/device.h"
#include "tests/kernels/support.h"

namespace lpmm::kernels {
namespace {

// Sizes around groups, blocks of 256, units and blocks of threads.
std::vector<std::int64_t> sizes() {
  std::vector<std::int64_t> sizes = {1,   5,   64,  127, 128, 129, 200, 255,
                                     256, 257, 383, 384, 500, 512, 640, 777};
  for (const std::int64_t near : {1024, 2048, 4096}) {
    for (const std::int64_t off : {-128, -1, 0, 1, 64, 128, 256}) sizes.push_back(near + off);
  }
  for (const std::int64_t more : {3000, 3072, 5120, 9217}) sizes.push_back(more);
  return sizes;
}

// Normal values over many magnitudes, with zeros, an all-zero block and denormals among them.
std::vector<float> values(std::int64_t count, unsigned seed, float scale, bool positive) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = scale * std::ldexp(normal(random), -static_cast<int>(random() % 12) - static_cast<int>(i / 700));
    if (i % 37 == 5) x[i] = 0;
    if (i % 41 == 7) x[i] = 1e-42F;
    if (i / 256 == 1) x[i] = 0;
    if (positive) x[i] = x[i] * x[i];
  }
  return x;
}

// The roles of one tensor.
struct Tensor {
  RoleArray<std::unique_ptr<Packed>> roles;
  bool storable = false;

  Tensor(const fused::Codecs& codecs, std::int64_t elements) {
    for (const Role r : kEveryRole) {
      if (!fused::is_none(codecs[r])) roles[r] = std::make_unique<Packed>(codecs[r], elements);
    }
  }
  RoleArray<RoleView> views() const {
    RoleArray<RoleView> views;
    for (const Role r : kEveryRole) {
      if (roles[r] != nullptr) views[r] = roles[r]->view();
    }
    return views;
  }
  void fill(Role role, const Noise& noise, float scale, unsigned seed) {
    if (roles[role] == nullptr) return;
    const RoleView& view = roles[role]->view();
    CpuDevice cpu(1);
    const auto x =
        values(view.elements, seed, scale, !is_signed(view.codec.format.map) || role == Role::kVariance);
    cpu.encode(view, 0, view.elements, x.data(), noise);
  }
};
void expect_equal(const Tensor& a, const Tensor& b, const std::string& what) {
  for (const Role r : kEveryRole) {
    if (a.roles[r] == nullptr) continue;
    EXPECT_TRUE(*a.roles[r] == *b.roles[r]) << what << ", " << kRoleRows[r].name;
    EXPECT_TRUE(b.roles[r]->intact()) << what << ", " << kRoleRows[r].name;
  }
  EXPECT_EQ(a.storable, b.storable) << what;
}

struct Case {
  std::string name;
  fused::Codecs codecs;
  Rule rule;
};
template <class R>
fused::Codecs codecs_of(const R&, fused::Codecs codecs, bool quasi) {
  for (const Role r : kEveryRole) {
    if (is_state(r) && !fused::keeps<R>(r)) codecs[r] = fused::kNone;
    if (quasi && codecs[r].rounding == Rounding::kStochastic) codecs[r].rounding = Rounding::kQuasiStochastic;
  }
  return codecs;
}
constexpr int kFirstPacked = 2;  // of fused::kCodecs

std::vector<Rule> rules() {
  const RuleStep step{.learning_rate = 0.01, .weight_decay = 0.02, .update = 3, .clip = 0.75};
  RuleStep fed = step;
  fed.error_feedback = true;
  return {
      AdamW::make({}, step),
      Adam::make({}, step),
      AdamW::make({}, fed),
      Sgd::make({.momentum = 0.9}, step),
      Sgd::make({.decoupled_decay = true, .momentum = 0.9, .dampening = 0.1}, fed),
      Sgd::make({.momentum = 0.9, .nesterov = true}, fed),
      Lion::make({}, step),
  };
}
std::vector<Case> cases() {
  std::vector<Case> cases;
  for (int set = kFirstPacked; set < fused::kCodecSets; ++set) {
    const bool in_momentum = fused::is_none(fused::kCodecs[set][Role::kAccumulator]);
    int number = 0;
    for (const Rule& rule : rules()) {
      const std::string name = "set " + std::to_string(set) + ", rule " + std::to_string(number++);
      const auto* sgd = std::get_if<Sgd>(&rule);
      if (in_momentum && (sgd == nullptr || sgd->nesterov != 0)) continue;
      const auto codecs =
          std::visit([&](const auto& r) { return codecs_of(r, fused::kCodecs[set], number % 2 == 1); }, rule);
      cases.push_back({name, codecs, rule});
    }
  }
  return cases;
}

// Updates copies of the tensors on both devices, all in one call.
void update_both(std::vector<Tensor>& a, std::vector<Tensor>& b, const std::vector<Rule>& rules,
                 std::uint32_t step) {
  CpuDevice cpu(1);
  const auto emulated = make_device("cuda-emulated", 1);
  const auto all = [&](std::vector<Tensor>& tensors) {
    std::vector<TensorUpdate> updates;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Noise noise{7, static_cast<std::uint32_t>(i), step, 0};
      updates.push_back({rules[i], {tensors[i].views(), noise}, &tensors[i].storable});
    }
    return updates;
  };
  const auto on_cpu = all(a), on_fibers = all(b);
  cpu.update(on_cpu);
  emulated->update(on_fibers);
}

TEST(CudaFused, UpdatesOfEveryPresetAndRuleAreTheCpus) {
  for (const Case& c : cases()) {
    std::vector<Tensor> a, b;
    std::vector<Rule> rules;
    for (const std::int64_t n : sizes()) {
      a.emplace_back(c.codecs, n);
      b.emplace_back(c.codecs, n);
      rules.push_back(c.rule);
    }
    // One that has no fast kernel, with the others.
    a.emplace_back(fused::Codecs{{fused::kFp32, fused::kFp32, fused::kFp32, c.codecs[Role::kVariance]}}, 300);
    b.emplace_back(fused::Codecs{{fused::kFp32, fused::kFp32, fused::kFp32, c.codecs[Role::kVariance]}}, 300);
    rules.push_back(c.rule);
    for (std::uint32_t step = 1; step <= 3; ++step) {
      for (std::size_t i = 0; i < a.size(); ++i) {
        const Noise noise{3, static_cast<std::uint32_t>(i), step, 0};
        for (Tensor* tensor : {&a[i], &b[i]}) {
          if (step == 1) tensor->fill(Role::kParameter, noise, 0.1F, 1);
          tensor->fill(Role::kAccumulator, noise, 0.01F, 10 * step);
          if (step == 1 && i % 2 == 0) tensor->fill(Role::kMomentum, noise, 0.01F, 2);
          if (step == 1 && i % 2 == 0) tensor->fill(Role::kVariance, noise, 0.01F, 3);
        }
      }
      update_both(a, b, rules, step);
      for (std::size_t i = 0; i < a.size(); ++i) {
        expect_equal(a[i], b[i], c.name + ", tensor " + std::to_string(i) + ", step " + std::to_string(step));
        EXPECT_TRUE(a[i].storable);
      }
      if (HasFailure()) return;
    }
  }
}

// How many of a tensor's units the kernel for a rule and a set of codecs leaves to the general bodies.
template <class R, int kSet, bool kFeedback>
std::uint32_t units_left(const R& rule, const Tensor& tensor) {
  using namespace cuda_emulated;
  const auto job = cuda::make_update(rule, tensor.views(), {7, 0, 1, 0}, nullptr, device_table);
  const auto units = static_cast<std::uint32_t>(cuda::units(job));
  const std::uint32_t first = 0;
  std::vector<std::uint32_t> left(1 + units);
  const UpdateTable<R> table = {&job, &first, 1, 1, left.data()};
  launch(update_units<R, kSet, kFeedback, true>, units, kFusedThreads, 2 * kSoftEntries * 4, nullptr, table,
         std::uint32_t{0}, units);
  return left[0];
}
template <class R, int kSet, bool kFeedback>
void expect_few_left(const R& rule) {
  constexpr std::int64_t kElements = 10 * 1024 + 5;
  Tensor tensor(fused::codecs_of<R, kSet>(), kElements);
  const Noise noise{3, 0, 1, 0};
  tensor.fill(Role::kParameter, noise, 0.1F, 1);
  tensor.fill(Role::kAccumulator, noise, 0.01F, 2);
  EXPECT_EQ((units_left<R, kSet, kFeedback>(rule, tensor)), 1U) << R::kName << " " << kSet;
  EXPECT_TRUE(tensor.roles[Role::kParameter]->intact());
}

// From zeros and from what is there: all but the last one, which ends early.
TEST(CudaFused, WholeUnitsAreNotLeft) {
  const RuleStep step{.learning_rate = 0.01, .weight_decay = 0.02, .update = 3, .error_feedback = true};
  Adam adam = AdamW::make({}, step);
  const Sgd sgd = Sgd::make({.momentum = 0.9}, step);
  expect_few_left<Adam, 2, true>(adam);
  expect_few_left<Adam, 3, true>(adam);
  expect_few_left<Adam, 4, true>(adam);
  expect_few_left<Adam, 5, true>(adam);
  expect_few_left<Sgd, 2, true>(sgd);
  expect_few_left<Sgd, 3, true>(sgd);
  expect_few_left<Sgd, 4, true>(sgd);
  expect_few_left<Sgd, 5, true>(sgd);
  expect_few_left<Sgd, 6, true>(sgd);
}

}  // namespace
}  // namespace lpmm::kernels
