// `lpmm ablate --quick`: every part leaves its table and plots.
#include <algorithm>

#include "tests/experiments/program.h"

namespace lpmm {
namespace {

class AblationTest : public ProgramTest {};

std::int64_t lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST_F(AblationTest, QuickRunLeavesTablesAndPlots) {
  const Outcome run = run_lpmm({"ablate", "--quick", "--out", path("out")});
  ASSERT_EQ(run.code, 0) << run.err;
  for (const char* part : {"quadratic", "momentum", "logistic", "steps", "variance", "quantiles",
                           "update_error", "lion_signs"}) {
    for (const char* extension : {".csv", ".gp", ".png"}) {
      EXPECT_TRUE(std::filesystem::exists(path("out/" + std::string(part) + extension))) << part << extension;
    }
  }
  EXPECT_EQ(lines(read_file(path("out/quadratic.csv"))), 18);
  EXPECT_EQ(lines(read_file(path("out/momentum.csv"))), 17);
  EXPECT_EQ(lines(read_file(path("out/logistic.csv"))), 3);
  EXPECT_EQ(lines(read_file(path("out/steps.csv"))), 7);
  EXPECT_EQ(lines(read_file(path("out/variance.csv"))), 10);
  EXPECT_EQ(lines(read_file(path("out/quantiles.csv"))), 19);
  // Three moments; of the variance 30 formats, 22 of them with two more roundings, of the momentum 18; of
  // each four other ways.
  EXPECT_EQ(lines(read_file(path("out/update_error.csv"))), 1 + 3 * (30 * 2 + 2 * 22 + 18 * 2 + 2 * 4));
  EXPECT_GT(lines(read_file(path("out/lion_signs.csv"))), 50);
}

TEST_F(AblationTest, UnknownPartsAreRefused) {
  expect_failure(run_lpmm({"ablate", "--parts", "all", "--out", path("out")}), 2, {"all", "quadratic"});
}

}  // namespace
}  // namespace lpmm
