// Slots against the scalar specification, and several ranks against one, byte for byte.
#include "lpmm/memory/slots/slots.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/ranks/ranks.h"
#include "tests/lpmm/memory/given.h"
#include "tests/lpmm/memory/oracle.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

using Floats = std::vector<float>;

// Two that are cut where rules let them be; tails; a frozen one in between.
const std::vector<TensorInfo> kSlotTensors = {{"conv", {5, 3, 3, 3}}, {"cut", {260, 256}},
                                              {"norm", {37}},         {"still", {20, 20}},
                                              {"long", {70000}},      {"wide", {33, 260}}};

// With more rounds of sums than one for each rank.
const std::vector<TensorInfo> kLargeTensors = [] {
  std::vector<TensorInfo> tensors = kSlotTensors;
  tensors.push_back({"large", {2600, 1024}});
  return tensors;
}();

struct SlotCase {
  const char* preset = "lpmm-min";
  const char* rule = "adamw";
  int microbatches = 4, slots = 4;
  double clip = 0;
  int percentile = 0;
  const char* variance = "";  // spec
  bool feeds_back = false, compensates = false;
  double update_clip = 0, average = 0;
  bool is_large = false;  // then without counts, which fused loops do not take
  int stage = 1;          // of several ranks

  const std::vector<TensorInfo>& tensors() const { return is_large ? kLargeTensors : kSlotTensors; }
  std::string name() const {
    return fmt::format("{} {} K {} S {} clip {}/{} {} stage {}", preset, rule, microbatches, slots, clip,
                       percentile, variance, stage);
  }
  OptimizerConfig optimizer() const {
    OptimizerConfig c;
    c.rule = RuleName::find(rule).value();
    give(c, "momentum", 0.9);
    if (update_clip > 0) give(c, "update_clip", update_clip);
    c.weight_decay = 0.01;
    c.clip_norm = clip;
    c.percentile_clip = percentile;
    ParameterGroup still;
    still.pattern = "still";
    still.frozen = true;
    c.groups = {still};
    return c;
  }
  Policy policy() const {
    Policy p = make_policy(preset);
    if (*variance != '\0') p.specs[Role::kVariance] = parse_spec(variance);
    if (compensates) p.specs[Role::kCompensation] = parse_spec(Role::kCompensation, "int4:block64:sr");
    p.error_feedback = feeds_back;
    p.average = average;
    return p;
  }
};

Floats drawn(std::int64_t count, std::uint64_t seed, float scale) {
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  std::uniform_real_distribution<float> uniform(-1, 1);
  Floats values(static_cast<std::size_t>(count));
  for (float& x : values) x = scale * uniform(random) * uniform(random) * uniform(random);
  return values;
}
Floats initial(int tensor) {
  return drawn(kLargeTensors[static_cast<std::size_t>(tensor)].elements(), static_cast<std::uint64_t>(tensor),
               0.1F);
}
Floats gradient(int tensor, std::uint32_t step, int microbatch) {
  const auto seed =
      1000 * step + 50 * static_cast<std::uint64_t>(microbatch + 1) + static_cast<std::uint64_t>(tensor);
  return drawn(kLargeTensors[static_cast<std::size_t>(tensor)].elements(), seed, 0.01F);
}

template <class T>
std::vector<T> downloaded(PackedDevice& device, const T* from, std::size_t count) {
  std::vector<T> values(count);
  device.download(values.data(), from, static_cast<std::int64_t>(count * sizeof(T)));
  return values;
}

void expect_equal(const ModelMemory& memory, const Oracle& oracle, const std::string& what) {
  for (int i = 0; i < memory.tensors(); ++i) {
    for (const Role role : kEveryRole) {
      if (role == Role::kAccumulator) continue;  // empty
      const kernels::RoleView v = memory.view(i, role);
      const Oracle::Stored& o = oracle.stored(i, role);
      const std::string where = fmt::format("{}, {} {}", what, memory.info(i).name, to_string(role));
      ASSERT_EQ(v.codes == nullptr, o.codes.empty()) << where;
      ASSERT_TRUE(o.codes == downloaded(memory.device(), v.codes, o.codes.size())) << where;
      ASSERT_TRUE(o.steps == downloaded(memory.device(), v.steps, o.steps.size())) << where << " steps";
    }
  }
}

