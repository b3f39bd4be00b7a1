// Every format that a role may take comes back from a checkpoint, and training goes on from it alike.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/cpu.h"
#include "lpmm/base/error.h"
#include "lpmm/run/checkpoint.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

constexpr std::int64_t kElements = 700;

// It has every role, and schedules that go on by the number of updates.
OptimizerConfig scheduled_ademamix() {
  OptimizerConfig optimizer;
  optimizer.rule = "ademamix";
  optimizer.settings["slow_weight_warmup"] = optimizer.settings["beta3_warmup"] = 4;
  return optimizer;
}

struct OneWeight {
  CpuDevice device{1};
  ModelMemory memory;
  Buffers buffers{{}, device};

  explicit OneWeight(const Policy& policy)
      : memory({{"weight", {7, kElements / 7}}}, policy, scheduled_ademamix(), 5, 1, device) {
    memory.initialize(0, 0, values(0));
  }
  static std::vector<float> values(std::uint32_t step) {
    std::vector<float> v(kElements);
    const Noise noise{1, 0, step, static_cast<std::uint32_t>(Stream::kTest)};
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] = (static_cast<float>(noise_draw(noise, static_cast<std::int64_t>(i))) - 32767.5F) * 1e-5F;
    }
    return v;
  }
  void train(std::uint32_t step) {
    Step this_step = memory.begin_step({step, 0.01});
    this_step.fold(0, 0, values(step), 0);
    EXPECT_TRUE(std::move(this_step).commit().applied);
  }
  std::vector<float> decoded() const {
    std::vector<float> v(kElements);
    memory.decode(0, 0, v);
    return v;
  }
};

void expect_comes_back(const Policy& policy, const std::string& what) {
  check_policy(policy, OptimizerConfig(), {});
  OneWeight saved(policy);
  const std::vector<float> start = saved.decoded();
  for (std::uint32_t step = 1; step <= 2; ++step) saved.train(step);
  EXPECT_NE(saved.decoded(), start) << what;
  const Scratch scratch;
  const std::string path = save_checkpoint(scratch / "c", 2, "net", saved.memory, saved.buffers, {}, 2);
  OneWeight loaded(policy);
  load_checkpoint(path, "net", loaded.memory, loaded.buffers);
  EXPECT_EQ(loaded.decoded(), saved.decoded()) << what;
  saved.train(3);
  loaded.train(3);
  EXPECT_EQ(loaded.decoded(), saved.decoded()) << what;
  std::int64_t bytes = 0;
  for (const CheckpointTensor& t : inspect_checkpoint(path).tensors) bytes += t.bytes;
  const Ledger ledger = saved.memory.ledger();
  EXPECT_EQ(bytes, ledger.model_memory() - ledger.role_bytes(Role::kAccumulator)) << what;
}

TEST(Checkpoint, EveryFormatComesBackAndGoesOn) {
  for (const Format format : all_formats()) {
    Policy policy = make_policy("lpmm");
    const bool is_share = format.map == Map::kUlp;  // a share of what rounding to bf16 can take
    if (is_share) policy.specs[Role::kParameter] = parse_spec("bf16:rn");
    for (const Role role : kEveryElementRole) {
      if (is_share && role != Role::kCompensation) continue;
      const bool never_negative = !kRoleRows[role].is_signed;
      if (is_packed(format) && is_signed(format.map) == never_negative) continue;
      policy.specs[role] = parse_spec(to_string(format));
    }
    expect_comes_back(policy, to_string(format));
  }
}

TEST(Checkpoint, StepsOfRowsAndInFp32ComeBackAndGoOn) {
  for (const char* const scaling :
       {"row", "rank1", "row:step32", "rank1:step32", "block64:step32", "block64:step32:floored"}) {
    Policy policy = make_policy("lpmm");
    for (const Role role : {Role::kMomentum, Role::kSlowMomentum}) {
      policy.specs[role] = parse_spec(std::string("de4:rn:") + scaling);
    }
    policy.specs[Role::kVariance] = parse_spec(std::string("lin04:rn:") + scaling);
    expect_comes_back(policy, scaling);
  }
}

}  // namespace
}  // namespace lpmm
