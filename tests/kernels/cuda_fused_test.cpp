// The fast CUDA kernels on fibers against the CPU, byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cpu.h"
#include "kernels/cpu/packed/fused.h"
#include "kernels/device.h"
#include "tests/kernels/every_rule.h"
#include "tests/kernels/support.h"

// The macros that mark functions for nvcc.
#undef __global__
#undef __launch_bounds__
#define __global__
#define __launch_bounds__(...)
#include "kernels/cuda/packed/fused_units.h"
#undef __global__
#undef __launch_bounds__

namespace lpmm::kernels::cuda_fused_test {
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
    cpu.encode({view, 0, view.elements, x.data(), noise});
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
  codecs = fused::codecs_of<R>(codecs);
  for (const Role r : kEveryRole) {
    if (quasi && codecs[r].rounding == Rounding::kStochastic) codecs[r].rounding = Rounding::kQuasiStochastic;
  }
  return codecs;
}
constexpr int kFirstPacked = 2;  // its index in fused::kCodecs
// The codecs that have kernels for updates: of presets, and, for the usual rules, with fp32 of a framework
// and with sums in fp32.
constexpr int kUpdated[] = {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
static_assert(std::size(kUpdated) + 1 == fused::kAllSets);

// Returns the rules that have kernels for units, among them scalars that are seldom used.
std::vector<Rule> rules() {
  const RuleStep step{.learning_rate = 0.01, .weight_decay = 0.02, .update = 3, .clip = 0.75};
  RuleStep fed = step;
  fed.error_feedback = true;
  std::vector<Rule> rules = every_rule();
  for (const Rule& rule : every_fed_rule()) rules.push_back(rule);
  rules.insert(rules.end(), {
                                Sgd::make({.momentum = 0.9}, step),
                                Sgd::make({.decoupled_decay = true, .momentum = 0.9, .dampening = 0.1}, fed),
                                Sgd::make({.momentum = 0.9, .nesterov = true}, fed),
                                AdamW::make({.update_clip = 0.5}, step),
                            });
  std::erase_if(rules, [](const Rule& rule) {
    return std::visit([]<class R>(const R&) { return !cuda_emulated::is_for_units<R>(); }, rule);
  });
  return rules;
}
std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const int set : kUpdated) {
    const bool in_momentum = fused::is_none(fused::kCodecs[set][Role::kAccumulator]);
    int number = 0;
    for (const Rule& rule : rules()) {
      const std::string name = "set " + std::to_string(set) + ", rule " + std::to_string(number++);
      const auto* sgd = std::get_if<Sgd>(&rule);
      if (in_momentum && (sgd == nullptr || sgd->nesterov != 0 || sgd->momentum == 0)) continue;
      const bool is_usual =
          std::visit([]<class R>(const R&) { return fused::is_compiled<R>(fused::kAllSets - 1); }, rule);
      if (set >= fused::kCodecSets && !is_usual) continue;
      const auto codecs =
          std::visit([&](const auto& r) { return codecs_of(r, fused::kCodecs[set], number % 2 == 1); }, rule);
      cases.push_back({name, codecs, rule});
      // A framework's bf16 takes the kernels of its fp32.
      const Codec wanted = SpecReader((set + number) % 2 == 0 ? "bf16:sr" : "bf16:rn").codec;
      fused::Codecs narrow = codecs;
      for (const Role role : {Role::kParameter, Role::kAccumulator}) {
        if (narrow[role] == fused::kFp32) narrow[role] = wanted;
      }
      if (set >= fused::kCodecSets) cases.push_back({name + ", bf16", narrow, rule});
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
      UpdateArgs& args = updates.back().args;
      args.keeps_gradient = i % 2 == 1 && !is_packed(args.roles[Role::kAccumulator].codec.format);
    }
    return updates;
  };
  const auto on_cpu = all(a), on_fibers = all(b);
  cpu.update(on_cpu);
  emulated->update(on_fibers);
}

