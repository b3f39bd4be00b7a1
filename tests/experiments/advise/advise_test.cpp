// `lpmm advise`: its forecasts against what a packed run then does, and bad input.
#include <cmath>
#include <map>
#include <sstream>

#include "tests/experiments/program.h"

namespace lpmm {
namespace {

class AdviseTest : public ProgramTest {};

const std::string kConfig = std::string(LPMM_SOURCE_DIR) + "/experiments/configs/gpt_tiny_embedded.toml";

std::vector<std::string> with(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Mean share of parameter updates that a run of the same steps lost, while the rate was at its peak: of all,
// and of each tensor.
struct Underflow {
  double all = 0;
  std::map<std::string, double> tensors;
};
Underflow measured_underflow(const std::string& folder, int from) {
  std::istringstream lines(read_file(folder + "/log.jsonl"));
  Underflow sum;
  double count = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record["type"] != "underflow" || record["step"].get<int>() <= from) continue;
    sum.all += record["roles"]["parameter"]["share"].get<double>();
    for (const auto& [name, roles] : record["tensors"].items())
      sum.tensors[name] += roles["parameter"]["share"].get<double>();
    count += 1;
  }
  sum.all /= count;
  for (auto& [name, share] : sum.tensors) share /= count;
  return sum;
}

TEST_F(AdviseTest, UnderflowIsWhatARunThenShows) {
  for (const char* spec : {"int8:block128:sr:sticky", "int10:block256:sr:sticky"}) {
    const std::vector<std::string> common = {"--preset", "fp32", "--set",
                                             std::string("memory.parameter=") + spec};
    const Outcome advice = run_lpmm(with({"advise", kConfig, "--steps", "100", "--json"}, common));
    ASSERT_EQ(advice.code, 0) << advice.err;
    const std::string out = path(spec);
    const Outcome run = run_lpmm(
        with({"train", kConfig, "--quiet", "--out", out, "--set", "train.steps=100", "--set",
              "schedule.kind=constant", "--set", "schedule.warmup_steps=50", "--set",
              "log.underflow_every_steps=5", "--set", "log.tensors=all", "--set", "checkpoint.final=false"},
             common));
    ASSERT_EQ(run.code, 0) << run.err;
    const auto forecast = advice.json();
    const Underflow measured = measured_underflow(out, 50);
    EXPECT_NEAR(forecast["underflow"].get<double>(), measured.all, 0.02) << spec;
    ASSERT_EQ(forecast["tensors"].size(), 10U);
    for (const auto& row : forecast["tensors"]) {
      const auto name = row["name"].get<std::string>();
      EXPECT_NEAR(row["underflow"].get<double>(), measured.tensors.at(name), 0.05) << spec << " " << name;
    }
  }
}

// Fewer bits and lower rates make rounding matter more, more microbatches fold more noise; the advice
// follows.
TEST_F(AdviseTest, MovesAsTheorySays) {
  const auto advise = [&](const std::vector<std::string>& more) {
    const Outcome out = run_lpmm(with({"advise", kConfig, "--steps", "8", "--json"}, more));
    EXPECT_EQ(out.code, 0) << out.err;
    return out.json();
  };
  const auto wide = advise({"--preset", "lpmm"}), narrow = advise({"--preset", "lpmm-min"});
  EXPECT_LT(wide["floor_growth"], narrow["floor_growth"]);
  EXPECT_LT(wide["underflow"], narrow["underflow"]);
  EXPECT_LT(wide["fold_noise"], narrow["fold_noise"]);
  EXPECT_LT(wide["advice"]["least_learning_rate"], narrow["advice"]["least_learning_rate"]);
  EXPECT_EQ(wide["advice"]["parameter"], narrow["advice"]["parameter"]);  // decided by the network alone
  EXPECT_EQ(wide["tensors"].size(), 10U);
  const auto slow = advise({"--preset", "lpmm-min", "--set", "optimizer.learning_rate=3e-5"});
  EXPECT_GT(slow["floor_growth"], narrow["floor_growth"]);
  const auto cut = advise({"--preset", "lpmm-min", "--set", "train.microbatches=8"});
  EXPECT_GT(cut["fold_noise"], narrow["fold_noise"]);
  // Nothing to say of parameters that are not packed, and of floors and folds with rn.
  const auto plain = advise({"--preset", "fp32"});
  EXPECT_TRUE(plain["underflow"].is_null());
  EXPECT_EQ(plain["fold_noise"], 0);
  const auto nearest = advise({"--preset", "lpmm-min", "--rounding", "rn"});
  EXPECT_GT(nearest["underflow"], narrow["underflow"]);
  for (const char* key : {"floor_growth", "fold_noise"}) EXPECT_TRUE(nearest[key].is_null()) << key;
  for (const char* key : {"most_microbatches", "least_learning_rate"})
    EXPECT_TRUE(nearest["advice"][key].is_null()) << key;
  EXPECT_EQ(nearest["advice"]["parameter"], narrow["advice"]["parameter"]);
  EXPECT_TRUE(
      advise({"--preset", "lpmm-min", "--set", "memory.error_feedback=true"})["floor_growth"].is_null());
  const auto kept = advise({"--preset", "lpmm-min", "--set", "memory.compensation=int4:block128:sr"});
  for (const char* key : {"underflow", "floor_growth"}) EXPECT_TRUE(kept[key].is_null()) << key;
  const auto folded =
      advise({"--preset", "fp32", "--set", "optimizer.rule=sgd", "--set", "optimizer.momentum=0.9", "--set",
              "optimizer.clip_norm=0", "--set", "memory.accumulator=momentum"});
  EXPECT_TRUE(folded["fold_noise"].is_null() && folded["advice"]["accumulator"].is_null());
  // Draws that keep their distance make less noise of the same grid.
  const auto spread = advise({"--preset", "lpmm-min", "--set", "memory.parameter=int8:block128:qr:sticky"});
  EXPECT_LT(spread["floor_growth"], narrow["floor_growth"]);
  EXPECT_GT(spread["floor_growth"].get<double>(), 1);
  EXPECT_TRUE(
      advise({"--preset", "lpmm-min", "--set", "memory.parameter=int8:block128:qr:moving"})["floor_growth"]
          .is_null());
  // Updates well below a step: a grid that moves makes more noise.
  const auto sticky = advise({"--preset", "lpmm", "--set", "memory.parameter=int4:block128:sr:sticky"});
  const auto moving = advise({"--preset", "lpmm", "--set", "memory.parameter=int4:block128:sr:moving"});
  EXPECT_GT(moving["floor_growth"], sticky["floor_growth"]);
  // Tensors as overrides store them; exempt ones are not spoken of.
  const std::string config =
      write("override.toml",
            read_file(kConfig) +
                "\n[[memory.override]]\npattern = \"wte.*\"\nexempt = true\n[[memory.override]]\npattern = "
                "\"h.0.mlp.*weight\"\nparameter = \"int3:block128:sr:sticky\"\n");
  const Outcome out = run_lpmm({"advise", config, "--steps", "8", "--json", "--preset", "lpmm"});
  ASSERT_EQ(out.code, 0) << out.err;
  const auto tensors = out.json()["tensors"];
  ASSERT_EQ(tensors.size(), 9U);
  for (const auto& row : tensors) {
    EXPECT_EQ(row["underflow"].get<double>() > 0.2, row["name"].get<std::string>().starts_with("h.0.mlp"))
        << row;
  }
}

TEST_F(AdviseTest, BadInputIsRefused) {
  expect_failure(run_lpmm({"advise", path("none.toml")}), 2, {"none.toml"});
  expect_failure(run_lpmm({"advise", kConfig, "--steps", "3"}), 2, {"--steps"});
  expect_failure(run_lpmm({"advise", kConfig, "--set", "train.batch=5"}), 2, {"train.batch", "5"});
  const std::string config = write(
      "override.toml", read_file(kConfig) + "\n[[memory.override]]\npattern = \"nobody.*\"\nexempt = true\n");
  expect_failure(run_lpmm({"advise", config, "--steps", "4"}), 2, {"nobody"});
  expect_failure(run_lpmm({"advise", kConfig, "--steps", "4", "--set", "memory.min_elements=100000000"}), 2,
                 {"nothing to advise", "memory.min_elements = 100000000", "one dimension"});
  expect_failure(run_lpmm({"advise", kConfig, "--steps", "4", "--set", "optimizer.learning_rate=1e30"}), 1,
                 {"learning rate"});
}

}  // namespace
}  // namespace lpmm
