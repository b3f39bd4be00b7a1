// `lpmm plot` on logs written by hand.
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

class PlotTest : public ProgramTest {
 protected:
  // A run of 40 steps; `share` is the underflow share of its parameters, loss ends at `loss`.
  std::string run(const std::string& name, double loss, double share, bool ended = true) const {
    fs::create_directory(path(name));
    std::ofstream log(path(name + "/log.jsonl"));
    using Json = nlohmann::json;
    log << Json{{"type", "config"}, {"preset", "lpmm"}} << '\n';
    for (int step = 1; step <= 40; ++step) {
      log << Json{{"type", "step"}, {"step", step}, {"loss", loss + 40 - step}} << '\n';
      if (step % 10 != 0) continue;
      log << Json{{"type", "eval"}, {"step", step}, {"accuracy", 0.02 * step}} << '\n';
      const Json roles = {{"parameter", {{"share", share}}}, {"momentum", {{"share", share / 2}}}};
      log << Json{{"type", "underflow"}, {"step", step}, {"roles", roles}} << '\n';
    }
    if (!ended) return path(name);
    log << Json{{"type", "summary"},
                {"final_loss", loss},
                {"test_accuracy", 0.8},
                {"bits_per_parameter", 28.5},
                {"model_memory_bytes",
                 {{"parameter", 1234567},
                  {"accumulator", 400},
                  {"momentum", 300},
                  {"variance", 0},
                  {"exempt", 20},
                  {"buffers", 10},
                  {"total", 1235297}}},
                {"interrupted", false},
                {"peak_rss_bytes", 30 << 20},
                {"rss_at_start_bytes", 10 << 20},
                {"plan_peak_bytes", 21 << 20},
                {"images_per_second", 512.4},
                {"underflow", {{"parameter", share}, {"momentum", share / 2}}}}
        << '\n';
    return path(name);
  }
};

bool has_gnuplot() {
  std::string folders = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    if (fs::exists(fs::path(folders.substr(at, end - at)) / "gnuplot")) return true;
    at = end + 1;
  }
  return false;
}

TEST_F(PlotTest, WritesBothPictures) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const Outcome outcome = run_lpmm({"plot", run("a", 1, 0.1), run("b", 2, 0.9) + "/log.jsonl", "--label",
                                    "first", "--label", "second", "--out", path("made/picture"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.json()["png"], path("made/picture.png"));
  EXPECT_EQ(read_file(path("made/picture.png")).substr(0, 8), "\x89PNG\r\n\x1a\n");
  const std::string svg = read_file(path("made/picture.svg"));
  for (const char* text : {"first", "second", "training loss", "test accuracy", "underflow, parameter",
                           "underflow, momentum", "cross entropy (nats)", "increments lost (%)"}) {
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(svg.find("underflow, variance"), std::string::npos);  // no run has one
}

TEST_F(PlotTest, NothingInALabelOrAPathIsRun) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const std::string bait = path("bait"), touch = "system(\"touch " + bait + "\")";
  const std::string folder =
      run("a'; `touch " + fs::path(bait).filename().string() + "` $(touch x) #", 1, 0.5);
  const std::vector<std::string> labels = {"'; " + touch + "; '", "`touch " + bait + "`", "@x \\",
                                           "a\n" + touch, "\"\n'"};
  for (const std::string& label : labels) {
    const Outcome outcome =
        run_lpmm({"plot", folder, "--label=" + label, "--out", folder + "/p'; touch bait"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  EXPECT_TRUE(fs::exists(folder + "/p'; touch bait.svg"));
  EXPECT_FALSE(fs::exists(bait));
  EXPECT_FALSE(fs::exists("bait"));
}

TEST_F(PlotTest, MissingGnuplotIsSaid) {
  Surroundings without;
  without.environment["PATH"] = "/nonexistent";
  expect_failure(run_lpmm({"plot", run("a", 1, 0.1), "--out", path("p")}, without), 1,
                 {"gnuplot cannot be started", "gnuplot-nox"});
}

TEST_F(PlotTest, TableHasARunAColumn) {
  const Outcome outcome = run_lpmm(
      {"plot", run("a", 1.25, 0.1), run("b", 2, 0.9), "--label", "fp32", "--label", "a|b", "--table"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* line :
       {"|      fp32 |       a b |", "| bits per parameter    |     28.50 |     28.50 |",
        "| parameter, bytes      | 1,234,567 | 1,234,567 |", "| total, bytes          | 1,235,297 |",
        "| final training loss   |    1.2500 |    2.0000 |", "| test accuracy         |   80.00 % |",
        "| underflow, parameter  |   10.00 % |   90.00 % |", "| underflow, momentum   |    5.00 % |",
        "| peak memory, planned  |  21.0 MiB |", "| peak memory, measured |  20.0 MiB |"}) {
    EXPECT_NE(outcome.out.find(line), std::string::npos) << line << " in\n" << outcome.out;
  }
  EXPECT_EQ(outcome.out.find("variance"), std::string::npos);
}

TEST_F(PlotTest, BadInputIsNamed) {
  expect_failure(run_lpmm({"plot", path("nowhere"), "--table"}), 1, {"nowhere"});
  expect_failure(run_lpmm({"plot", run("open", 1, 0, false), "--table"}), 1, {"open", "not ended"});
  fs::create_directory(path("stopped"));
  write("stopped/log.jsonl", "{\"type\":\"summary\",\"interrupted\":true,\"error\":\"disk full\"}\n");
  expect_failure(run_lpmm({"plot", path("stopped"), "--table"}), 1, {"stopped", "disk full", "--resume"});
  fs::create_directory(path("bad"));
  write("bad/log.jsonl", "{\"type\":\"step\",\"step\":1}\n[1, 2\n");
  expect_failure(run_lpmm({"plot", path("bad"), "--out", path("p")}), 1, {"log.jsonl:2"});
  write("bad/log.jsonl", "{\"type\":\"config\"}\n");
  expect_failure(run_lpmm({"plot", path("bad"), "--out", path("p")}), 1, {"nothing to plot"});
  expect_failure(run_lpmm({"plot", run("a", 1, 0), "--label", "x", "--label", "y", "--table"}), 2,
                 {"2 labels"});
  expect_failure(run_lpmm({"plot", path("a")}), 2, {"--out", "--table"});
}

// Values of another type than expected are left out, not trusted.
TEST_F(PlotTest, HostileValuesAreSkipped) {
  fs::create_directory(path("odd"));
  write("odd/log.jsonl",
        "{\"type\":\"step\",\"step\":1,\"loss\":\"1; "
        "system()\"}\n{\"type\":\"step\",\"step\":\"x\",\"loss\":1}\n"
        "{\"type\":\"step\",\"step\":2,\"loss\":null}\n{\"type\":\"underflow\",\"step\":2,\"roles\":[1]}\n"
        "{\"type\":\"underflow\",\"step\":2,\"roles\":{\"parameter\":3}}\n"
        "{\"type\":\"summary\",\"final_loss\":[],\"model_memory_bytes\":7}\n");
  expect_failure(run_lpmm({"plot", path("odd"), "--out", path("p")}), 1, {"nothing to plot"});
  EXPECT_EQ(run_lpmm({"plot", path("odd"), "--table"}).code, 0);
}

}  // namespace
}  // namespace lpmm
