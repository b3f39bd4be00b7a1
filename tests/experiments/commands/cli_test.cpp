// Tests of what other programs rely on: the keys of --json, exit codes, and errors that name their cause.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "experiments/commands/arguments.h"
#include "experiments/commands/shipped_configs.h"
#include "kernels/cpu.h"
#include "lpmm/data/images.h"
#include "lpmm/files/files.h"
#include "lpmm/memory/policy.h"
#include "lpmm/memory/spec.h"
#include "tests/experiments/program.h"
#include "tests/kernels/support.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::set<std::string> keys(const json& object) {
  std::set<std::string> names;
  for (const auto& [key, value] : object.items()) names.insert(key);
  return names;
}

void expect_keys(const json& object, const std::set<std::string>& wanted) {
  const std::set<std::string> present = keys(object);
  for (const std::string& key : wanted) EXPECT_TRUE(present.contains(key)) << "no " << key;
}

const std::set<std::string> kMemoryKeys = {"parameter",     "accumulator", "momentum", "variance",
                                           "slow_momentum", "exempt",      "peaks",    "buffers",
                                           "average",       "total"};

void expect_adds_up(const json& memory) {
  expect_keys(memory, kMemoryKeys);
  std::int64_t sum = 0;
  for (const auto& [key, bytes] : memory.items()) sum += key == "total" ? 0 : bytes.get<std::int64_t>();
  EXPECT_EQ(sum, memory["total"].get<std::int64_t>());
}

class Answers : public ProgramTest {};

// ---- help and bad usage ----------------------------------------------------------------------------------

TEST(Cli, HelpOfEveryCommandExplainsItWithAnExample) {
  const Outcome all = run_lpmm({"--help"});
  EXPECT_EQ(all.code, 0);
  const std::vector<std::string> configs = shipped_config_names();
  for (const char* command :
       {"train",      "eval",       "sample", "logits",   "import", "data",      "plan", "bench",  "quantize",
        "inspect",    "export",     "sweep",  "ablate",   "plot",   "report",    "info", "advise", "config",
        "completion", "experiment", "watch",  "classify", "embed",  "translate", "chat", "serve"}) {
    EXPECT_NE(all.out.find(command), std::string::npos) << command;
    const Outcome help = run_lpmm({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_NE(help.out.find("lpmm " + std::string(command)), std::string::npos) << command;
    EXPECT_EQ(help.err, "");
    // The text below the options is wrapped, too.
    std::istringstream said(help.out);
    for (std::string line; std::getline(said, line);) {
      EXPECT_TRUE(line.size() <= 105 || line.starts_with(" ")) << command << ": " << line;
    }
    // Configurations that examples name are there.
    const std::regex example("lpmm (?:train|plan|advise) ([a-z0-9]+_[a-z0-9_]+)");
    for (std::sregex_iterator at(help.out.begin(), help.out.end(), example), end; at != end; ++at) {
      EXPECT_EQ(std::ranges::count(configs, (*at)[1].str()), 1) << command << ": " << at->str();
    }
  }
}

TEST(Cli, HelpIsInGroupsAndAnswersWhoeverAsks) {
  const Outcome all = run_lpmm({"--help"});
  std::size_t at = 0;
  for (const char* heading : {"Before a run:", "Runs:", "Checkpoints:", "Trained models:",
                              "Comparisons and experiments:", "This build and machine:"}) {
    const std::size_t found = all.out.find(heading);
    ASSERT_NE(found, std::string::npos) << heading;
    EXPECT_GT(found, at);
    at = found;
  }
  EXPECT_EQ(all.out.find("Subcommands:"), std::string::npos) << "a command is in no group";
  for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"help"}}) {
    const Outcome outcome = run_lpmm(words);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.out, all.out);
  }
  EXPECT_EQ(run_lpmm({"help", "train"}).out, run_lpmm({"train", "--help"}).out);
  EXPECT_EQ(run_lpmm({"help", "bench", "update"}).out, run_lpmm({"bench", "update", "--help"}).out);
  expect_failure(run_lpmm({"help", "trian"}), 2, {"trian", "train"});
}

TEST(Cli, ConfigListsKeysWithDefaultRangeAndHelp) {
  const json all = run_lpmm({"config", "--json"}).json()["keys"];
  EXPECT_GT(all.size(), 60U);
  for (const json& key : all) {
    for (const char* member : {"key", "range", "help"}) EXPECT_NE(key[member], "") << key.dump();
    EXPECT_TRUE(key.contains("default"));
  }
  const Outcome lines = run_lpmm({"config", "train.batch"});
  EXPECT_EQ(lines.code, 0);
  EXPECT_TRUE(lines.out.starts_with("[train]\nbatch = 128 ")) << lines.out;
  EXPECT_NE(lines.out.find("(1 to 1048576)"), std::string::npos);
  EXPECT_NE(run_lpmm({"config", "lr"}).out.find("not given: 0.001 with sgd, adam"), std::string::npos);
  EXPECT_TRUE(
      run_lpmm({"config", "lr", "--rule", "lion"}).out.starts_with("[optimizer]\nlearning_rate = 0.0001 "));
  expect_failure(run_lpmm({"config", "--rule", "lamp"}), 2, {"--rule lamp", "did you mean lamb?"});
  expect_failure(run_lpmm({"plan", "resnet8_drawn", "--set", "optimizer.lr=1"}), 2,
                 {"--set optimizer.lr=1", "optimizer.learning_rate?"});
}

