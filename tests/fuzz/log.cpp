// log.jsonl.
#include "lpmm/run/log.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  static lpmm::fuzz::MemoryFile file;
  file.set(bytes);
  for (const lpmm::Json& record : lpmm::read_log(file.path())) lpmm::fuzz::must(record["type"].is_string());
}