TEST(CudaFused, UpdatesOfEveryPresetAndRuleAreTheCpus) {
  std::size_t number = 0;
  for (const Case& c : cases()) {
    std::vector<Tensor> a, b;
    std::vector<Rule> rules;
    const std::vector<std::int64_t> all = sizes();
    for (std::size_t i = number++ % 3; i < all.size(); i += 3) {  // each rule and preset others
      const std::int64_t n = all[i];
      a.emplace_back(c.codecs, n);
      b.emplace_back(c.codecs, n);
      rules.push_back(c.rule);
    }
    // One that has no fast kernel, with the others.
    fused::Codecs slow = c.codecs;
    for (const Role r : {Role::kParameter, Role::kAccumulator, Role::kMomentum}) {
      if (r != Role::kMomentum || !fused::is_none(slow[r])) slow[r] = fused::kFp32;
    }
    a.emplace_back(slow, 300);
    b.emplace_back(slow, 300);
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

// The number of a tensor's units that the kernel for a rule and a set of codecs leaves to the general bodies.
template <class R, int kSet, bool kFeedback>
std::uint32_t units_left(const R& rule, const Tensor& tensor) {
  using namespace cuda_emulated;
  const auto job = cuda::make_update(rule, UpdateArgs{tensor.views(), {7, 0, 1, 0}}, nullptr, device_table);
  const auto units = static_cast<std::uint32_t>(cuda::units(job));
  const std::uint32_t first = 0;
  std::vector<std::uint32_t> left(1 + units);
  const UpdateTable<R> table = {&job, &first, 1, 1, left.data()};
  // One block: each warp takes several units.
  launch(update_units<R, kSet, kFeedback, true>, 1, kFusedThreads,
         shared_bytes_of<UnitUpdate<R, kSet, kFeedback, true>>, nullptr, table, std::uint32_t{0}, units);
  return left[0];
}
template <class R, int kSet, bool kFeedback>
void expect_few_left(const R& rule) {
  constexpr std::int64_t kElements = 10 * 1024 + 5;
  Tensor tensor(fused::codecs_of<R, kSet>(), kElements);
  const Noise noise{3, 0, 1, 0};
  tensor.fill(Role::kParameter, noise, 0.1F, 1);
  tensor.fill(Role::kAccumulator, noise, 0.01F, 2);
  const RoleView gradient = tensor.views()[Role::kAccumulator];
  if (gradient.codes != nullptr && gradient.codec.format.map == Map::kFp32) {
    auto* const x = reinterpret_cast<float*>(gradient.codes);
    std::replace_if(
        x, x + kElements, [](float g) { return std::abs(g) < 1e-9F; }, 0.0F);  // as packed sums have it
  }
  EXPECT_EQ((units_left<R, kSet, kFeedback>(rule, tensor)), 1U) << R::kName << " " << kSet;
  EXPECT_TRUE(tensor.roles[Role::kParameter]->intact());
}

// Each kernel that is named here is compiled once more: every rule has one set, two rules have all of them.
template <class R, int kSet>
void expect_few_left_of(const Rule& rule) {
  constexpr bool kIsNamed = kSet == 4 || std::is_same_v<R, Sgd> || std::is_same_v<R, AdamW>;
  if constexpr (kIsNamed && cuda_emulated::is_for_units<R>() &&
                fused::takes<R>(fused::codecs_of<R, kSet>())) {
    if constexpr (FeedsBack<R> && is_packed(fused::codecs_of<R, kSet>()[Role::kParameter].format)) {
      if (feeds_back(rule)) return expect_few_left<R, kSet, true>(std::get<R>(rule));
    }
    expect_few_left<R, kSet, false>(std::get<R>(rule));
  }
}

// All units but the last one, which ends early, are updated: from zeros, and from values that are there.
TEST(CudaFused, WholeUnitsAreNotLeft) {
  std::vector<Rule> all = every_rule();
  for (const Rule& rule : every_fed_rule()) all.push_back(rule);
  all.push_back(Sgd::make({.momentum = 0.9}, {.update = 3}));
  EXPECT_GE(rules().size(), 15U);  // nine rules of the table, some in several ways
  for (const Rule& rule : all) {
    std::visit(
        [&]<class R>(const R&) {
          expect_few_left_of<R, 2>(rule);
          expect_few_left_of<R, 3>(rule);
          expect_few_left_of<R, 4>(rule);
          expect_few_left_of<R, 5>(rule);
          expect_few_left_of<R, 6>(rule);
          expect_few_left_of<R, 9>(rule);
          expect_few_left_of<R, 13>(rule);
        },
        rule);
  }
}

// Operands for which the fast quotients and roots are not proven, and steps that are too large, are left.
TEST(CudaFused, UnitsOutOfRangeAreLeft) {
  const RuleStep step{.learning_rate = 0.01, .update = 3};
  const Noise noise{3, 0, 1, 0};
  const auto left = [&](float parameter, float gradient, float epsilon) {
    Tensor tensor(fused::codecs_of<Adam, 3>(), 5 * 1024);
    tensor.fill(Role::kParameter, noise, parameter, 1);
    tensor.fill(Role::kAccumulator, noise, gradient, 2);
    Adam adam = AdamW::make({}, step);
    adam.epsilon = epsilon;
    return units_left<Adam, 3, false>(adam, tensor);
  };
  EXPECT_EQ(left(0.1F, 0.01F, 1e-8F), 0U);
  EXPECT_EQ(left(0.1F, 1e-9F, 1e-8F), 0U);
  EXPECT_EQ(left(0.1F, 1e-18F, 1e-8F), 5U);     // roots of tiny variances
  EXPECT_EQ(left(0.1F, 0x1p-99F, 1e-8F), 5U);   // tiny numerators
  EXPECT_EQ(left(0.1F, 0.0F, 1e-8F), 0U);       // zeros are no tiny numbers
  EXPECT_EQ(left(0.1F, 0.0F, 0x1p-61F), 5U);    // a tiny denominator
  EXPECT_EQ(left(0.1F, 0.01F, 0x1p25F), 5U);    // a large one
  EXPECT_EQ(left(0x1p119F, 0.01F, 1e-8F), 5U);  // large steps
}

// ---- values that are rare --------------------------------------------------------------------------------
struct Rare {
  std::string name;
  float parameter, gradient, variance;  // scales of what is stored
  float learning_rate, epsilon;
  bool is_storable;
};

// Tiny and huge values, operands out of the range of the fast quotients and roots, rules that overflow.
TEST(CudaFused, RareValuesAreTheCpus) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Rare> rare = {
      {"tiny gradients", 0.1F, 0x1p-70F, 0, 0.01F, 1e-8F, true},
      {"denormal gradients", 0.1F, 1e-40F, 1e-18F, 0.01F, 1e-8F, true},
      {"tiny everything", 0x1p-99F, 0x1p-99F, 0x1p-49F, 0x1p-99F, 0x1p-100F, true},
      {"tiny denominators", 0.1F, 1e-20F, 0, 0.01F, 1e-25F, true},
      {"large steps", 0x1p118F, 1.0F, 1.0F, 0x1p90F, 1e-8F, true},
      {"large gradients", 0.1F, 0x1p59F, 0x1p40F, 0.01F, 1e-8F, true},
      {"overflow", 0.1F, 1.0F, 0.1F, 0x1p125F, 1e-8F, false},
      {"not a number", 0.1F, 1.0F, 0.1F, nan, 1e-8F, false},
  };
  for (const int set : kUpdated) {
    if (fused::is_none(fused::kCodecs[set][Role::kAccumulator])) continue;
    for (const Rare& c : rare) {
      std::vector<Tensor> a, b;
      std::vector<Rule> rules;
      const RuleStep step{.learning_rate = 0.01, .update = 9, .error_feedback = set % 2 == 0};
      Adam adam = AdamW::make({}, step);
      Sgd sgd = Sgd::make({.momentum = 0.9}, step);
      adam.step_size = sgd.learning_rate = c.learning_rate;
      adam.epsilon = c.epsilon;
      for (const std::int64_t n : {1024, 2 * 1024 + 300}) {
        for (const Rule& rule : {Rule(adam), Rule(sgd)}) {
          const auto codecs =
              std::visit([&](const auto& r) { return codecs_of(r, fused::kCodecs[set], false); }, rule);
          a.emplace_back(codecs, n);
          b.emplace_back(codecs, n);
          rules.push_back(rule);
        }
      }
      for (std::size_t i = 0; i < a.size(); ++i) {
        for (Tensor* tensor : {&a[i], &b[i]}) {
          tensor->fill(Role::kParameter, {}, c.parameter, 1);
          tensor->fill(Role::kAccumulator, {}, c.gradient, 2);
          tensor->fill(Role::kMomentum, {}, c.gradient, 3);
          tensor->fill(Role::kVariance, {}, c.variance, 4);
        }
      }
      update_both(a, b, rules, 1);
      for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].storable, c.is_storable) << c.name << ", set " << set << ", tensor " << i;
        EXPECT_EQ(b[i].storable, c.is_storable) << c.name << ", set " << set << ", tensor " << i;
        if (c.is_storable) expect_equal(a[i], b[i], c.name + ", set " + std::to_string(set));
      }
    }
  }
}

