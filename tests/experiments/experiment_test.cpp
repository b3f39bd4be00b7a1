// `lpmm experiment` in miniature.
#include <algorithm>
#include <sstream>

#include "tests/experiments/program.h"
#include "tests/sanitized.h"

namespace lpmm {
namespace {

class ExperimentTest : public ProgramTest {};

const std::string kConfigs = std::string(LPMM_SOURCE_DIR) + "/experiments/configs";

std::vector<std::vector<std::string>> read_csv(const std::string& path) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

TEST_F(ExperimentTest, MemoryPlansMeasuresAndFills) {
  const Outcome run =
      run_lpmm({"experiment", "memory", "--models", "resnet20", "--presets", "lpmm-min,fp32", "--gigabytes",
                "1", "--configs", kConfigs, "--threads", "2", "--out", path("out")});
  ASSERT_EQ(run.code, 0) << run.err;
  const auto memory = read_csv(path("out/memory.csv"));
  ASSERT_EQ(memory.size(), 3U);
  const auto column = [&](const char* name) {
    return static_cast<std::size_t>(std::find(memory[0].begin(), memory[0].end(), name) - memory[0].begin());
  };
  for (std::size_t row = 1; row < 3; ++row) {
    ASSERT_EQ(memory[row].size(), memory[0].size());
    const double planned = std::stod(memory[row][column("planned_peak_bytes")]);
    const double measured = std::stod(memory[row][column("measured_peak_bytes")]);
    // Sanitizers have memory of their own.
    if (!kSanitized) {
      EXPECT_NEAR(measured, planned, std::max(0.1 * planned, 16e6)) << memory[row][1];
    }
  }
  EXPECT_NEAR(std::stod(memory[1][column("bits_per_parameter")]), 16.95, 0.01);
  // More fits packed than in fp32, in SGD and in AdamW.
  const auto largest = read_csv(path("out/largest.csv"));
  ASSERT_EQ(largest.size(), 5U);
  for (const std::size_t row : {1U, 3U}) {
    EXPECT_EQ(largest[row][2], "lpmm-min");
    EXPECT_EQ(largest[row + 1][2], "fp32");
    for (const std::size_t parameters : {5U, 7U}) {
      EXPECT_GT(std::stod(largest[row][parameters]), 1.5 * std::stod(largest[row + 1][parameters]));
    }
  }
  EXPECT_TRUE(std::filesystem::exists(path("out/memory.png")));
  EXPECT_TRUE(std::filesystem::exists(path("out/memory.svg")));
}

TEST_F(ExperimentTest, BadNamesAreRefused) {
  expect_failure(run_lpmm({"experiment", "memry"}), 2, {"memry", "memory"});
  expect_failure(
      run_lpmm({"experiment", "memory", "--models", "vgg*", "--configs", kConfigs, "--out", path("out")}), 2,
      {"vgg*", "resnet20"});
  expect_failure(run_lpmm({"experiment", "memory", "--presets", "lpmm-mini", "--configs", kConfigs, "--out",
                           path("out")}),
                 2, {"lpmm-mini", "lpmm-min"});
  expect_failure(run_lpmm({"experiment", "memory", "--presets", "", "--out", path("out")}), 2, {"--presets"});
  expect_failure(run_lpmm({"experiment", "memory", "--configs", path("none"), "--out", path("out")}), 2,
                 {"--configs", "none"});
  expect_failure(run_lpmm({"experiment", "memory", "--quick", "--gigabytes", "6", "--out", path("out")}), 2,
                 {"--quick", "--gigabytes"});
  expect_failure(run_lpmm({"experiment", "memory", "--configs", kConfigs, "--out", write("file", "x")}), 1,
                 {"file"});
}

}  // namespace
}  // namespace lpmm
