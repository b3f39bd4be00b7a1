// log.jsonl: one JSON record a line. Types: config, system, ledger, step, eval, underflow, watch, spike,
// checkpoint, summary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lpmm/files/files.h"
#include "lpmm/files/json.h"

namespace lpmm {

class RunLog {
 public:
  // Opens or creates the log, to go on at its end. Throws RunError where another process writes it.
  explicit RunLog(const std::string& path);
  ~RunLog();  // removes a log that is empty, and a wish to stop
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;
  // Cuts it to its first `bytes`, which `checkpoint` knows of. Throws RunError where it is shorter, or where
  // their checksum is not `crc32`, if that is known.
  void cut(std::uint64_t bytes, std::optional<std::uint32_t> crc32 = {}, const std::string& checkpoint = "");
  void write(const Json& record);
  void sync();
  // Throws RunError where its path leads to it no more: its folder was moved, removed or replaced.
  void check_place() const;
  bool is_to_stop() const;  // ask_to_stop() was called since it was opened
  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t checksum() const { return crc32_; }  // of what was kept by cut() and written since

 private:
  std::string path_;
  File file_;
  std::uint64_t bytes_ = 0;
  std::uint32_t crc32_ = 0;
};

// Asks the process that writes this log to stop after its step, by a file beside it: whoever may write there
// may ask, from any host, and no other process is ever meant. False: none writes it. Throws RunError where it
// cannot be asked.
bool ask_to_stop(const std::string& path);

// All whole records of a log; a last line that was cut off is left out. Throws RunError naming a bad line.
std::vector<Json> read_log(const std::string& path);

}  // namespace lpmm