// One bad block in one of two tensors: the other one's flag and bytes do not notice.
TEST(CudaFused, OneBadElementFailsItsTensorOnly) {
  const fused::Codecs codecs = fused::kCodecs[3];
  const Rule rule = AdamW::make({}, {.learning_rate = 0.01, .update = 2});
  std::vector<Tensor> a, b;
  for (std::vector<Tensor>* tensors : {&a, &b}) {
    for (int i = 0; i < 2; ++i) {
      tensors->emplace_back(codecs, 4096);
      tensors->back().fill(Role::kParameter, {}, 0.1F, 1);
      tensors->back().fill(Role::kAccumulator, {}, 0.1F, 2);
    }
    std::vector<float> huge(128, 0.0F);  // its square is not storable
    huge[77] = 0x1p100F;
    CpuDevice(1).encode({(*tensors)[1].roles[Role::kAccumulator]->view(), 1024, 128, huge.data(), {}});
  }
  update_both(a, b, {rule, rule}, 1);
  expect_equal(a[0], b[0], "good");
  EXPECT_TRUE(b[0].storable);
  EXPECT_FALSE(a[1].storable);
  EXPECT_FALSE(b[1].storable);
}

// ---- folds and reads -------------------------------------------------------------------------------------
struct Range {
  std::int64_t first, count;
};
// Ranges of a tensor: the whole, its end, a part inside.
std::vector<Range> ranges(std::int64_t n, int block) {
  const std::int64_t unit = std::max(kGroup, block);
  std::vector<Range> ranges = {{0, n}};
  for (const std::int64_t units : {1, 3, 9}) {
    const std::int64_t first = units * unit;
    if (first >= n) break;
    ranges.push_back({first, n - first});
    ranges.push_back({first, (n - first) / unit * unit});
  }
  return ranges;
}

