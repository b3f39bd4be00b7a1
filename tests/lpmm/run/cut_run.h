// A run that seems to have been stopped, for tests that go on with it.
#pragma once

#include <filesystem>
#include <string>

#include "lpmm/files/files.h"

namespace lpmm {

// Copies the folder of a run of eight steps, with a checkpoint of each, as it was after the third: without
// later checkpoints and without the summary in its log.
inline void copy_cut_at_3(const std::string& whole, const std::string& part) {
  std::filesystem::copy(whole, part, std::filesystem::copy_options::recursive);
  for (int step = 4; step <= 8; ++step) {
    std::filesystem::remove_all(part + "/checkpoints/step_0000000" + std::to_string(step));
  }
  const std::string log = read_text(part + "/log.jsonl", 1 << 20);
  write_text(part + "/log.jsonl", log.substr(0, log.rfind("{\"type\"")));
}

}  // namespace lpmm