// One line each, which says what weight decay is added to.
TEST(Cli, InfoAndConfigSayWhatEachRuleIs) {
  const Outcome info = run_lpmm({"info"}), keys = run_lpmm({"config", "optimizer"});
  const json answer = run_lpmm({"info", "--json"}).json();
  ASSERT_EQ(answer["rule_table"].size(), answer["rules"].size());
  for (const json& rule : answer["rules"]) {
    const std::string text = answer["rule_table"][rule.get<std::string>()]["help"];
    EXPECT_NE(text.find("weight decay"), std::string::npos) << text;
    EXPECT_NE(info.out.find(text), std::string::npos) << text;
    EXPECT_NE(keys.out.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(run_lpmm({"config", "train.batch"}).out.find("weight decay"), std::string::npos);
}

// The warning is the one that a training gives.
TEST_F(Answers, PlanWarnsOfAVarianceThatIsNotKept) {
  const std::vector<std::string> plan = {"plan", "resnet8_drawn", "--set", "optimizer.rule=adamw", "--set"};
  const auto of = [&](const char* spec, bool as_json) {
    std::vector<std::string> all = plan;
    all.push_back(std::string("memory.variance=") + spec);
    if (as_json) all.emplace_back("--json");
    return run_lpmm(all);
  };
  EXPECT_NE(of("ude4:block128:sr", false).err.find("warning: the variance of"), std::string::npos);
  EXPECT_NE(of("log08:block128:rn", false).err.find("rounding to nearest loses"), std::string::npos);
  EXPECT_EQ(of("sqrt08:block128:sr", false).err, "");
  EXPECT_EQ(of("ude4:block128:sr", true).json()["warnings"].size(), 1U);
  EXPECT_TRUE(of("sqrt08:block128:sr", true).json()["warnings"].empty());
}

TEST_F(Answers, ShippedConfigsAreFoundByName) {
  const Outcome by_name = run_lpmm({"plan", "resnet8_drawn", "--json"}, {.folder = "/"});
  const Outcome by_path =
      run_lpmm({"plan", LPMM_SOURCE_DIR "/experiments/configs/resnet8_drawn.toml", "--json"});
  EXPECT_EQ(by_name.code, 0) << by_name.err;
  EXPECT_EQ(by_name.out, by_path.out);
  expect_failure(run_lpmm({"plan", "resnet9_drawn"}), 2, {"resnet9_drawn", "did you mean resnet8_drawn?"});
  // A file of that name goes first.
  write("resnet8_drawn", "[train]\nbatch = 'x'\n");
  expect_failure(run_lpmm({"plan", "resnet8_drawn"}, {.folder = path("")}), 2, {"resnet8_drawn:2"});
}

// ---- completion ------------------------------------------------------------------------------------------

std::set<std::string> completed(const std::vector<std::string>& words) {
  std::vector<std::string> arguments = {"complete"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  const Outcome outcome = run_lpmm(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::set<std::string> lines;
  std::istringstream text(outcome.out);
  for (std::string line; std::getline(text, line);) lines.insert(line);
  return lines;
}

TEST(Completion, KnowsCommandsOptionsAndNames) {
  using Set = std::set<std::string>;
  EXPECT_EQ(completed({"tr"}), (Set{"train", "translate"}));
  EXPECT_TRUE(completed({""}).contains("help"));
  EXPECT_EQ(completed({"bench", "u"}), Set{"update"});
  EXPECT_EQ(completed({"bench", "c"}), Set{"codec"}) << "bench copy is hidden";
  EXPECT_EQ(completed({"help", "pl"}), (Set{"plan", "plot"}));
  EXPECT_EQ(completed({"train", "resnet8"}), Set{"resnet8_drawn"});
  EXPECT_EQ(completed({"train", "resnet8_drawn", "--pre"}), Set{"--preset"});
  EXPECT_EQ(completed({"train", "resnet8_drawn", "--preset", "lpmm-m"}), Set{"lpmm-min"});
  EXPECT_EQ(completed({"train", "resnet8_drawn", "--preset", "=", "lpmm-m"}), Set{"lpmm-min"});
  EXPECT_EQ(completed({"train", "resnet8_drawn", "--set", "train.ep"}), Set{"train.epochs="});
  EXPECT_EQ(completed({"train", "resnet8_drawn", "--out", ""}), Set{}) << "a folder: the shell completes it";
  EXPECT_EQ(completed({"train", "resnet8_drawn", ""}), Set{});
  EXPECT_EQ(completed({"completion", ""}), (Set{"bash", "fish", "zsh"}));
  EXPECT_EQ(completed({"config", "train.ba"}), Set{"train.batch"});
}

// Each shell that is here reads its script; bash completes with it.
TEST_F(Answers, CompletionScriptsRun) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Outcome script = run_lpmm({"completion", shell});
    ASSERT_EQ(script.code, 0);
    const std::string file = write("lpmm." + shell, script.out);
    if (std::system(("command -v " + shell + " >/dev/null").c_str()) != 0) continue;
    EXPECT_EQ(std::system((shell + " -n " + file).c_str()), 0) << shell;
  }
  expect_failure(run_lpmm({"completion", "csh"}), 2, {"csh"});
  const std::string driver = write("driver.bash", fmt::format(R"(
source "{}"
COMP_WORDS=({} train resnet8_drawn --preset lpmm-c)
COMP_CWORD=4
_lpmm 2>/dev/null
echo "${{COMPREPLY[*]}}"
complete -p lpmm
)",
                                                              path("lpmm.bash"), LPMM_PROGRAM));
  ASSERT_EQ(std::system(fmt::format("bash {} > {}", driver, path("said")).c_str()), 0);
  EXPECT_EQ(read_file(path("said")), "lpmm-compact\ncomplete -o default -F _lpmm lpmm\n");
}

// ---- what people see -------------------------------------------------------------------------------------

// A terminal of so many columns takes standard error; what was written there. Nothing where the machine has
// no pseudo-terminals.
std::optional<std::string> on_terminal(int columns, const std::vector<std::string>& arguments) {
  int terminal = -1, device = -1;
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = 25;
  if (openpty(&terminal, &device, nullptr, nullptr, &size) != 0) return {};
  std::array<char, 256> name{};
  EXPECT_EQ(ttyname_r(device, name.data(), name.size()), 0);
  std::string text;
  std::thread reader([&] {
    std::array<char, 4096> bytes{};
    for (ssize_t n; (n = read(terminal, bytes.data(), bytes.size())) > 0;) {
      text.append(bytes.data(), static_cast<std::size_t>(n));
    }
  });
  EXPECT_EQ(run_lpmm(arguments, {.error_stream = name.data()}).code, 0);
  close(device);  // the reader comes to the end
  reader.join();
  close(terminal);
  return text;
}

TEST_F(Answers, ProgressFitsIntoTheTerminal) {
  const std::vector<std::string> arguments = {"train", config(), "--out", path("run"), "--json"};
  for (const int columns : {80, 40, 200}) {
    fs::remove_all(path("run"));
    const std::optional<std::string> shown = on_terminal(columns, arguments);
    if (!shown) GTEST_SKIP() << "this machine gives no pseudo-terminal (/dev/ptmx)";
    const std::string& text = *shown;
    ASSERT_NE(text.find("\rstep "), std::string::npos) << text;
    std::size_t widest = 0;
    for (std::size_t at = text.find("\rstep "); at != std::string::npos; at = text.find("\rstep ", at + 1)) {
      widest = std::max(widest, text.find("\x1b[K", at) - at - 1);
    }
    EXPECT_LT(widest, static_cast<std::size_t>(columns));
    EXPECT_EQ(widest > 79, columns == 200);
  }
}

TEST_F(Answers, TrainEndsWithThreeLinesForPeople) {
  const Outcome run = run_lpmm({"train", config(), "--quiet", "--out", path("a run")});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 3) << run.out;
  EXPECT_TRUE(run.out.starts_with("done after 4 steps in ")) << run.out;
  for (const std::string& part : {std::string("test accuracy"), "the run lies in " + path("a run"),
                                  "lpmm eval '" + path("a run") + "'", std::string("lpmm report")}) {
    EXPECT_NE(run.out.find(part), std::string::npos) << part << "\n" << run.out;
  }
}