void compare_folds(Role role, const Codec& codec, std::int64_t n, const Range& range, std::size_t shift,
                   float scale = 0.3F) {
  CpuDevice cpu(1);
  const auto emulated = make_device("cuda-emulated", 1);
  Packed a(codec, n), b(codec, n);
  for (std::uint32_t micro = 0; micro < 3; ++micro) {
    alignas(16) std::vector<float> x =
        values(range.count + static_cast<std::int64_t>(shift), micro, scale, false);
    const FoldArgs args = {
        .scale = 0.25F, .noise = {5, 9, 3, noise_stream(role, micro)}, .want_square_sum = micro != 1};
    const float* from = x.data() + shift;
    const FoldResult on_cpu = fold(cpu, a.view(), range.first, range.count, from, args);
    const FoldResult on_fibers = fold(*emulated, b.view(), range.first, range.count, from, args);
    EXPECT_TRUE(on_cpu.finite && on_fibers.finite);
    EXPECT_EQ(on_cpu.square_sum, on_fibers.square_sum) << n << " " << range.first << " " << range.count;
    EXPECT_EQ(square_sum(cpu, a.view(), range.first, range.count),
              square_sum(*emulated, b.view(), range.first, range.count))
        << codec.format.bits << ": " << n << " " << range.first << " " << range.count;
    EXPECT_TRUE(a == b && b.intact())
        << codec.format.bits << ": " << n << " " << range.first << " " << range.count << ", fold " << micro;
  }
}
TEST(CudaFused, FoldsAreTheCpus) {
  for (int set = 0; set < fused::kCodecSets; ++set) {  // the first: fp32
    if (set > 0 && set < kFirstPacked) continue;
    const bool in_momentum = fused::is_none(fused::kCodecs[set][Role::kAccumulator]);
    const Role role = in_momentum ? Role::kMomentum : Role::kAccumulator;
    Codec codec = fused::kCodecs[set][role];
    if (set == 4) codec.rounding = Rounding::kQuasiStochastic;
    for (const std::int64_t n : sizes()) {
      for (const Range& range : ranges(n, codec.block)) {
        if (range.count != 0) compare_folds(role, codec, n, range, 0);
      }
    }
    compare_folds(role, codec, 3000, {0, 3000}, 1);            // an address that is not aligned
    compare_folds(role, codec, 3000, {0, 3000}, 0, 0x1p110F);  // steps above 2^96
    if (HasFailure()) return;
  }
}

