// log.jsonl: one JSON record a line. Types: config, system, ledger, step, eval, underflow, checkpoint,
// summary.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lpmm/files/files.h"

namespace lpmm {

using Json = nlohmann::ordered_json;

// JSON from outside. Throws Json::exception for what is none, RunError for what is nested so deeply that
// copying it would end the stack.
Json parse_json(const std::string& text);

class RunLog {
 public:
  // Opens or creates the log, to go on at its end. Throws RunError where another process writes it.
  explicit RunLog(const std::string& path);
  // Cuts it to its first `bytes`; throws RunError where it is shorter.
  void cut(std::uint64_t bytes);
  void write(const Json& record);
  void sync();
  std::uint64_t bytes() const { return bytes_; }

 private:
  File file_;
  std::uint64_t bytes_ = 0;
};

// All whole records of a log; a last line that was cut off is left out. Throws RunError naming a bad line.
std::vector<Json> read_log(const std::string& path);

}  // namespace lpmm
