// Tests of what the program shows and overwrites: names and texts from outside, and files that exist.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "lpmm/files/files.h"
#include "lpmm/files/safetensors.h"
#include "lpmm/run/checkpoint_files.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

class Shown : public ProgramTest {
 protected:
  // One step of a language model.
  void train_on(const std::string& text) const {
    const Outcome trained =
        run_lpmm({"train", write("gpt.toml", R"([model]
name = "gpt"
layers = 1
heads = 1
embedding = 8
context = 8
[data]
set = "text"
[train]
steps = 1
batch = 1
)"),
                  "--set", "data.path=" + write("text.txt", text), "--out", path("run"), "--quiet"});
    ASSERT_EQ(trained.code, 0) << trained.err;
  }
};

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST_F(Shown, NoSampleCommandsTheTerminal) {
  train_on(repeated("\x1b\x07\n", 60));
  std::vector<std::string> command = {"sample", path("run"), "--prompt", "\x1b", "--tokens", "40"};
  const Outcome shown = run_lpmm(command);
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(shown.out.find_first_of("\x1b\x07"), std::string::npos);
  EXPECT_NE(shown.out.find("\\x1B"), std::string::npos) << shown.out;
  command.emplace_back("--json");
  EXPECT_NE(run_lpmm(command).json()["text"].get<std::string>().find('\x07'), std::string::npos);
}

TEST_F(Shown, NoNameOfARunOrABufferCommandsTheTerminal) {
  train("run");
  fs::rename(path("run"), path("\x1b[31mrun"));
  const std::string run = path("\x1b[31mrun"), checkpoint = run + "/checkpoints/step_00000004";
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--label", "\x1b[31mrun"}}) {
    std::vector<std::string> command = {"plot", run, "--table"};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome table = run_lpmm(command);
    EXPECT_EQ(table.out.find('\x1b'), std::string::npos);
    EXPECT_NE(table.out.find("\\x1B[31mrun"), std::string::npos) << table.out;
  }
  // A buffer more, of that name.
  {
    const SafetensorsFile file(checkpoint + "/model.safetensors");
    std::vector<SafetensorsSource> all;
    for (const SafetensorsEntry& e : file.entries()) {
      all.push_back({e.name, e.dtype, e.shape, [&file, &e](const auto& sink) {
                       std::vector<std::byte> bytes(e.bytes);
                       file.read(e, 0, bytes);
                       sink(bytes);
                     }});
    }
    all.push_back({"\x1b[31m.buffer", "F32", {1}, [](const auto& sink) {
                     const float one = 1;
                     sink(std::as_bytes(std::span(&one, 1)));
                   }});
    const WrittenFile written = write_safetensors(path("new"), file.metadata(), all);
    Json state = open_state(checkpoint);
    state.erase("crc32");
    state["files"]["model.safetensors"] = {{"bytes", written.bytes}, {"crc32", checksum_text(written.crc32)}};
    write_text(checkpoint + "/state.json", seal_state(state));
  }
  fs::rename(path("new"), checkpoint + "/model.safetensors");
  const Outcome tensors = run_lpmm({"inspect", run});
  ASSERT_EQ(tensors.code, 0) << tensors.err;
  EXPECT_EQ(tensors.out.find('\x1b'), std::string::npos);
  EXPECT_NE(tensors.out.find("\\x1B[31m.buffer"), std::string::npos);
}

TEST_F(Shown, AnErrorIsOneLine) {
  for (const std::string name : {"a\nb", "a\n", "\n"}) {
    const Outcome failed = run_lpmm({"eval", path(name)});
    expect_failure(failed, 2, {"\\x0A"});
    EXPECT_EQ(std::ranges::count(failed.err, '\n'), 1) << failed.err;
  }
  const auto with = [&](const char* variable, const std::string& value) {
    const Outcome failed =
        run_lpmm({"data", "get", "cifar10", "--mirror", "http://127.0.0.1:9"}, {{{variable, value}}});
    EXPECT_EQ(std::ranges::count(failed.err, '\n'), 1) << failed.err;
    return failed;
  };
  expect_failure(with("LPMM_DATA", path("a\nb")), 2, {"LPMM_DATA has a line break"});
  expect_failure(with("LPMM_DATA", "~/x"), 2, {"LPMM_DATA is ~/x", "$HOME/x"});
  expect_failure(with("LPMM_DATA", "~root/x"), 2, {"LPMM_DATA is ~root/x", "the whole path, or ./~root/x"});
  for (const char* folder : {"~", "~root"}) EXPECT_FALSE(fs::exists(folder));
}

TEST_F(Shown, NoOutputReplacesAFileUnasked) {
  train_on(repeated("some text\n", 60));
  const std::string kept = "kept";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"data", "tokenize", path("text.txt"), path("a.tokens")},
        {"data", "tokenizer", "--train", "bpe", "--vocabulary", "14", path("text.txt"), "--output",
         path("a.model")},
        {"export", path("run"), "--out", path("a.safetensors")},
        {"report", path("run"), "--out", path("a.html")},
        {"plot", path("run"), "--csv", path("a.csv")},
        {"data", "pack-images", path("none"), path("a.images")}}) {
    const std::string output = write(fs::path(command.back()).filename().string(), kept);
    expect_failure(run_lpmm(command), 2, {output, "is there already", "--overwrite"});
    EXPECT_EQ(read_file(output), kept);
    if (command[1] == "pack-images") continue;
    std::vector<std::string> asked = command;
    asked.emplace_back("--overwrite");
    if (const Outcome done = run_lpmm(asked); done.err.find("libsentencepiece") == std::string::npos) {
      EXPECT_EQ(done.code, 0) << done.err;
      EXPECT_NE(read_file(output), kept);
    }
  }
  // A page or table that lpmm itself made may be overwritten.
  EXPECT_EQ(run_lpmm({"report", path("run"), "--out", path("a.html")}).code, 0);
  EXPECT_EQ(run_lpmm({"plot", path("run"), "--csv", path("a.csv")}).code, 0);
  fs::create_directory(path("hf"));
  std::vector<std::string> command = {"export", path("run"), "--hf", "--out", path("hf")};
  EXPECT_EQ(run_lpmm(command).code, 0);  // an empty folder holds nothing of anybody
  write("hf/config.json", kept);
  expect_failure(run_lpmm(command), 2, {path("hf"), "holds files already", "--overwrite"});
  EXPECT_EQ(read_file(path("hf/config.json")), kept);
  command.emplace_back("--overwrite");
  EXPECT_EQ(run_lpmm(command).code, 0);
  EXPECT_NE(read_file(path("hf/config.json")), kept);
}

TEST_F(Shown, ATestWithoutANumberIsAnError) {
  const Outcome trained =
      run_lpmm({"train", config(), "--set", "optimizer.learning_rate=1e30", "--set", "optimizer.clip_norm=0",
                "--set", "memory.preset=fp32", "--out", path("run"), "--quiet"});
  ASSERT_EQ(trained.code, 1) << trained.err;
  expect_failure(run_lpmm({"eval", path("run")}), 1, {"no finite number", "diverged"});
}

TEST_F(Shown, AnEmptyFolderForTemporaryFilesIsNone) {
  train("run");
  const Outcome drawn = run_lpmm({"plot", path("run"), "--out", path("picture")}, {{{"TMPDIR", ""}}});
  EXPECT_TRUE(drawn.code == 0 || drawn.err.find("plots need gnuplot") != std::string::npos) << drawn.err;
}

}  // namespace
}  // namespace lpmm