void expect_the_specification(const SlotCase& c, Device& device, std::uint32_t steps) {
  const OptimizerConfig optimizer = c.optimizer();
  ModelMemory memory(kSlotTensors, c.policy(), optimizer, 7, c.microbatches, device, c.slots);
  Oracle oracle(kSlotTensors, c.policy(), optimizer, 7, c.microbatches, c.slots);
  for (int i = 0; i < memory.tensors(); ++i) {
    memory.initialize(i, 0, initial(i));
    oracle.initialize(i, initial(i));
  }
  const DeviceMemory room = device.allocate(4 * 70000);
  for (std::uint32_t number = 1; number <= steps; ++number) {
    Step step = memory.begin_step({number, 0.01});
    oracle.begin_step(number);
    for (int k = 0; k < c.microbatches; ++k) {
      for (int i = 0; i < memory.tensors(); ++i) {
        const Floats g = gradient(i, number, k);
        step.fold(i, 0, {on_device(device, g.data(), std::ssize(g), room.get()), g.size()}, k);
        oracle.fold(i, g, k);
      }
    }
    const StepReport a = std::move(step).commit(), b = oracle.commit(0.01);
    EXPECT_TRUE(a.applied);
    EXPECT_EQ(a.gradient_norm, b.gradient_norm) << c.name();
    EXPECT_EQ(a.clip_factor, b.clip_factor) << c.name();
    EXPECT_EQ(a.clipped_tensors, b.clipped_tensors) << c.name();
    expect_equal(memory, oracle, fmt::format("{} step {}", c.name(), number));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Slots, AStepIsThatOfTheSpecification) {
  const SlotCase cases[] = {
      {.clip = 0.1, .average = 0.9},
      {.preset = "lpmm", .rule = "sgd", .microbatches = 6, .slots = 3, .percentile = 40},
      {.preset = "fp32", .rule = "lamb", .microbatches = 4, .slots = 2, .clip = 0.1},
      {.preset = "lpmm-nano", .rule = "adafactor", .microbatches = 5, .slots = 5},
      {.preset = "lpmm-compact", .rule = "adam_mini", .microbatches = 2, .slots = 2}};
  for (const SlotCase& c : cases) {
    CpuDevice device(2);
    expect_the_specification(c, device, 2);
  }
}

TEST(Slots, AStepOnAnEmulatedGpuIsThatOfTheSpecification) {
  kernels::EmulatedCuda device(2);
  expect_the_specification({.slots = 2, .clip = 0.1}, device, 1);
}

// The results of one rank after its steps.
struct Told {
  std::vector<Floats> read;                            // parameters, at every step and at last
  std::vector<RoleArray<std::string>> codes, steps;    // states, only the elements that it owns
  std::map<int, std::string> averages, average_steps;  // of tensors that have one
  std::vector<StepReport> reports;
  std::vector<TensorStats> stats;
  std::vector<kernels::WatchStats> watched;
  std::int64_t sent = 0, state_bytes = 0;
  Ledger ledger, planned;
  SentBytes planned_sent;
  std::string error;
};

std::string bytes_at(PackedDevice& device, const void* at, std::int64_t count) {
  std::string bytes(static_cast<std::size_t>(at == nullptr ? 0 : count), '\0');
  device.download(bytes.data(), at, std::ssize(bytes));
  return bytes;
}

constexpr std::uint32_t kSteps = 3, kFailingStep = 2;

// A tensor as forward and backward read it, or rows of it: first those that begin and end it.
Floats read_all(const ModelMemory& memory, int tensor) {
  Floats values(static_cast<std::size_t>(memory.info(tensor).elements()));
  memory.read(tensor, 0, values);
  return values;
}
Floats read_rows(const ModelMemory& memory, int tensor) {
  const std::int64_t rows = memory.info(tensor).traits().rows, width = memory.info(tensor).elements() / rows;
  std::vector<std::int32_t> wanted = {0, static_cast<std::int32_t>(rows - 1)};
  for (std::int64_t row = 0; row < rows; row += 3) wanted.push_back(static_cast<std::int32_t>(row));
  const auto count = std::ssize(wanted);
  Floats values(static_cast<std::size_t>(count * width));
  PackedDevice& device = memory.device();
  const DeviceMemory ids = device.allocate(4 * count), out = device.allocate(4 * std::ssize(values));
  device.upload(ids.get(), wanted.data(), 4 * count);
  memory.decode_rows(tensor, width, reinterpret_cast<const std::int32_t*>(ids.get()), count,
                     reinterpret_cast<float*>(out.get()));
  device.download(values.data(), out.get(), 4 * std::ssize(values));
  return values;
}
// Reads all tensors, and then backwards rows of them. The later a rank is, the more it reads besides.
void read_twice(const ModelMemory& memory, Told& told) {
  for (int i = 0; i < memory.tensors(); ++i) told.read.push_back(read_all(memory, i));
  for (int again = 0; again < memory.ranks().rank(); ++again) {
    Floats some(4096);
    memory.read(1, 256 * 128, some);
    const auto whole = told.read.end() - memory.tensors() + 1;
    EXPECT_TRUE(std::equal(some.begin(), some.end(), whole->begin() + 256 * 128));
  }
  for (int i = memory.tensors() - 1; i >= 0; --i) told.read.push_back(read_rows(memory, i));
}

using MakeDevice = std::unique_ptr<Device>();
std::unique_ptr<Device> on_cpu() {
  return std::make_unique<CpuDevice>(1);
}
std::unique_ptr<Device> on_emulated() {
  return std::make_unique<kernels::EmulatedCuda>(1);
}

void train(const SlotCase& c, Device& device, Ranks& ranks, Told& told) {
  const DeviceMemory room = device.allocate(4 * c.tensors().back().elements() + 4 * 70000);
  ModelMemory memory(c.tensors(), c.policy(), c.optimizer(), 7, c.microbatches, device, c.slots, ranks,
                     c.stage);
  for (int i = 0; i < memory.tensors(); ++i) memory.initialize(i, 0, initial(i));
  const Share own = memory.own_microbatches();
  for (std::uint32_t number = 1; number <= kSteps; ++number) {
    Step step = memory.begin_step({number, 0.01, !c.is_large, true});
    read_twice(memory, told);
    for (int k = own.first; k < own.first + own.count; ++k) {
      for (int i = 0; i < memory.tensors(); ++i) {
        Floats g = gradient(i, number, k);
        const bool fails = number == kFailingStep && k == c.microbatches - 1 && i == 2;
        if (fails) g[5] = std::numeric_limits<float>::quiet_NaN();
        step.fold(i, 0, {on_device(device, g.data(), std::ssize(g), room.get()), g.size()}, k);
      }
    }
    const std::int64_t before = ranks.sent_bytes();
    told.reports.push_back(std::move(step).commit());
    told.sent = ranks.sent_bytes() - before;
  }
  read_twice(memory, told);
  (void)ranks.any(false);  // all have read
  told.stats = memory.take_stats();
  told.watched.assign(memory.watched().begin(), memory.watched().end());
  told.ledger = memory.ledger();
  told.planned = memory_ledger(c.tensors(), c.policy(), c.optimizer(), memory.sharding());
  told.planned_sent = sent_bytes(c.tensors(), c.policy(), c.optimizer(), memory.sharding());
  for (int i = 0; i < memory.tensors(); ++i) {
    RoleArray<std::string> codes, steps;
    for (const Role role : kEveryRole) {
      const kernels::RoleView v = memory.view(i, role);
      if (v.codes == nullptr || role == Role::kAccumulator) continue;
      codes[role] = bytes_at(device, v.codes, code_bytes(v.codec.format, v.elements));
      steps[role] = bytes_at(device, v.steps, step_bytes(v.codec, v.elements));
      if (role == Role::kParameter && memory.sharding().rank > 0 && !memory.divides_parameter(i)) {
        codes[role].clear();  // as with the first one
        steps[role].clear();
      }
      told.state_bytes += std::ssize(codes[role]) + std::ssize(steps[role]);
    }
    if (const kernels::RoleView v = memory.average(i); v.codes != nullptr) {
      told.averages[i] += bytes_at(device, v.codes, code_bytes(v.codec.format, v.elements));
      told.average_steps[i] += bytes_at(device, v.steps, step_bytes(v.codec, v.elements));
    }
    told.codes.push_back(std::move(codes));
    told.steps.push_back(std::move(steps));
  }
}

std::vector<Told> train_on(const SlotCase& c, int count, MakeDevice* make_device = on_cpu) {
  std::vector<Told> told(static_cast<std::size_t>(count));
  if (count == 1) {
    train(c, *make_device(), alone(), told[0]);
    return told;
  }
  auto ranks = linked_ranks(count, 60);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        train(c, *make_device(), *ranks[i], told[i]);
      } catch (const std::exception& e) {
        told[i].error = e.what();
      }
      ranks[i].reset();  // the others see that it has ended
    });
  }
  for (std::thread& thread : threads) thread.join();
  return told;
}

