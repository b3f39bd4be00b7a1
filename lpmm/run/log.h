// log.jsonl: one JSON record a line. Types: config, system, ledger, step, eval, underflow, checkpoint,
// summary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lpmm/files/files.h"
#include "lpmm/files/json.h"

namespace lpmm {

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
