// `lpmm data get`, against a server of a few lines on loopback.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "experiments/download/data_sets.h"
#include "lpmm/data/image_sets.h"
#include "tests/experiments/download/server.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

class DataGet : public ProgramTest {
 protected:
  Outcome get(std::vector<std::string> arguments, Surroundings surroundings = {}) const {
    arguments.insert(arguments.begin(), {"data", "get"});
    surroundings.environment.insert({{"no_proxy", "127.0.0.1"}, {"LPMM_DATA", path("data")}});
    return run_lpmm(arguments, surroundings);
  }
};

TEST_F(DataGet, OfflineIsOneLine) {
  const Port closed;
  const Outcome outcome = get({"gpt2-bpe", "--mirror", closed.url() + "/", "--json"});
  expect_failure(
      outcome, 1,
      {closed.url() + "/encoder.json", "by hand: put encoder.json, vocab.bpe into " + path("data/gpt2-bpe")});
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  // Without LPMM_DATA it is the folder in HOME, which need not exist.
  const Outcome home =
      get({"cifar10", "--mirror", closed.url()}, {{{"LPMM_DATA", ""}, {"HOME", path("home")}}});
  expect_failure(
      home, 1,
      {"into " + path("home/.cache/lpmm/cifar-10-batches-bin") + " (cifar-10-binary.tar.gz holds them)"});
  // A password given with the address is not shown.
  std::string secret = closed.url();
  secret.insert(secret.find("://") + 3, "me:secret@");
  const Outcome hidden = get({"gpt2-bpe", "--mirror", secret});
  expect_failure(hidden, 1, {closed.url() + "/encoder.json"});
  EXPECT_EQ(hidden.err.find("secret"), std::string::npos) << hidden.err;
  const Outcome to = get({"wikitext2", "--mirror", closed.url(), "--to", path("elsewhere")});
  expect_failure(to, 1, {path("elsewhere/wikitext2")});
}

TEST_F(DataGet, BadUsageIsNamed) {
  expect_failure(get({"tinyshakespear"}), 2, {"no data set tinyshakespear", "did you mean tinyshakespeare?"});
  // Before anything is downloaded.
  expect_failure(get({"gpt2-bpe", "cifar"}), 2, {"did you mean cifar10?"});
  expect_failure(get({}), 2, {"NAME"});
  expect_failure(get({"gpt2-bpe", "--mirror", "ftp://x"}), 2, {"--mirror ftp://x", "http"});
  const Outcome secret = get({"gpt2-bpe", "--mirror", "ftp://me:sec/r@et@x"});
  expect_failure(secret, 2, {"--mirror ftp://x"});
  EXPECT_EQ(secret.err.find("sec/"), std::string::npos) << secret.err;
  expect_failure(get({"gpt2-bpe", "--mirror", "http://"}), 2, {"--mirror http://", "HOST"});
  expect_failure(get({"gpt2-bpe"}, {{{"LPMM_DATA", ""}, {"HOME", ""}}}), 2, {"HOME", "--to"});
  expect_failure(get({"gpt2-bpe", "--to", ""}), 2, {"--to", "empty"});
  EXPECT_FALSE(std::filesystem::exists(path("data")));
  const Outcome help = get({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const DataSet& set : data_sets()) EXPECT_NE(help.out.find(set.name), std::string::npos) << set.name;
}

// Interrupted while the file comes.
TEST_F(DataGet, CtrlCEndsIt) {
  const Server server({{"/input.txt", {head_of(300000) + std::string(150000, 'b'), [](int socket) {
                                         ::kill(::getpid(), SIGINT);
                                         wait_for_hangup(socket);
                                       }}}});
  CLI::App program;
  Action action;
  add_data_command(program, action);
  ::setenv("no_proxy", "127.0.0.1", 1);
  program.parse(fmt::format("data get tinyshakespeare --to {} --mirror {}", path("data"), server.url()));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(action(), 130);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("interrupted"), std::string::npos);
}

// The disk is full while the file comes.
TEST_F(DataGet, AFullDiskLeavesNothing) {
  const Server server({{"/input.txt", good(std::string(1 << 20, 'x'))}});
  expect_failure(get({"tinyshakespeare", "--mirror", server.url()}, {{}, 100000}), 1,
                 {"input.txt: cannot be written"});
  EXPECT_FALSE(fs::exists(path("data/tinyshakespeare")));
}

// The real files, where the data folder has them: downloaded from loopback, then there.
TEST_F(DataGet, RealFiles) {
  std::map<std::string, Reply> replies;
  std::vector<std::string> names, expected;
  for (const DataSet& set : data_sets()) {
    const auto from = [&](const DataFile& file) {
      return (fs::path(data_folder()) / set.folder / file.name).string();
    };
    if (set.archive || !std::all_of(set.files.begin(), set.files.end(),
                                    [&](const auto& f) { return fs::exists(from(f)); })) {
      continue;
    }
    // One address for all: MNIST's files have the names of Fashion-MNIST's.
    if (replies.contains("/" + set.files.front().name)) continue;
    names.push_back(set.name);
    for (const DataFile& file : set.files) {
      replies["/" + file.name] = good(read_file(from(file)));
      expected.push_back((fs::path(path("data")) / set.folder / file.name).string());
    }
  }
  if (names.empty()) GTEST_SKIP() << "$LPMM_DATA has none of the data sets";
  const Server server(std::move(replies));
  names.insert(names.end(), {"--json", "--mirror", server.url()});
  const Outcome first = get(names);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.json()["files"], expected);
  EXPECT_EQ(first.json()["already_there"], nlohmann::json::array());
  EXPECT_EQ(first.json()["folder"], path("data"));
  EXPECT_GT(first.json()["bytes"], 1000000);
  const Outcome second = get(names);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.json()["files"], nlohmann::json::array());
  EXPECT_EQ(second.json()["already_there"], expected);
  EXPECT_EQ(second.json()["bytes"], 0);
}

}  // namespace
}  // namespace lpmm