void expect_same_counts(const kernels::ChangeStats& a, const kernels::ChangeStats& b) {
  EXPECT_EQ(a.increments, b.increments);
  EXPECT_EQ(a.underflows, b.underflows);
  EXPECT_EQ(a.true_change_squared, b.true_change_squared);
  EXPECT_EQ(a.change_error_squared, b.change_error_squared);
}

// `all` of several ranks, `one` of one.
void expect_same(const SlotCase& c, const std::vector<Told>& all, const Told& one) {
  for (const Told& told : all) {
    ASSERT_EQ(told.error, "");
    EXPECT_TRUE(told.read == one.read);
    for (std::size_t s = 0; s < kSteps; ++s) {
      const StepReport &a = told.reports[s], &b = one.reports[s];
      EXPECT_EQ(a.applied, s + 1 != kFailingStep);
      EXPECT_EQ(a.failed_tensor, a.applied ? "" : "norm");
      EXPECT_EQ(a.gradient_norm, b.gradient_norm);
      EXPECT_EQ(a.clip_factor, b.clip_factor);
      EXPECT_EQ(a.clipped_tensors, b.clipped_tensors);
    }
    for (std::size_t i = 0; i < c.tensors().size(); ++i) {
      for (const Role role : kEveryRole)
        expect_same_counts(told.stats[i].role[role], one.stats[i].role[role]);
      for (int k = 0; k < kWatched; ++k) {
        EXPECT_EQ(told.watched[i].squares[k], one.watched[i].squares[k]);
      }
      EXPECT_EQ(told.watched[i].update.bits, one.watched[i].update.bits);
      EXPECT_EQ(told.watched[i].update.element, one.watched[i].update.element);
    }
    EXPECT_EQ(told.ledger.model_memory(), told.planned.model_memory());
    EXPECT_GE(told.sent, told.planned_sent.all());
    EXPECT_LT(told.sent, told.planned_sent.all() + 200'000 * std::ssize(all)) << "counts and looks";
  }
  std::int64_t state_bytes = 0;
  for (const Told& told : all) state_bytes += told.state_bytes;
  EXPECT_EQ(state_bytes, one.state_bytes) << "each lies with one rank, but small parameters with all";
  for (int i = 0; i < std::ssize(c.tensors()); ++i) {
    std::string codes, steps;
    for (const Told& told : all) {
      const auto part = told.averages.find(i), of_steps = told.average_steps.find(i);
      codes += part == told.averages.end() ? "" : part->second;
      steps += of_steps == told.average_steps.end() ? "" : of_steps->second;
    }
    const auto whole = one.averages.find(i);
    EXPECT_TRUE(codes == (whole == one.averages.end() ? "" : whole->second)) << i;
    EXPECT_TRUE(steps == (whole == one.averages.end() ? "" : one.average_steps.at(i))) << i;
  }
  for (std::size_t i = 0; i < c.tensors().size(); ++i) {
    for (const Role role : kEveryRole) {
      std::string codes, steps;
      for (const Told& told : all) {
        codes += told.codes[i][role];
        steps += told.steps[i][role];
      }
      EXPECT_TRUE(codes == one.codes[i][role]) << c.tensors()[i].name << " " << to_string(role);
      EXPECT_TRUE(steps == one.steps[i][role]) << c.tensors()[i].name << " steps of " << to_string(role);
    }
  }
}

const SlotCase kCases[] = {
    {.clip = 0.1},
    {.preset = "lpmm", .rule = "sgd", .percentile = 40, .feeds_back = true},
    {.preset = "lpmm-compact", .rule = "lion", .microbatches = 8, .slots = 4, .compensates = true},
    {.preset = "fp32", .rule = "lamb", .clip = 0.1},
    {.preset = "lpmm-min", .rule = "muon", .microbatches = 12, .slots = 12},
    {.preset = "lpmm-nano", .rule = "adafactor"},
    {.preset = "lpmm-compact", .rule = "adam_mini"},
    {.preset = "lpmm-nano", .rule = "lars", .microbatches = 8, .slots = 8},
    {.preset = "lpmm", .rule = "adamw", .microbatches = 6, .slots = 6, .variance = "lin04:rank1:rn"},
    {.preset = "lpmm-min", .rule = "ademamix", .microbatches = 8, .slots = 8, .percentile = 20},
    {.preset = "bnb8-2048", .rule = "adamw", .update_clip = 0.5},
    {.clip = 0.1, .is_large = true},
    {.preset = "lpmm", .rule = "lamb", .clip = 0.1, .is_large = true},
    {.clip = 0.1, .average = 0.9, .is_large = true, .stage = 3},
    {.preset = "lpmm", .rule = "sgd", .percentile = 40, .feeds_back = true, .stage = 3},
    {.preset = "lpmm-compact",
     .rule = "lion",
     .microbatches = 8,
     .slots = 8,
     .compensates = true,
     .stage = 3},
    {.preset = "fp32", .rule = "lamb", .clip = 0.1, .stage = 3},
    {.preset = "lpmm-min", .rule = "muon", .microbatches = 6, .slots = 6, .stage = 3},
};

TEST(Slots, RanksStoreWhatOneDoes) {
  int row = 0;
  for (const SlotCase& c : kCases) {
    if (kSanitized && (c.is_large || ++row % 4 != 1)) continue;
    const Told one = train_on(c, 1)[0];
    for (const int count : {2, 3, 4, 8}) {
      if (c.slots % count != 0) continue;
      SCOPED_TRACE(fmt::format("{}, {} ranks", c.name(), count));
      expect_same(c, train_on(c, count), one);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(Slots, RanksOnEmulatedGpusStoreWhatOneCpuDoes) {
  const SlotCase cases[] = {{.microbatches = 2, .slots = 2, .clip = 0.1},
                            {.preset = "lpmm-compact", .rule = "lion", .microbatches = 2, .slots = 2},
                            {.microbatches = 2, .slots = 2, .stage = 3}};
  for (const SlotCase& c : cases) {
    SCOPED_TRACE(c.name());
    expect_same(c, train_on(c, 2, on_emulated), train_on(c, 1)[0]);
  }
}

TEST(Slots, WhatDoesNotGoTogetherIsRefused) {
  CpuDevice device(1);
  const auto refusal = [&](const Policy& policy, int microbatches, int slots) -> std::string {
    try {
      const ModelMemory memory(kSlotTensors, policy, SlotCase{}.optimizer(), 7, microbatches, device, slots);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(make_policy("lpmm"), 4, 3),
            "ranks.slots = 3 does not divide train.microbatches = 4: a slot has whole microbatches");
  Policy peaks = make_policy("lpmm");
  peaks.keeps_peaks = true;
  EXPECT_NE(refusal(peaks, 4, 2).find("watch.every = true"), std::string::npos);
  Policy momentum = make_policy("lpmm");
  momentum.accumulate_in_momentum = true;
  EXPECT_NE(refusal(momentum, 4, 2), "");
  EXPECT_EQ(refusal(make_policy("lpmm"), 4, 2), "");
  EXPECT_THROW(check_slots(make_policy("lpmm"), 4, {4, 2, 0, 2}), UsageError) << "a stage of 2";
}

}  // namespace
}  // namespace lpmm
