// Several ranks against one, byte for byte, with all parameters on each and with parameters in shares.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <thread>
#include <utility>

#include "kernels/cpu.h"
#include "kernels/cuda/emulated.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/ranks/ranks.h"
#include "tests/fake_nccl.h"
#include "tests/lpmm/memory/slot_case.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

using Floats = SlotFloats;

// The results of one rank after its steps.
struct Told {
  std::vector<Floats> read;                            // parameters, at every step and at last
  std::vector<RoleArray<std::string>> codes, steps;    // states, only the elements that it owns
  std::map<int, std::string> averages, average_steps;  // of tensors that have one
  std::vector<StepReport> reports;
  std::vector<TensorStats> stats;
  std::vector<kernels::WatchStats> watched;
  bool reads = false, links = false;  // others' memory; devices send to each other
  std::int64_t sent = 0, read_bytes = 0, state_bytes = 0;
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
// Reads all tensors between rows of them. The later a rank is, the more it reads besides.
void read_twice(const ModelMemory& memory, Told& told) {
  told.read.push_back(read_rows(memory, memory.tensors() - 1));
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
std::unique_ptr<Device> on_linked() {
  return std::make_unique<Linked<CpuDevice>>();
}
std::unique_ptr<Device> on_linked_emulated() {
  return std::make_unique<Linked<kernels::EmulatedCuda>>();
}

// All of a gradient; in two halves that wait, where the case says so.
void fold(const SlotCase& c, Step& step, int tensor, std::span<const float> gradient, int microbatch) {
  if (!c.waits) return step.fold(tensor, 0, gradient, microbatch);
  const std::size_t half = gradient.size() / 4096 * 2048;
  if (half > 0) step.fold_later(tensor, 0, gradient.first(half), microbatch);
  step.fold_later(tensor, static_cast<std::int64_t>(half), gradient.subspan(half), microbatch);
}

void wait_for_more(const Ranks& ranks, std::int64_t sent) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (ranks.sent_bytes() == sent && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_GT(ranks.sent_bytes(), sent) << "accumulators go before the step is committed";
}

// Its time is long enough for a rank that would send too early.
void expect_nothing_more(const Ranks& ranks, std::int64_t sent) {
  for (int i = 0; i < 2000; ++i) std::this_thread::yield();
  EXPECT_EQ(ranks.sent_bytes(), sent) << "a fold waits, and its tensor was sent";
}

void train(const SlotCase& c, Device& device, Ranks& ranks, Told& told) {
  const DeviceMemory room = device.allocate(4 * c.tensors().back().elements() + 4 * 70000);
  ModelMemory memory(c.tensors(), c.policy(), c.optimizer(), 7, c.microbatches, device, c.slots, ranks,
                     c.stage);
  for (int i = 0; i < memory.tensors(); ++i) memory.initialize(i, 0, initial_of(i));
  const Share own = memory.own_microbatches();
  const bool is_behind =
      ranks.size() > 1 && !ranks.may_read() && (device.is_host() || ranks.may_link()) && c.stage == 1;
  std::int64_t sent = 0, read = 0;
  for (std::uint32_t number = 1; number <= kSteps; ++number) {
    if (c.drops) {
      Step step = memory.begin_step({2 * number - 1, 0.01});
      // The others have no tensor with all its gradients yet.
      for (const int tensor : ranks.is_first() ? std::vector{6, 5, 0} : std::vector{0}) {
        const Floats g = gradient_of(tensor, 9, 0);
        step.fold(tensor, 0, {g.data(), g.size()}, own.first + own.count - 1);
      }
    }
    Step step = memory.begin_step({2 * number, 0.01, !c.is_large, true});
    read_twice(memory, told);
    sent = ranks.sent_bytes();
    read = ranks.read_bytes();
    for (int k = own.first; k < own.first + own.count; ++k) {
      std::vector<Floats> gradients(c.tensors().size());
      for (int i = memory.tensors(); i-- > 0;) {
        Floats& g = gradients[static_cast<std::size_t>(i)] = gradient_of(i, number, k);
        const bool fails = number == kFailingStep && k == c.microbatches - 1 && i == 2;
        if (fails) g[5] = std::numeric_limits<float>::quiet_NaN();
        fold(c, step, i, {on_device(device, g.data(), std::ssize(g), room.get()), g.size()}, k);
        if (is_behind && c.waits && i + 1 == memory.tensors()) expect_nothing_more(ranks, sent);
      }
      step.fold_waiting();
    }
    if (is_behind && number != kFailingStep) wait_for_more(ranks, sent);
    told.reports.push_back(std::move(step).commit());
    told.read_bytes = ranks.read_bytes() - read;
  }
  if (!memory.sharding().divides_parameters()) (void)ranks.any(false);  // parameters have come
  told.sent = ranks.sent_bytes() - sent;
  read_twice(memory, told);
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

std::vector<Told> train_on(const SlotCase& c, int count, bool reads, MakeDevice* make_device = on_cpu) {
  std::vector<Told> told(static_cast<std::size_t>(count));
  if (count == 1) {
    train(c, *make_device(), alone(), told[0]);
    return told;
  }
  auto ranks = linked_ranks(count, 60);
  for (auto& rank : ranks) rank->let_read(reads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        train(c, *make_device(), *ranks[i], told[i]);
        told[i].reads = ranks[i]->may_read();
        told[i].links = count > 1 && ranks[i]->may_link();
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
    const std::int64_t planned = told.reads ? 0 : told.planned_sent.all();
    const std::int64_t unpadded = told.links ? 128 * 64 * c.slots : 0;  // it sends codes and steps alone
    EXPECT_GE(told.sent, planned - unpadded);
    EXPECT_LT(told.sent, planned + 200'000 * std::ssize(all)) << "counts and statistics";
  }
  std::int64_t state_bytes = 0, read_bytes = 0;
  for (const Told& told : all) {
    state_bytes += told.state_bytes;
    read_bytes += told.read_bytes;
  }
  EXPECT_EQ(read_bytes > 0, all[0].reads);
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

TEST(SlotRanks, RanksInThreadsStoreWhatOneDoes) {
  int row = 0;
  bool reads = false;  // every other time
  for (const SlotCase& c : kCases) {
    if (kSanitized && (c.is_large || ++row % 12 != 1)) continue;
    const Told one = train_on(c, 1, true)[0];
    for (const int count : {2, 3, 4, 8}) {
      if (c.slots % count != 0 || (kSanitized && count > 4)) continue;
      for (const bool both : {false, true}) {
        if (both && !c.is_large) continue;
        reads = !reads;
        SCOPED_TRACE(fmt::format("{}, {} ranks, {}", c.name(), count, reads ? "read" : "sent"));
        expect_same(c, train_on(c, count, reads), one);
        if (::testing::Test::HasFailure()) return;
      }
    }
    reads = !reads;  // the next case begins with the other
  }
}

// When a step is dropped, some gradients are complete. A tensor is complete when its last gradient is folded,
// not while that waits.
TEST(SlotRanks, RanksInThreadsThatDropStepsAndFoldLaterDoTheSame) {
  const SlotCase c = {
      .microbatches = 2, .slots = 2, .clip = 0.1, .is_large = true, .drops = true, .waits = true};
  expect_same(c, train_on(c, 2, false), train_on(c, 1, true)[0]);
}

TEST(SlotRanks, RanksOnEmulatedGpusStoreWhatOneCpuDoes) {
  const SlotCase cases[] = {{.microbatches = 2, .slots = 2, .clip = 0.1},
                            {.preset = "lpmm-compact", .rule = "lion", .microbatches = 2, .slots = 2},
                            {.microbatches = 2, .slots = 2, .stage = 3}};
  for (const SlotCase& c : cases) {
    for (const bool reads : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, {}", c.name(), reads ? "read" : "sent"));
      expect_same(c, train_on(c, 2, reads, on_emulated), train_on(c, 1, true)[0]);
    }
  }
}

// Their bytes go from device to device.
void expect_links_do_the_same(const SlotCase& c, int count, MakeDevice* make_device) {
  SCOPED_TRACE(fmt::format("{}, {} ranks", c.name(), count));
  const std::vector<Told> all = train_on(c, count, false, make_device);
  expect_same(c, all, train_on(c, 1, true)[0]);
  for (const Told& told : all) EXPECT_TRUE(told.links);
}

TEST(SlotRanks, RanksInThreadsWhoseDevicesAreLinkedStoreWhatOneDoes) {
  int row = 0;
  for (const SlotCase& c : kCases) {
    if (kSanitized && (c.is_large || ++row % 12 != 1)) continue;
    for (const int count : {2, 4, 8}) {
      if (c.slots % count != 0 || (kSanitized && count > 2)) continue;
      expect_links_do_the_same(c, count, on_linked);
      if (::testing::Test::HasFailure()) return;
    }
  }
  if (kSanitized) return;
  expect_links_do_the_same(
      {.microbatches = 2, .slots = 2, .clip = 0.1, .is_large = true, .drops = true, .waits = true}, 2,
      on_linked);
}

TEST(SlotRanks, EmulatedGpusThatAreLinkedStoreWhatOneCpuDoes) {
  for (const int stage : {1, 3}) {
    expect_links_do_the_same({.microbatches = 2, .slots = 2, .clip = 0.1, .stage = stage}, 2,
                             on_linked_emulated);
  }
}

// One of them has no library, or cannot open the link: all send by the host, and say so.
TEST(SlotRanks, RanksThatAreNotAllLinkedSendByTheHost) {
  class Unlinked final : public Linked<CpuDevice> {
   public:
    std::unique_ptr<DeviceLink> open_link(std::string_view name, int rank, int ranks) override {
      return rank == 1 ? nullptr : Linked::open_link(name, rank, ranks);
    }
  };
  class Nameless final : public Linked<CpuDevice> {
   public:
    std::string link_name() override { return {}; }
  };
  const SlotCase c = {.microbatches = 2, .slots = 2};
  const Told one = train_on(c, 1, true)[0];
  const auto expect_unlinked = [&](MakeDevice* make_device) {
    const std::vector<Told> all = train_on(c, 2, false, make_device);
    for (const Told& told : all) EXPECT_FALSE(told.links);
    expect_same(c, all, one);
  };
  expect_unlinked([]() -> std::unique_ptr<Device> { return std::make_unique<Unlinked>(); });
  expect_unlinked([]() -> std::unique_ptr<Device> { return std::make_unique<Nameless>(); });
  fail_links(1);
  expect_unlinked(on_linked);
}

// The second one ends in a step, or never comes to its exchange.
TEST(SlotRanks, ALinkThatIsLostOrSilentIsSaid) {
  const SlotCase c = {.microbatches = 2, .slots = 2};
  for (const bool ends : {true, false}) {
    const auto ranks = linked_ranks(2, ends ? 60 : 1);
    for (const auto& rank : ranks) rank->let_read(false);
    std::atomic<bool> has_heard = false;
    const auto step_of = [&](Ranks& own) {
      Linked<CpuDevice> device;
      ModelMemory memory(c.tensors(), c.policy(), c.optimizer(), 7, c.microbatches, device, c.slots, own);
      for (int i = 0; i < memory.tensors(); ++i) memory.initialize(i, 0, initial_of(i));
      Step step = memory.begin_step();
      if (!own.is_first()) {
        while (!ends && !has_heard) std::this_thread::yield();
        throw std::bad_alloc();
      }
      for (int i = memory.tensors(); i-- > 0;) step.fold(i, 0, gradient_of(i, 1, 0), 0);
      (void)std::move(step).commit();
    };
    std::thread second([&] { EXPECT_THROW(step_of(*ranks[1]), std::bad_alloc); });
    try {
      step_of(*ranks[0]);
      ADD_FAILURE() << "nobody was lost";
    } catch (const RankLost& e) {
      EXPECT_EQ(std::string(e.what()),
                ends ? "NCCL: remote process exited or there was a network error "
                       "(NCCL_DEBUG=WARN says more), in step 1 (gradients)"
                     : "another rank has not been heard of for 1 s, in step 1 (gradients)");
    }
    has_heard = true;
    second.join();
  }
}

// The first rank is through with its memory before the second one, who may still read what it owns.
TEST(SlotRanks, MemoryStaysWhileAnotherRankMayReadIt) {
  const SlotCase c = {.microbatches = 2, .slots = 2};
  const auto ranks = linked_ranks(2, 60);
  std::atomic<bool> first_has_none = false, first_ends = false;
  std::atomic<std::int64_t> sent = 0;
  const auto hold = [&](Ranks& own) {
    CpuDevice device(1);
    const ModelMemory memory(c.tensors(), c.policy(), c.optimizer(), 7, c.microbatches, device, c.slots, own);
    if (own.is_first()) {
      sent = own.sent_bytes();
      first_ends = true;
      return;
    }
    // Until it says that it is through, or is gone without a word.
    while (!first_has_none && (!first_ends || ranks[0]->sent_bytes() == sent)) std::this_thread::yield();
    EXPECT_FALSE(first_has_none);
  };
  std::thread second([&] { hold(*ranks[1]); });
  hold(*ranks[0]);
  first_has_none = true;
  second.join();
}

// The second one reads parameters in shares, of which the first one has read none since the last step.
TEST(SlotRanks, ARankThatIsThroughLetsTheOthersRead) {
  const SlotCase c = {.microbatches = 2, .slots = 2, .stage = 3};
  const auto train = [&](Ranks& own) {
    CpuDevice device(1);
    ModelMemory memory(c.tensors(), c.policy(), c.optimizer(), 7, c.microbatches, device, c.slots, own,
                       c.stage);
    for (int i = 0; i < memory.tensors(); ++i) memory.initialize(i, 0, initial_of(i));
    (void)memory.begin_step().commit();
    std::vector<Floats> read;
    for (int i = 0; i < memory.tensors() && (own.size() == 1 || !own.is_first()); ++i)
      read.push_back(read_all(memory, i));
    return read;
  };
  const std::vector<Floats> wanted = train(alone());
  for (const bool reads : {true, false}) {
    const auto ranks = linked_ranks(2, 20);
    for (const auto& rank : ranks) rank->let_read(reads);
    std::thread second([&] { EXPECT_TRUE(train(*ranks[1]) == wanted); });
    train(*ranks[0]);
    second.join();
  }
}

// An initial value changes what another rank reads as its step ends, if that is slower.
TEST(SlotRanks, RanksMeetBetweenAStepAndAnInitialValue) {
  const SlotCase c = {.microbatches = 2, .slots = 2};
  const auto ranks = linked_ranks(2, 60);
  const auto train = [&](Ranks& own) {
    CpuDevice device(1);
    ModelMemory memory(c.tensors(), c.policy(), c.optimizer(), 7, c.microbatches, device, c.slots, own);
    for (const bool follows_a_step : {false, true, false}) {
      if (follows_a_step) (void)memory.begin_step().commit();
      const std::int64_t sent = own.sent_bytes();
      memory.initialize(2, 0, initial_of(2));
      EXPECT_EQ(own.sent_bytes() > sent, follows_a_step);
    }
  };
  std::thread second([&] { train(*ranks[1]); });
  train(*ranks[0]);
  second.join();
}

// Devices whose memory others cannot name, or find something else at its name.
class Unnamed final : public CpuDevice {
 public:
  Unnamed() : CpuDevice(1) {}
  std::string peer_name(const std::byte* /*memory*/) override { return {}; }
};
class Misnamed final : public CpuDevice {
 public:
  Misnamed() : CpuDevice(1), other_(allocate(1 << 16)) {}
  std::string peer_name(const std::byte* /*memory*/) override { return CpuDevice::peer_name(other_.get()); }

 private:
  DeviceMemory other_;
};

// The first of two does not reach the other's memory, which reaches its own.
class OnceBlind final : public kernels::EmulatedCuda {
 public:
  OnceBlind() : EmulatedCuda(1), blind_(made_++ % 2 == 0) {}
  std::unique_ptr<PeerMemory> open_peer(std::string_view name) override {
    return blind_ ? nullptr : EmulatedCuda::open_peer(name);
  }

 private:
  static inline std::atomic<int> made_ = 0;
  bool blind_;
};

TEST(SlotRanks, RanksThatCannotReadSend) {
  const SlotCase c = {.microbatches = 2, .slots = 2, .stage = 3};
  const std::vector<Told> one = train_on(c, 1, true);
  for (MakeDevice* make_device :
       {+[]() -> std::unique_ptr<Device> { return std::make_unique<Unnamed>(); },
        +[]() -> std::unique_ptr<Device> { return std::make_unique<Misnamed>(); },
        +[]() -> std::unique_ptr<Device> { return std::make_unique<OnceBlind>(); }}) {
    std::vector<Told> all = train_on(c, 2, true, make_device);
    for (Told& told : all) EXPECT_FALSE(std::exchange(told.reads, false));
    expect_same(c, all, one[0]);
  }
}

}  // namespace
}  // namespace lpmm
