// Archives of data sets.
#include "experiments/download/unpack.h"
#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  static lpmm::fuzz::MemoryFile file;
  static const std::string folder = lpmm::fuzz::memory_folder();
  static const std::vector<lpmm::DataFile> files = {{"a.bin", 10, ""}, {"b.bin", 0, ""}};
  file.set(bytes);
  lpmm::unpack(file.path(), "fuzz.tar.gz", "set", files, folder);
}