// Trees of two levels: of blocks of one launch, and of launches where an address is not aligned.
TEST(CudaFused, SumsOfManyPiecesAreTheCpus) {
  constexpr std::int64_t kCount = 1025 * kUnit - 3;
  compare_folds(Role::kAccumulator, fused::kCodecs[0][Role::kAccumulator], kCount, {0, kCount}, 0);
  compare_folds(Role::kAccumulator, fused::kCodecs[3][Role::kAccumulator], kCount, {0, kCount}, 1);
}

TEST(CudaFused, FoldsOfBadValuesFail) {
  CpuDevice cpu(1);
  const auto emulated = make_device("cuda-emulated", 1);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -HUGE_VALF, 0x1p123F}) {
    for (const std::size_t at : {0U, 700U, 2047U, 2100U}) {
      for (int set = 0; set < fused::kCodecSets - 1; ++set) {
        Packed a(fused::kCodecs[set][Role::kAccumulator], 2200),
            b(fused::kCodecs[set][Role::kAccumulator], 2200);
        std::vector<float> x = values(2200, 1, 1.0F, false);
        x[at] = bad;
        const FoldArgs args = {.noise = {5, 9, 3, noise_stream(Role::kAccumulator)}, .want_square_sum = true};
        EXPECT_FALSE(fold(*emulated, a.view(), 0, 2200, x.data(), args).finite) << bad << " at " << at;
        EXPECT_FALSE(fold(cpu, b.view(), 0, 2200, x.data(), args).finite);
        EXPECT_TRUE(a.intact() && a == b) << bad << " at " << at;
      }
    }
  }
}

TEST(CudaFused, ReadsAreTheCpus) {
  CpuDevice cpu(1);
  const auto emulated = make_device("cuda-emulated", 1);
  for (int set = kFirstPacked; set < fused::kCodecSets; ++set) {
    for (const Role role : {Role::kParameter, Role::kAccumulator, Role::kMomentum}) {
      const Codec codec = fused::kCodecs[set][role];
      if (fused::is_none(codec)) continue;
      for (const std::int64_t n : sizes()) {
        Tensor tensor(fused::kCodecs[set], n);
        tensor.fill(role, {}, n == 3000 ? 0x1p110F : 1.0F, 3);  // 3000: steps above those that are fast
        const RoleView& view = tensor.roles[role]->view();
        for (const Range& range : ranges(n, codec.block)) {
          for (const std::size_t shift : {0U, 1U}) {
            const auto room = static_cast<std::size_t>(range.count) + shift + 3;
            std::vector<float> a(room, -7.0F), b(room, -7.0F);
            std::vector<std::uint16_t> c(room, 7), d(room, 7);
            cpu.decode(view, range.first, range.count, a.data() + shift);
            emulated->decode(view, range.first, range.count, b.data() + shift);
            cpu.decode_bf16(view, range.first, range.count, c.data() + shift);
            emulated->decode_bf16(view, range.first, range.count, d.data() + shift);
            EXPECT_TRUE(same_bits(a, b) && c == d) << "set " << set << ", " << n << ": " << range.first;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lpmm::kernels::cuda_fused_test
