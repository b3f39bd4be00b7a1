// Runs the built `lpmm` as a user would, in a folder of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lpmm {

struct Outcome {
  int code = -1;  // 128 + signal where a signal ended it
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

struct Surroundings {
  std::map<std::string, std::string> environment = {};  // added to ours
  std::int64_t file_bytes = -1;                         // no file may grow beyond: a full disk
  std::int64_t address_bytes = -1;                      // no more address space: a small machine
  std::string error_stream = {};                        // file that takes standard error; "closed": none does
  std::string folder = {};                              // the folder it runs in; empty: here
  std::vector<std::string> launcher = {};               // the words before the program: mpirun
};

// Starts it and goes on without its output; the process must be waited for.
pid_t start_lpmm(const std::vector<std::string>& arguments, const Surroundings& surroundings = {});

Outcome run_lpmm(const std::vector<std::string>& arguments, const Surroundings& surroundings = {});

// The model of tests/golden/roberta_tiny, as a config has it.
inline constexpr const char* kTinyRobertaModel = R"([model]
name = "roberta"
layers = 2
heads = 4
embedding = 16
mlp_width = 20
context = 24
vocabulary = 280
)";

// A folder that is removed after the test, and files in it.
class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest();
  ~ProgramTest() override;
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const;
  // A small MLP on the drawn set: a second of training.
  std::string config() const;
  // Trains it into path(out), which must succeed.
  void train(const std::string& out, const std::vector<std::string>& more = {}) const;

 private:
  std::filesystem::path folder_;
};

// The program failed as it should: the code, a message that names the thing, no half an answer.
void expect_failure(const Outcome& outcome, int code, const std::vector<std::string>& words);

std::string read_file(const std::string& path);

}  // namespace lpmm
