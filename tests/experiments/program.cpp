#include "tests/experiments/program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace lpmm {
namespace {

void limit(int resource, std::int64_t bytes) {
  const rlimit value = {static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
  if (bytes >= 0 && setrlimit(resource, &value) != 0) _exit(99);
}

[[noreturn]] void become_lpmm(std::vector<std::string> arguments, const Surroundings& s, int out, int err) {
  for (const auto& [name, value] : s.environment) setenv(name.c_str(), value.c_str(), 1);
  limit(RLIMIT_FSIZE, s.file_bytes);
  limit(RLIMIT_AS, s.address_bytes);
  arguments.insert(arguments.begin(), LPMM_PROGRAM);
  arguments.insert(arguments.begin(), s.launcher.begin(), s.launcher.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (s.error_stream == "closed") {
    close(STDERR_FILENO);
  } else if (!s.error_stream.empty()) {
    dup2(open(s.error_stream.c_str(), O_WRONLY | O_CLOEXEC), STDERR_FILENO);
  }
  if (!s.folder.empty() && chdir(s.folder.c_str()) != 0) _exit(97);
  execvp(argv[0], argv.data());
  _exit(98);
}

std::string drain(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text.push_back(static_cast<char>(c));
  std::fclose(file);
  return text;
}

}  // namespace

pid_t start_lpmm(const std::vector<std::string>& arguments, const Surroundings& surroundings) {
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    become_lpmm(arguments, surroundings, nowhere, nowhere);
  }
  return child;
}

Outcome run_lpmm(const std::vector<std::string>& arguments, const Surroundings& surroundings) {
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  EXPECT_TRUE(out != nullptr && err != nullptr);
  const pid_t child = fork();
  if (child == 0) become_lpmm(arguments, surroundings, fileno(out), fileno(err));
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = drain(out);
  outcome.err = drain(err);
  return outcome;
}

ProgramTest::ProgramTest() {
  std::string name = (std::filesystem::temp_directory_path() / "lpmm_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = name;
}

ProgramTest::~ProgramTest() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string ProgramTest::write(const std::string& name, const std::string& bytes) const {
  std::filesystem::create_directories((folder_ / name).parent_path());
  std::ofstream(path(name), std::ios::binary) << bytes;
  return path(name);
}

std::string ProgramTest::config() const {
  return write("config.toml", R"(
[model]
name = "mlp"
hidden = [16]
[data]
set = "drawn"
train_images = 128
test_images = 32
augment = false
[train]
steps = 4
batch = 32
microbatches = 2
compute = "fp32"
[optimizer]
rule = "sgd"
learning_rate = 0.002
momentum = 0.9
[memory]
preset = "lpmm"
)");
}

void ProgramTest::train(const std::string& out, const std::vector<std::string>& more) const {
  std::vector<std::string> arguments = {"train", config(), "--quiet", "--threads", "1", "--out", path(out)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run_lpmm(arguments);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
}

void expect_failure(const Outcome& outcome, int code, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  for (const std::string& word : words) {
    EXPECT_NE(outcome.err.find(word), std::string::npos) << "no \"" << word << "\" in: " << outcome.err;
  }
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace lpmm