TEST_F(Answers, PlanSaysSizesBesideThoseOfFp32) {
  const Outcome plan = run_lpmm({"plan", "resnet20_cifar10", "--preset", "lpmm", "--set", "data.set=drawn"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  for (const char* part : {"times smaller", "MB", "kB", "fp32", "peak of the run", "momentum",
                           "tensors with 1386 parameters are exempt because of one dimension"}) {
    EXPECT_NE(plan.out.find(part), std::string::npos) << part << "\n" << plan.out;
  }
}

TEST_F(Answers, PlanNeedsNoTokenizer) {
  write("text.txt", std::string(4000, 'a'));
  const std::vector<std::string> plan = {"plan",
                                         "gpt2_124m",
                                         "--json",
                                         "--set",
                                         "data.path=" + path("text.txt"),
                                         "--set",
                                         "train.batch=1",
                                         "--set",
                                         "train.microbatches=1",
                                         "--set",
                                         "data.length=64"};
  const Outcome outcome = run_lpmm(plan, {.environment = {{"LPMM_DATA", path("none")}}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("no tokenizer in"), std::string::npos);
  EXPECT_GT(outcome.json()["parameters"], 124'000'000);
}

TEST(Cli, BadUsageExitsWithTwo) {
  expect_failure(run_lpmm({"--json"}), 2, {"subcommand"});
  expect_failure(run_lpmm({"trian"}), 2, {"trian", "train"});
  expect_failure(run_lpmm({"bench", "updat"}), 2, {"updat", "update"});
  expect_failure(run_lpmm({"plan"}), 2, {"CONFIG"});
  expect_failure(run_lpmm({"plan", "x.toml", "--bogus"}), 2, {"--bogus"});
  expect_failure(run_lpmm({"train", "x.toml", "--threads", "many", "--out", "y"}), 2, {"--threads"});
  expect_failure(run_lpmm({"plan", "/nowhere/x.toml"}), 2, {"/nowhere/x.toml"});
}

// Names cannot send control sequences to the terminal.
TEST(Cli, MessagesShowControlCharacters) {
  const Outcome outcome = run_lpmm({"plan", "/nowhere/\x1b[31m\r\x7f\xc2\x9b\xe2\x80\xae\xff grün.toml"});
  expect_failure(outcome, 2, {R"(/nowhere/\x1B[31m\x0D\x7F\xC2\x9B\xE2\x80\xAE\xFF grün.toml)"});
}

TEST(Cli, AnswersMayHoldAnyBytes) {
  ::testing::internal::CaptureStdout();
  print_answer({{"folder", "a\xff"}, {"files", {"a\xff/b", "c"}}}, false);
  EXPECT_NE(::testing::internal::GetCapturedStdout().find("a\\xFF"), std::string::npos);
}

// ---- answers ---------------------------------------------------------------------------------------------

TEST_F(Answers, PlanHasItsKeysAndAddsUp) {
  for (const char* preset : {"fp32", "lpmm", "lpmm-compact", "lpmm-min", "lpmm-nano", "states8"}) {
    const Outcome outcome = run_lpmm({"plan", config(), "--preset", preset, "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json answer = outcome.json();
    expect_keys(answer, {"parameters", "bits_per_parameter", "model_memory_bytes", "activation_bytes",
                         "workspace_bytes", "peak_bytes"});
    expect_adds_up(answer["model_memory_bytes"]);
    EXPECT_EQ(answer["parameters"], 3072 * 16 + 16 + 16 * 10 + 10);
    const double total = answer["model_memory_bytes"]["total"];
    const double parameters = answer["parameters"];
    EXPECT_DOUBLE_EQ(answer["bits_per_parameter"], 8 * total / parameters);
    EXPECT_GT(answer["peak_bytes"].get<double>(), total + answer["activation_bytes"].get<double>());
    if (std::string(preset) == "fp32") {
      EXPECT_EQ(answer["bits_per_parameter"], 96);
    }
  }
}

// The configs that others start from, a few steps each.
TEST_F(Answers, TheImageConfigsTrain) {
  const auto steps = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train",   LPMM_SOURCE_DIR "/experiments/configs/" + name + ".toml",
                                          "--out",   path(name),
                                          "--quiet", "--json",
                                          "--set",   "train.steps=3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_lpmm(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_LT(outcome.json()["final_loss"].get<double>(), 4) << name;
    EXPECT_EQ(outcome.json()["steps"], 3);
  };
  steps("resnet8_drawn", {"--set", "data.train_images=384", "--set", "data.test_images=100"});
  if (!has_cifar10(data_folder())) GTEST_SKIP() << "$LPMM_DATA/cifar-10-batches-bin is not here";
  steps("resnet20_cifar10", {});
}

TEST_F(Answers, TrainEvalInspectExportAgree) {
  const Outcome run = run_lpmm({"train", config(), "--threads", "1", "--out", path("run"), "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  const json summary = run.json();
  EXPECT_EQ(summary["type"], "summary");
  expect_keys(summary,
              {"final_loss", "test_accuracy", "bits_per_parameter", "model_memory_bytes", "interrupted",
               "peak_rss_bytes", "images_per_second", "steps", "skipped_steps", "underflow"});
  expect_adds_up(summary["model_memory_bytes"]);
  EXPECT_EQ(summary["interrupted"], false);
  EXPECT_EQ(summary["steps"], 4);
  EXPECT_EQ(summary["skipped_steps"], 0);
  EXPECT_NE(run.err, "") << "progress goes to standard error";

  const std::string log = read_file(path("run") + "/log.jsonl");
  const std::size_t last = log.rfind('\n', log.size() - 2) + 1;
  EXPECT_EQ(json::parse(log.substr(last)), summary);
  const std::string checkpoint = path("run") + "/checkpoints/step_00000004";
  EXPECT_TRUE(fs::exists(checkpoint + "/model.safetensors"));

  const Outcome eval = run_lpmm({"eval", path("run"), "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  expect_keys(eval.json(), {"checkpoint", "images", "test_loss", "test_accuracy"});
  EXPECT_EQ(eval.json()["images"], 32);
  EXPECT_DOUBLE_EQ(eval.json()["test_accuracy"], summary["test_accuracy"]);

  const Outcome inspect = run_lpmm({"inspect", checkpoint, "--json"});
  ASSERT_EQ(inspect.code, 0) << inspect.err;
  const json inside = inspect.json();
  expect_keys(inside, {"checkpoint", "model", "step", "updates", "tensors", "bytes", "state"});
  EXPECT_EQ(inside["step"], 4);
  EXPECT_EQ(inside["updates"], 4);
  bool has_packed = false;
  for (const json& tensor : inside["tensors"]) {
    expect_keys(tensor, {"name", "shape", "bytes", "specs", "steps"});
    if (!tensor["steps"].contains("parameter")) continue;
    has_packed = true;
    const json& steps = tensor["steps"]["parameter"];
    EXPECT_LE(steps["min"], steps["mean"]);
    EXPECT_LE(steps["mean"], steps["max"]);
    EXPECT_GT(steps["min"], 0);
  }
  EXPECT_TRUE(has_packed);

  for (const auto& [type, bytes] : {std::pair{"fp32", 4}, std::pair{"bf16", 2}}) {
    const std::string output = path(type) + ".safetensors";
    const Outcome exported = run_lpmm({"export", path("run"), "--type", type, "--out", output, "--json"});
    ASSERT_EQ(exported.code, 0) << exported.err;
    expect_keys(exported.json(), {"checkpoint", "output", "type", "tensors", "bytes"});
    EXPECT_GE(fs::file_size(output), static_cast<std::uintmax_t>(bytes) * (3072 * 16 + 160));
  }
}

// Steps in fp32 of rows and columns are read as such; a run goes on from them.
TEST_F(Answers, InspectReadsStepsOfRowsAndInFp32) {
  const std::vector<std::string> thu = {
      "--preset", "thu4", "--set", "optimizer.rule=adamw", "--set", "memory.min_elements=0"};
  train("rows", thu);
  const Outcome inspect = run_lpmm({"inspect", path("rows"), "--json"});
  ASSERT_EQ(inspect.code, 0) << inspect.err;
  const json inside = inspect.json();
  int seen = 0;
  for (const json& tensor : inside["tensors"]) {
    if (!tensor["steps"].contains("variance")) continue;
    ++seen;
    for (const char* role : {"momentum", "variance"}) {
      const json& steps = tensor["steps"][role];
      EXPECT_GT(steps["min"], 0);
      EXPECT_LE(steps["min"], steps["mean"]);
      EXPECT_LT(steps["max"], 10) << "a gradient's size";
    }
    const std::int64_t rows = tensor["shape"][0], columns = tensor["shape"][1];
    EXPECT_EQ(tensor["steps"]["variance"]["blocks"], rows + columns);
  }
  EXPECT_GT(seen, 0);
}

// The word of a log0 block holds the octaves of its range in what are the low bits of a step otherwise.
TEST_F(Answers, InspectReadsStepsWithoutTheirRange) {
  train("ranges", {"--preset", "lpmm-min", "--set", "optimizer.rule=adamw", "--set",
                   "memory.variance=log04:block128:sr:sticky"});
  const json inside = run_lpmm({"inspect", path("ranges"), "--json"}).json();
  int seen = 0;
  for (const json& tensor : inside["tensors"]) {
    if (!tensor["steps"].contains("variance")) continue;
    ++seen;
    for (const char* end : {"min", "max"}) {
      const float step = tensor["steps"]["variance"][end];
      EXPECT_GT(step, 0);
      EXPECT_EQ(float_bits(step) & 0xFFFFFU, 0U) << step;
    }
  }
  EXPECT_GT(seen, 0);
}

TEST_F(Answers, ARunInTwoPartsEndsWithTheSameBytes) {
  train("whole");
  train("parts", {"--set", "train.steps=2"});
  train("parts", {"--resume"});
  const std::string model = "/checkpoints/step_00000004/model.safetensors";
  EXPECT_TRUE(read_file(path("whole") + model) == read_file(path("parts") + model));
}

TEST_F(Answers, BenchUpdateHasItsKeys) {
  const Outcome outcome =
      run_lpmm({"bench", "update", "--optimizer", "adamw", "--preset", "lpmm-min", "--elements", "1000000",
                "--threads", "1", "--slots", "2", "--json", "--set", "memory.momentum=int8:block128:qr"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json answer = outcome.json();
  expect_keys(answer,
              {"elements_per_second", "packed_bytes_per_element", "copy_gb_per_second", "fp32_roofline_ratio",
               "peak_extra_bytes", "by_fp32_elements_per_second", "by_slots_elements_per_second"});
  EXPECT_GT(answer["by_slots_elements_per_second"], 0);
  EXPECT_GT(answer["by_fp32_elements_per_second"], 0);
  const double speed = answer["elements_per_second"], copy = answer["copy_gb_per_second"];
  EXPECT_GT(speed, 0);
  EXPECT_GT(copy, 0);
  EXPECT_NEAR(answer["fp32_roofline_ratio"].get<double>(), speed * 28 / (copy * 1e9), 1e-9);
  // lpmm-min: 8 + 4 + 4 bits, 8 for the momentum, and steps.
  EXPECT_GT(answer["packed_bytes_per_element"], 3.0);
  EXPECT_LT(answer["packed_bytes_per_element"], 3.2);
}

TEST(Cli, BenchUpdateTakesWhatAConfigTakes) {
  const auto refused = [](const std::string& setting, const std::vector<std::string>& says) {
    expect_failure(run_lpmm({"bench", "update", "--optimizer", "adamw", "--elements", "1099511627776",
                             "--set", setting}),
                   2, says);
  };
  refused("memory.momentum=int8:block128:xr", {"memory.momentum", "xr"});
  refused("optimizer.nesterov=true", {"nesterov", "adamw"});
  refused("memory.accumulator=none", {"memory.accumulator", "none"});
  refused("memory.variance=int8", {"memory.variance", "sign"});
  refused("optimizer.rule=lion", {"optimizer.rule", "--optimizer"});
  refused("memory.preset=fp32", {"memory.preset", "--preset"});
  refused("train.batch=7", {"train.batch", "[optimizer] and [memory]"});
}

TEST_F(Answers, BenchUpdateRefusesMoreThanThereIs) {
  const Outcome outcome = run_lpmm({"bench", "update", "--elements", "1099511627776", "--threads", "1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("bytes are needed at once"), std::string::npos) << outcome.err;
}

// Before anything is measured, or memory for it looked for.
TEST_F(Answers, BenchUpdateRefusesToWatchWhatCannotBeMeasured) {
  for (const char* rule : {"muon", "adam_mini", "adamw_factored"}) {
    const Outcome outcome =
        run_lpmm({"bench", "update", "--optimizer", rule, "--elements", "1099511627776", "--watch"});
    EXPECT_EQ(outcome.code, 2) << rule;
    EXPECT_NE(outcome.err.find("the watch cannot measure"), std::string::npos) << outcome.err;
  }
}

TEST_F(Answers, BenchTrainReportsImagesPerSecond) {
  const Outcome outcome = run_lpmm({"bench", "train", config(), "--steps", "3", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  expect_keys(outcome.json(), {"images_per_second", "step_milliseconds", "steps", "batch", "threads"});
  EXPECT_GT(outcome.json()["images_per_second"], 0);
}

TEST(Cli, InfoListsFormatsPresetsAndTheMachine) {
  const Outcome outcome = run_lpmm({"info", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json answer = outcome.json();
  expect_keys(answer, {"version", "compiler", "simd", "compute_library", "backends", "data_folder", "formats",
                       "rules", "presets"});
  EXPECT_EQ(answer["formats"].size(), all_formats().size());
  EXPECT_EQ(answer["presets"].size(), preset_names().size());
  EXPECT_EQ(answer["rules"].size(), rule_names().size());
  EXPECT_EQ(answer["presets"]["thu4"]["min_elements"], 4097);
  const json& lars = answer["rule_table"]["lars"];
  EXPECT_EQ(lars["states"], json({"momentum"}));
  EXPECT_EQ(lars["needs_whole_tensors"], true);
  EXPECT_EQ(answer["rule_table"]["sgd"]["states"], json::array()) << "usually it has no momentum";
}

// ---- quantize --------------------------------------------------------------------------------------------

// An .npy file of version `major` with a header of our making.
std::string npy(const std::string& header, const std::string& data, char major = 1) {
  std::string file = "\x93NUMPY";
  file += {major, 0, static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8 & 255)};
  if (major == 2) file += {0, 0};
  return file + header + data;
}
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
std::string header(const std::string& type, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}
template <class T>
std::vector<T> npy_data(const std::string& file) {
  const std::size_t start =
      10 + static_cast<unsigned char>(file[8]) + 256U * static_cast<unsigned char>(file[9]);
  EXPECT_EQ(start % 64, 0);
  std::vector<T> values((file.size() - start) / sizeof(T));
  std::memcpy(values.data(), file.data() + start, values.size() * sizeof(T));
  return values;
}

class Quantize : public ProgramTest {
 protected:
  Outcome quantize(const std::string& file, const std::string& spec,
                   std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"quantize", file, "--spec", spec, "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_lpmm(arguments);
  }
};

TEST_F(Quantize, CodesValuesAndErrorsAreTheStatedOnes) {
  // int4 with a step of 1 (the largest is 7): 0.25 becomes 0, 2.5 ties to 2, -7 stays.
  const std::vector<float> values = {7.0F, 0.25F, 2.5F, -7.0F, 0.0F, 3.75F};
  const std::string file = write("x.npy", npy(header("<f4", "(2, 3)"), bytes_of(values)));
  write(".lpmm-1-0.tmp", "left by a process that was killed");
  const Outcome outcome =
      quantize(file, "int4:block64:rn", {"--codes", path("c.npy"), "--decoded", path("d.npy")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json answer = outcome.json();
  EXPECT_DOUBLE_EQ(answer["mean_abs_error"], (0.25 + 0.5 + 0.25) / 6);
  EXPECT_DOUBLE_EQ(answer["mean_rel_error"], (1 + 0.2 + 0.25 / 3.75) / 5);
  EXPECT_DOUBLE_EQ(answer["max_abs_error"], 0.5);
  EXPECT_DOUBLE_EQ(answer["zeroed_share"], 1.0 / 5);
  EXPECT_DOUBLE_EQ(answer["bias"], (-0.25 - 0.5 + 0.25) / 6);
  EXPECT_DOUBLE_EQ(answer["bits_per_element"], 8.0 * (64 + 2) / 6);  // a group is stored whole
  EXPECT_EQ(npy_data<std::int16_t>(read_file(path("c.npy"))), (std::vector<std::int16_t>{7, 0, 2, -7, 0, 4}));
  EXPECT_EQ(npy_data<float>(read_file(path("d.npy"))), (std::vector<float>{7, 0, 2, -7, 0, 4}));
  EXPECT_NE(read_file(path("d.npy")).find("'shape': (2, 3)"), std::string::npos);
  EXPECT_EQ(leftovers_in(path(".")), std::set<std::string>{});
}

TEST_F(Quantize, ReadsHalfAndDoubleAndVersionTwo) {
  const std::vector<std::uint16_t> halves = {0x3C00, 0xC000, 0x0001, 0x8000};  // 1, -2, 2^-24, -0
  const std::vector<double> doubles = {1, -2, 0x1p-24, -0.0};
  const std::string a = write("h.npy", npy(header("<f2", "(4,)"), bytes_of(halves)));
  const std::string b = write("d.npy", npy(header("<f8", "(4,)", "True"), bytes_of(doubles), 2));
  for (const std::string& file : {a, b}) {
    const Outcome outcome = quantize(file, "fp32", {"--decoded", path("out.npy")});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(npy_data<float>(read_file(path("out.npy"))), (std::vector<float>{1, -2, 0x1p-24F, -0.0F}));
    EXPECT_EQ(outcome.json()["bits_per_element"], 32);
  }
}

TEST_F(Quantize, TablesOfLevelsKeepTheirLevels) {
  const std::vector<float> levels = {1.0F, -0.6961928F, 0.0F, 0.0795803F, -1.0F, 0.72295684F};
  const std::string file = write("x.npy", npy(header("<f4", "(6,)"), bytes_of(levels)));
  for (const char* spec : {"nf4:block64:rn", "nf4:block64:sr", "nf4:block64:qr:sticky"}) {
    const Outcome outcome = quantize(file, spec, {"--codes", path("c.npy"), "--decoded", path("d.npy")});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    if (std::string(spec).find("sticky") != std::string::npos) continue;  // its step leaves room above 1
    EXPECT_EQ(npy_data<float>(read_file(path("d.npy"))), levels) << spec;
    EXPECT_EQ(npy_data<std::uint8_t>(read_file(path("c.npy"))),
              (std::vector<std::uint8_t>{15, 1, 7, 8, 0, 14}));
  }
  const std::vector<float> floats = {448.0F, -1.125F, 0x1p-9F, 0.0F, -416.0F, 13.0F};
  const std::string other = write("y.npy", npy(header("<f4", "(6,)"), bytes_of(floats)));
  const Outcome outcome = quantize(other, "e4m3:block64:rn", {"--codes", path("c.npy")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LT(outcome.json()["max_abs_error"].get<double>(), 1e-4);
  EXPECT_EQ(npy_data<std::uint8_t>(read_file(path("c.npy"))),
            (std::vector<std::uint8_t>{252, 126 - 57, 127, 126, 1, 126 + 85}));
}

// The largest of the row is 8, of the column 4: 4 is the step of the element that has both.
TEST_F(Quantize, StepsOfRowsAndColumns) {
  const std::vector<float> values = {8.0F, 4.0F, 1.0F, 2.0F, 0.0F, 0.0F};
  const std::string file = write("x.npy", npy(header("<f4", "(3, 2)"), bytes_of(values)));
  const auto stored = [&](const char* spec) {
    const Outcome outcome = quantize(file, spec, {"--decoded", path("d.npy")});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return std::pair(npy_data<float>(read_file(path("d.npy"))),
                     outcome.json()["bits_per_element"].get<double>());
  };
  EXPECT_EQ(stored("lin02:rank1:step32:rn"),
            std::pair(std::vector<float>{8, 4, 1, 2, 0, 0}, 8.0 * (32 + 4 * 5) / 6));
  EXPECT_EQ(stored("lin02:row:rn"), std::pair(std::vector<float>{8, 4, 1, 2, 0, 0}, 8.0 * (32 + 2 * 3) / 6));
  const std::string vector = write("v.npy", npy(header("<f4", "(6,)"), bytes_of(values)));
  EXPECT_EQ(quantize(vector, "lin02:rank1:rn").json()["spec"], "lin02:block128:rn");
  const std::string large =
      write("l.npy", npy(header("<f4", "(1025, 1024)"), bytes_of(std::vector<float>(1025 * 1024))));
  expect_failure(quantize(large, "lin02:rank1"), 2, {"whole array", "use blockN"});
}

TEST_F(Answers, BenchCodecTakesStepsOfRows) {
  const Outcome outcome = run_lpmm({"bench", "codec", "--elements", "70000", "--threads", "1", "--spec",
                                    "lin04:rank1:step32:rn", "--spec", "de8:block256:step32:rn", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json rows = outcome.json()["rows"];
  EXPECT_EQ(rows[0]["spec"], "lin04:rank1:step32:rn");
  EXPECT_GT(rows[0]["decode_bf16_elements_per_second"], 0);
  EXPECT_FALSE(rows[0].contains("fold_elements_per_second")) << "gradients are not added to it part by part";
  EXPECT_GT(rows[1]["fold_elements_per_second"], 0);
}

TEST_F(Quantize, StochasticRoundingIsUnbiasedSeededAndStreamed) {
  // More than one chunk of 2^20 elements.
  std::vector<float> values((1U << 20) + 1000, 0.3F);
  for (std::size_t i = 0; i < values.size(); i += 64) values[i] = 127.0F;
  const std::string file =
      write("x.npy", npy(header("<f4", "(" + std::to_string(values.size()) + ",)"), bytes_of(values)));
  const auto decoded = [&](const char* seed) {
    const Outcome outcome = quantize(file, "int8:block64:sr", {"--seed", seed, "--decoded", path("d.npy")});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    // Six standard deviations of a mean of Bernoulli draws with p = 0.3.
    EXPECT_NEAR(outcome.json()["bias"].get<double>(), 0, 6 * std::sqrt(0.21 / (1 << 20)));
    return npy_data<float>(read_file(path("d.npy")));
  };
  const std::vector<float> first = decoded("1");
  EXPECT_EQ(first, decoded("1"));
  EXPECT_NE(first, decoded("2"));
  // The same as in one piece.
  CpuDevice device(2);
  const auto count = static_cast<std::int64_t>(values.size());
  const kernels::Packed whole(parse_spec("int8:block64:sr"), count);
  device.encode({whole.view(), 0, count, values.data(), {1, 0, 0, noise_stream(Role::kParameter)}});
  EXPECT_TRUE(first == kernels::decoded(device, whole));
}

TEST_F(Quantize, HostileFilesAreRefused) {
  const std::string four = bytes_of(std::vector<float>{1, 2, 3, 4});
  const auto refuse = [&](const std::string& file, const std::vector<std::string>& words) {
    const std::string name = write("bad.npy", file);
    std::vector<std::string> all = words;
    all.emplace_back("bad.npy");
    expect_failure(quantize(name, "int8:block64:rn"), 1, all);
  };
  refuse("", {"not an .npy"});
  refuse("\x93NUMPY", {"not an .npy"});
  refuse("PK\x03\x04 an archive of arrays", {"not an .npy"});
  refuse(npy(header("<f4", "(4,)"), four, 3), {"version 3"});
  refuse(npy(header("<f4", "(4,)"), four.substr(1)), {"needs 16 bytes", "has 15"});
  refuse(npy(header("<f4", "(4,)"), four + "x"), {"needs 16 bytes", "has 17"});
  refuse(npy(header("<f4", "(9223372036854775807, 2)"), four), {"too large"});
  refuse(npy(header("<f4", "(4294967296, 4294967296)"), four), {"too large"});
  refuse(npy(header("<f4", "(99999999999999999999,)"), four), {"too large"});
  refuse(npy(header("<f4", "(-4,)"), four), {"dimension"});
  refuse(npy(header("<f4", "(0,)"), ""), {"no elements"});
  refuse(npy(header("<i4", "(4,)"), four), {"<i4"});
  refuse(npy(header(">f4", "(4,)"), four), {">f4"});
  refuse(npy(header("<f4", "(2, 2)", "True"), four), {"Fortran"});
  refuse(npy("{'descr': '<f4', 'shape': (4,), }", four), {"fortran_order"});
  refuse(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", four), {"descr"});
  refuse(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,)}", four), {"quoted"});
  refuse(npy("__import__('os')", four), {"'{'"});
  refuse(npy(header("<f4", "(4,)"), four).substr(0, 20), {"header"});
  std::string long_header = npy(header("<f4", "(4,)"), four, 2);
  long_header[11] = '\x7f';
  refuse(long_header, {"header of 21"});
  refuse(npy(header("<f4", "(2,)"), bytes_of(std::vector<float>{1, NAN})), {"element 1", "NaN"});
  refuse(npy(header("<f8", "(2,)"), bytes_of(std::vector<double>{1, 1e300})), {"element 1"});
}

TEST_F(Quantize, FailingKeepsOlderOutputs) {
  std::vector<float> values((1U << 20) + 64, 0.5F);
  values.back() = NAN;  // in the second chunk
  const std::string file = write("x.npy", npy(header("<f4", "(1048640,)"), bytes_of(values)));
  const std::string codes = write("codes.npy", "older");
  expect_failure(quantize(file, "int8", {"--codes", codes, "--decoded", path("new.npy")}), 1,
                 {"element 1048639"});
  EXPECT_EQ(read_file(codes), "older");
  EXPECT_FALSE(fs::exists(path("new.npy")));
  EXPECT_EQ(leftovers_in(path(".")), std::set<std::string>{});
}

TEST_F(Quantize, BadRequestsAreRefused) {
  const std::string file = write("x.npy", npy(header("<f4", "(2,)"), bytes_of(std::vector<float>{1, -1})));
  expect_failure(quantize(file, "int99"), 2, {"int99", "int2"});
  expect_failure(quantize(file, "int8:block100:rn"), 2, {"block100"});
  expect_failure(quantize(file, "ude8:block64:rn"), 1, {"unsigned", "element 1"});
  expect_failure(quantize(file, "int8", {"--codes", file}), 2, {"input"});
  expect_failure(quantize(file, "int8", {"--codes", path("a"), "--decoded", path("a")}), 2, {"same file"});
  expect_failure(quantize(file, "int8", {"--codes", path("a"), "--decoded", path("./a")}), 2, {"same file"});
  expect_failure(quantize(file, "int8", {"--seed", "-1"}), 2, {"--seed", "-1"});
  expect_failure(quantize(file, "int8", {"--seed", "18446744073709551616"}), 2, {"--seed"});
  expect_failure(quantize(path("none.npy"), "int8"), 1, {"none.npy"});
  expect_failure(quantize(file, "int8", {"--codes", "/dev/full"}), 1, {"/dev/full"});
}

// ---- bad input gets a clear error ------------------------------------------------------------------------

class BadInput : public ProgramTest {
 protected:
  void refuse_config(const std::string& setting, const std::vector<std::string>& words) const {
    expect_failure(run_lpmm({"plan", config(), "--set", setting}), 2, words);
  }
  std::vector<std::string> train_arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"train", config(), "--quiet", "--threads", "1", "--out", path("run")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // A folder with CIFAR-10's files, all of class 0, as holes of the right length.
  std::string cifar10() const {
    const std::string folder = path("data");
    fs::create_directories(folder + "/cifar-10-batches-bin");
    for (const char* name : kFiles) {
      std::ofstream(folder + "/cifar-10-batches-bin/" + name) << "";
      fs::resize_file(folder + "/cifar-10-batches-bin/" + name, 10000 * 3073);
    }
    return folder;
  }
  Outcome train_on(const std::string& folder) const {
    return run_lpmm(train_arguments({"--set", "data.set=cifar10"}), {{{"LPMM_DATA", folder}}, -1, -1});
  }
  static constexpr const char* kFiles[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
};

TEST_F(BadInput, ConfigKeysTypesAndRanges) {
  refuse_config("train.epohcs=3", {"train.epohcs", "train.epochs"});
  refuse_config("optimizer.momentun=0.9", {"optimizer.momentun", "momentum"});
  refuse_config("trian.epochs=3", {"trian", "train"});
  refuse_config("train.steps=many", {"train.steps", "integer"});
  refuse_config("train.batch=-5", {"train.batch", "range"});
  refuse_config("train.batch=0", {"train.batch", "range"});
  refuse_config("optimizer.learning_rate=-1", {"optimizer.learning_rate"});
  refuse_config("optimizer.rule=sdg", {"optimizer.rule", "sgd"});
  refuse_config("optimizer.rule=adamW", {"did you mean adamw?"});
  refuse_config("train.microbatches=5", {"32", "5", "train.microbatches"});
  refuse_config("model.name=resnet21", {"resnet21", "resnet20"});
  refuse_config("nonsense", {"nonsense"});
  refuse_config("train.steps=1\n[data]\nset=\"drawn\"", {"more than one line"});
  refuse_config("train.seed=99999999999999999999", {"train.seed", "out of range"});
  refuse_config("optimizer.group=[{pattern=\"nothing*\"}]", {"optimizer.group", "nothing*", "there are "});
  expect_failure(run_lpmm({"plan", write("flat.toml", "memory = 5\n"), "--preset", "lpmm"}), 2,
                 {"memory", "table"});
  const std::string broken = write("broken.toml", "[train]\nepochs = = 3\n");
  expect_failure(run_lpmm({"plan", broken}), 2, {"broken.toml", "2"});
  const std::string mistyped = write("mistyped.toml", "[train]\nepochs = \"ten\"\n");
  expect_failure(run_lpmm({"plan", mistyped}), 2, {"mistyped.toml:2", "train.epochs"});
}

TEST_F(BadInput, PresetsAndPolicies) {
  expect_failure(run_lpmm({"plan", config(), "--preset", "lpmm-compat"}), 2, {"lpmm-compat", "lpmm-compact"});
  expect_failure(run_lpmm({"plan", config(), "--rounding", "up"}), 2, {"rounding", "up"});
  const auto with_override = [&](const std::string& name, const std::string& text) {
    return write(name, read_file(config()) + "\n[[memory.override]]\npattern = \"*\"\n" + text + "\n");
  };
  expect_failure(run_lpmm({"plan", with_override("a.toml", "parameter = \"ude8:block128:sr\"")}), 2,
                 {"parameter", "ude8"});
  expect_failure(run_lpmm({"plan", with_override("b.toml", "accumulator = \"int8:block128:sr:sticky\"")}), 2,
                 {"accumulator", "sticky"});
  expect_failure(run_lpmm({"plan", with_override("c.toml", "momentum = \"int8:block100:sr\"")}), 2,
                 {"block100"});
  const std::string unmatched =
      write("d.toml", read_file(config()) + "\n[[memory.override]]\npattern = \"nothing*\"\nexempt = true\n");
  expect_failure(run_lpmm({"plan", unmatched}), 2, {"nothing*"});
}

TEST_F(BadInput, DataThatIsMissingOrDamaged) {
  expect_failure(train_on(path("nowhere")), 1, {"cifar-10-batches-bin"});
  const std::string folder = cifar10();
  const std::string file = folder + "/cifar-10-batches-bin/data_batch_3.bin";
  fs::resize_file(file, 10000 * 3073 - 1);
  expect_failure(train_on(folder), 1, {"data_batch_3.bin", "30730000", "30729999"});
  fs::resize_file(file, 0);
  expect_failure(train_on(folder), 1, {"data_batch_3.bin"});
  fs::remove(file);
  expect_failure(train_on(folder), 1, {"data_batch_3.bin"});
  cifar10();
  std::fstream damaged(folder + "/cifar-10-batches-bin/test_batch.bin",
                       std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(3073 * 7);
  damaged.put(10);
  damaged.close();
  expect_failure(train_on(folder), 1, {"test_batch.bin", "label"});
}

TEST_F(BadInput, CheckpointsOfOthers) {
  train("run");
  const auto resume = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--resume", "--set", "train.steps=8"};
    all.insert(all.end(), more.begin(), more.end());
    return run_lpmm(train_arguments(all));
  };
  const Outcome again = run_lpmm(train_arguments({}));
  expect_failure(again, 2, {"run", "--resume"});
  EXPECT_NE(resume({"--preset", "lpmm-min"}).code, 0);
  EXPECT_NE(resume({"--set", "model.hidden=[24]"}).code, 0);
  // The run's own config is not in the way here: another one is named.
  const std::string wider = write("wider.toml", [&] {
    std::string text = read_file(config());
    return text.replace(text.find("[16]"), 4, "[24]");
  }());
  const Outcome other_model = run_lpmm({"eval", path("run"), "--config", wider});
  EXPECT_EQ(other_model.code, 1) << other_model.err;
  EXPECT_NE(other_model.err.find("shape"), std::string::npos) << other_model.err;
  const std::string compact = write("compact.toml", [&] {
    std::string text = read_file(config());
    return text.replace(text.find("\"lpmm\""), 6, "\"lpmm-min\"");
  }());
  const Outcome other_spec = run_lpmm({"eval", path("run"), "--config", compact});
  EXPECT_EQ(other_spec.code, 1) << other_spec.err;
  EXPECT_NE(other_spec.err.find("int"), std::string::npos) << other_spec.err;
  expect_failure(run_lpmm({"eval", path("none")}), 2, {"none"});
}

TEST_F(BadInput, DamagedCheckpoints) {
  train("run");
  const std::string model = path("run") + "/checkpoints/step_00000004/model.safetensors";
  const std::string state = path("run") + "/checkpoints/step_00000004/state.json";
  const std::string good_model = read_file(model), good_state = read_file(state);
  const auto rewrite = [](const std::string& name, const std::string& bytes) {
    std::ofstream(name, std::ios::binary) << bytes;
  };
  for (const std::size_t place : {std::size_t{3}, good_model.size() / 2, good_model.size() - 1}) {
    std::string flipped = good_model;
    flipped[place] = static_cast<char>(flipped[place] ^ 1);
    rewrite(model, flipped);
    for (const char* command : {"eval", "inspect"}) {
      expect_failure(run_lpmm({command, path("run")}), 1, {"model.safetensors"});
    }
  }
  rewrite(model, good_model.substr(0, good_model.size() - 7));
  expect_failure(run_lpmm({"eval", path("run")}), 1, {"model.safetensors"});
  rewrite(model, good_model);
  std::string flipped = good_state;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  rewrite(state, flipped);
  expect_failure(run_lpmm({"eval", path("run")}), 1, {"state.json"});
  rewrite(state, good_state);
  EXPECT_EQ(run_lpmm({"eval", path("run")}).code, 0);
}

TEST_F(BadInput, StatesThatCannotBeTrue) {
  train("run");
  const std::string file = path("run") + "/checkpoints/step_00000004/state.json", good = read_file(file);
  // Changes one value of the run's state and mends the checksum at its end.
  const auto resume_with = [&](const std::string& before, const std::string& after) {
    std::string text = good;
    const std::size_t at = text.rfind(before);
    if (at == std::string::npos) return Outcome{};
    text.replace(at, before.size(), after);
    const std::size_t crc = text.rfind("\"crc32\": \"") + 10;
    text.replace(crc, 8, "00000000");
    const std::uint32_t sum = crc32(std::as_bytes(std::span(text)));
    text.replace(crc, 8, fmt::format("{:08x}", sum));
    std::ofstream(file, std::ios::binary) << text;
    return run_lpmm(train_arguments({"--resume", "--set", "train.steps=8"}));
  };
  for (const char* step : {"-5", "4.5", "18446744073709551615"}) {
    expect_failure(resume_with("\"step\": 4", std::string("\"step\": ") + step), 1, {"state.json"});
  }
  // An epoch of other data would end there.
  expect_failure(resume_with("\"step\": 4", "\"step\": 3"), 2, {"was trained on", "examples"});
  expect_failure(resume_with("\"updates\": 4", "\"updates\": -1"), 1, {"state.json", "updates"});
  expect_failure(resume_with("\"skipped_steps\": 0", "\"skipped_steps\": -1"), 1,
                 {"state.json", "skipped_steps"});
  expect_failure(resume_with("\"seed\": 1", "\"seed\": 2"), 1, {"state.json", "seed"});
  EXPECT_EQ(resume_with("\"step\": 4", "\"step\": 4").code, 0);
}

TEST_F(BadInput, RefusedResumesLeaveTheRunAndNameTheEarlierCheckpoint) {
  train("run", {"--set", "checkpoint.every_steps=1", "--set", "checkpoint.keep=2"});
  const std::string config_before = read_file(path("run") + "/config.toml");
  expect_failure(run_lpmm(train_arguments({"--resume", "--set", "train.steps=2", "--set",
                                           "checkpoint.every_steps=1", "--set", "checkpoint.keep=2"})),
                 2, {"4 steps"});
  EXPECT_EQ(read_file(path("run") + "/config.toml"), config_before);
  fs::resize_file(path("run") + "/checkpoints/step_00000004/model.safetensors", 100);
  expect_failure(run_lpmm(train_arguments({"--resume", "--set", "train.steps=8"})), 1,
                 {"step_00000004", "step_00000003", "--resume"});
}

TEST_F(BadInput, StreamsThatCannotBeWritten) {
  for (const char* stream : {"/dev/full", "closed"}) {
    fs::remove_all(path("run"));
    std::vector<std::string> loud = train_arguments({});
    std::erase(loud, "--quiet");
    EXPECT_EQ(run_lpmm(loud, {{}, -1, -1, stream}).code, 0) << stream;
    EXPECT_TRUE(fs::exists(path("run") + "/checkpoints/step_00000004")) << stream;
    EXPECT_EQ(run_lpmm({"plot", path("run"), "--table", "--out", path("plot")}).code, 0) << stream;
    EXPECT_EQ(run_lpmm({"plan", path("none.toml")}, {{}, -1, -1, stream}).code, 2) << stream;
  }
}

TEST_F(BadInput, OutputsAndInputsThatAreNoOrdinaryFiles) {
  train("run");
  const std::string model = path("run") + "/checkpoints/step_00000004/model.safetensors";
  expect_failure(run_lpmm({"export", path("run"), "--out", model}), 2, {"model.safetensors"});
  expect_failure(run_lpmm({"export", path("run"), "--out", "/dev/null"}), 2, {"/dev/null"});
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(run_lpmm({"eval", path("run")}).code, 0);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  expect_failure(run_lpmm({"quantize", path("pipe"), "--spec", "int8"}), 1, {"pipe"});
  expect_failure(run_lpmm({"plan", path("pipe")}), 2, {"pipe"});
  expect_failure(run_lpmm({"plot", path("pipe"), "--table", "--out", path("p")}), 1, {"pipe"});
  // A file that may not grow: the export says so and leaves nothing.
  expect_failure(run_lpmm({"export", path("run"), "--out", path("e.safetensors")}, {{}, 1000, -1}), 1,
                 {"export"});
  EXPECT_FALSE(fs::exists(path("e.safetensors")));
  EXPECT_EQ(leftovers_in(path(".")), std::set<std::string>{});
}

TEST_F(BadInput, ThreadsThatCannotBeStarted) {
  const std::vector<std::string> bench = {"bench", "codec", "--elements", "1000", "--threads", "1000"};
  expect_failure(run_lpmm(bench, {{}, -1, std::int64_t{1} << 30}), 1, {"threads"});
}

TEST_F(BadInput, AFullDiskKeepsTheLastCheckpoint) {
  train("run", {"--set", "train.steps=2"});
  const std::uintmax_t bytes = fs::file_size(path("run") + "/checkpoints/step_00000002/model.safetensors");
  const Outcome full =
      run_lpmm(train_arguments({"--resume"}), {{}, static_cast<std::int64_t>(bytes / 2), -1});
  expect_failure(full, 1, {"step_00000004"});
  EXPECT_EQ(run_lpmm({"eval", path("run")}).code, 0);
  EXPECT_EQ(run_lpmm(train_arguments({"--resume"})).code, 0);
}

TEST_F(BadInput, AFolderThatCannotBeWritten) {
  write("file", "in the way");
  expect_failure(run_lpmm({"train", config(), "--quiet", "--out", path("file") + "/run"}), 1, {"file"});
  expect_failure(run_lpmm({"train", config(), "--quiet", "--out", "/proc/lpmm_run"}), 1, {"/proc/lpmm_run"});
}

TEST_F(BadInput, LossesThatAreNotFiniteEndTheRun) {
  const Outcome outcome = run_lpmm(train_arguments({"--set", "optimizer.learning_rate=1e30", "--set",
                                                    "train.max_failed_steps=2", "--set", "train.steps=20"}));
  expect_failure(outcome, 1, {"2 steps in a row"});
}

TEST_F(BadInput, TooLittleMemoryIsSaidBeforeTheFirstStep) {
  const Outcome outcome =
      run_lpmm(train_arguments({"--set", "model.hidden=[200000]"}), {{}, -1, std::int64_t{1} << 30});
  expect_failure(outcome, 1, {"memory"});
  train("small");
  std::string text = read_file(config());
  const std::string big = write("big.toml", text.replace(text.find("[16]"), 4, "[400000]"));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", path("small"), "--config", big}, {"bench", "train", big}}) {
    expect_failure(run_lpmm(command, {{}, -1, std::int64_t{1} << 30}), 1,
                   {"not enough memory: the run takes"});
  }
}

}  // namespace
}  // namespace lpmm
