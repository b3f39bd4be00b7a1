// `lpmm quantize` with code books and tables, and `lpmm bench quantiles`.
#include <cmath>
#include <cstring>

#include "lpmm/files/files.h"
#include "lpmm/files/npy.h"
#include "tests/experiments/program.h"
#include "tests/normal_values.h"

namespace lpmm {
namespace {

using nlohmann::json;

class CodeBooks : public ProgramTest {
 protected:
  std::string array(const std::string& name, const std::vector<float>& values) const {
    NewFile file(path(name));
    write_npy_header(file.file(), "<f4", std::vector<std::int64_t>{std::ssize(values)});
    file.file().write(std::as_bytes(std::span(values)));
    file.keep();
    return path(name);
  }
  static std::vector<float> floats_of(const std::string& npy) {
    const std::size_t start =
        10 + static_cast<unsigned char>(npy[8]) + 256U * static_cast<unsigned char>(npy[9]);
    std::vector<float> values((npy.size() - start) / sizeof(float));
    std::memcpy(values.data(), npy.data() + start, values.size() * sizeof(float));
    return values;
  }
};

TEST_F(CodeBooks, ErrorsAreThoseOfWhatIsWritten) {
  std::vector<float> values = normal_values(5000, 1);
  values[100] = 6;
  std::fill(values.begin() + 128, values.begin() + 192, 0.0F);
  const Outcome outcome = run_lpmm({"quantize", array("x.npy", values), "--spec", "quantile4:block64",
                                    "--json", "--decoded", path("d.npy"), "--codes", path("c.npy")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<float> decoded = floats_of(read_file(path("d.npy")));
  ASSERT_EQ(decoded.size(), values.size());
  double sum = 0, squares = 0, error = 0, tail = 0;
  for (const float v : values) {
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  const double deviation = std::sqrt(squares / 5000 - sum / 5000 * sum / 5000);
  int in_tail = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += std::abs(static_cast<double>(decoded[i]) - values[i]);
    if (std::abs(values[i]) <= 3 * deviation) continue;
    ++in_tail;
    tail += std::abs(static_cast<double>(decoded[i]) - values[i]);
  }
  const json answer = outcome.json();
  EXPECT_EQ(answer["spec"], "quantile4:block64:rn");
  EXPECT_NEAR(answer["mean_abs_error"].get<double>(), error / 5000, 1e-9);
  ASSERT_GT(in_tail, 1);
  EXPECT_NEAR(answer["tail_abs_error"].get<double>(), tail / in_tail, 1e-9);
  EXPECT_DOUBLE_EQ(answer["tail_share"], in_tail / 5000.0);
  EXPECT_NEAR(answer["bits_per_element"].get<double>(), 4 + (16 * 79 + 32 * 16) / 5000.0, 1e-9);
  EXPECT_EQ(decoded[100], 6.0F);  // a block's largest is exact where bf16 holds it
  EXPECT_EQ(decoded[150], 0.0F);
  EXPECT_EQ(answer["zeroed_share"], 0);
  EXPECT_EQ(std::filesystem::file_size(path("c.npy")), 128 + 5000);
}

TEST_F(CodeBooks, SeveralSpecsMakeATable) {
  const std::string file = array("x.npy", normal_values(100000, 1, 0.01F));
  std::vector<std::string> arguments = {"quantize", file};
  for (const char* spec : {"quantile8:block2048", "de8:block2048:rn", "soft8:block2048:rn"}) {
    arguments.insert(arguments.end(), {"--spec", spec});
  }
  const Outcome table = run_lpmm(arguments);
  ASSERT_EQ(table.code, 0) << table.err;
  for (const char* word :
       {"tail_abs_error", "quantile8:block2048:rn ", "soft8:block2048:rn ", "tail: 0.00"}) {
    EXPECT_NE(table.out.find(word), std::string::npos) << word << "\n" << table.out;
  }
  arguments.emplace_back("--json");
  const json rows = run_lpmm(arguments).json()["rows"];
  ASSERT_EQ(rows.size(), 3);
  EXPECT_LT(rows[0]["mean_abs_error"], rows[1]["mean_abs_error"]);  // quantile below de8
  EXPECT_GT(rows[0]["tail_abs_error"], rows[1]["tail_abs_error"]);  // but not in the tail
  EXPECT_LT(rows[2]["mean_abs_error"], rows[0]["mean_abs_error"]);
  const Outcome alone = run_lpmm({"quantize", file, "--spec", "de8:block2048:rn", "--json"});
  EXPECT_EQ(alone.json(), rows[1]);
  arguments.insert(arguments.end(), {"--codes", path("c.npy")});
  expect_failure(run_lpmm(arguments), 2, {"--codes", "one --spec"});
}

TEST_F(CodeBooks, BadRequestsAreRefused) {
  EXPECT_NE(run_lpmm({"quantize", "--help"}).out.find("rn|sr|qr|ur|ar"), std::string::npos);
  const std::string file = array("x.npy", {1, -1, 3});
  for (const char* spec :
       {"quantile08", "quantile8:rn:rn", "quantile8:block64:block64", "quantile8:block064", "quantile"}) {
    expect_failure(run_lpmm({"quantize", file, "--spec", spec}), 2, {spec, "quantileN"});
  }
  expect_failure(run_lpmm({"quantize", file, "--spec", "quantile9"}), 2, {"quantile9", "quantileN"});
  expect_failure(run_lpmm({"quantize", file, "--spec", "quantile8:sr"}), 2, {"sr", ":rn"});
  expect_failure(run_lpmm({"quantize", file, "--spec", "int8", "--spec", "uquantile8"}), 1,
                 {"element 1", "uquantile8 is unsigned", "quantileN"});
  expect_failure(run_lpmm({"quantize", array("nan.npy", {1, NAN}), "--spec", "quantile8"}), 1, {"element 1"});
}

TEST(BenchQuantiles, SaysTimesAndRankErrors) {
  for (const char* device : {"cpu", "cuda-emulated"}) {
    const Outcome outcome = run_lpmm({"bench", "quantiles", "--from", "16384", "--to", "65536", "--threads",
                                      "1", "--device", device, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json rows = outcome.json()["rows"];
    ASSERT_EQ(rows.size(), 10);
    for (const json& row : rows) {
      const std::string method = row["method"];
      EXPECT_GT(row["nanoseconds_per_value"], 0) << row;
      const double error = row["rank_error"];
      if (method == "tiles") {
        EXPECT_TRUE(error > 0 && error < 0.005) << row;
      } else if (method == "histogram") {
        EXPECT_TRUE(error > 0 && error < 0.005) << row;
      } else {
        EXPECT_EQ(error, 0) << row;
      }
    }
    EXPECT_EQ(rows[0]["method"], "std::sort");
    EXPECT_EQ(rows[0]["speed_against_sort"], 1);
    EXPECT_EQ(rows[9]["values"], 65536);
  }
  const Outcome table = run_lpmm({"bench", "quantiles", "--from", "4096", "--to", "4096", "--threads", "1"});
  EXPECT_NE(table.out.find("histogram, exact"), std::string::npos) << table.out;
  expect_failure(run_lpmm({"bench", "quantiles", "--from", "4096", "--to", "2048"}), 2, {"--from"});
  expect_failure(run_lpmm({"bench", "quantiles", "--from", "10"}), 2, {"--from"});
}

}  // namespace
}  // namespace lpmm
