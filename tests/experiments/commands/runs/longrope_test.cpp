// A model with LongRoPE from its settings on: trained, and texts that grow beyond its first context.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/experiments/program.h"

namespace lpmm {
namespace {

class LongRopeProgram : public ProgramTest {};

// Each token is the likeliest after the whole text before it, read at once: all that was kept is rotated
// anew where the text grows beyond 16 tokens.
TEST_F(LongRopeProgram, ATextGrowsBeyondTheFirstContext) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "abcdefgh"[(i * i + i / 3) % 8];
  const std::string config = write("c.toml", R"(
[model]
name = "llama"
joined = true
layers = 2
heads = 2
embedding = 16
mlp_width = 24
context = 48
rope_context = 16
rope_short = [1.0, 1.3, 2]
rope_long = [4, 30.0, 77.5]
rope_width = 6
rope_magnitude = 1.2
[data]
set = "text"
path = ")" + write("text.txt", text) + R"("
length = 24
validation_share = 0.25
[train]
steps = 30
batch = 4
compute = "fp32"
[optimizer]
rule = "adamw"
learning_rate = 0.02
[memory]
preset = "lpmm"
)");
  const Outcome run = run_lpmm({"train", config, "--out", path("run"), "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const Outcome sample = run_lpmm(
      {"sample", path("run"), "--prompt", "abcdefgh", "--tokens", "24", "--temperature", "0", "--json"});
  ASSERT_EQ(sample.code, 0) << sample.err;
  const auto ids = sample.json()["ids"].get<std::vector<int>>();
  ASSERT_EQ(ids.size(), 32U);
  for (const std::size_t length : {9, 15, 16, 17, 18, 24, 31}) {
    std::string given;
    for (std::size_t i = 0; i < length; ++i) given += (i == 0 ? "" : ",") + std::to_string(ids[i]);
    const Outcome logits = run_lpmm({"logits", path("run"), "--ids", given, "--json"});
    ASSERT_EQ(logits.code, 0) << logits.err;
    const auto last = logits.json()["logits"].back().get<std::vector<double>>();
    EXPECT_EQ(std::ranges::max_element(last) - last.begin(), ids[length]) << length;
  }
}

}  // namespace
}  // namespace lpmm
