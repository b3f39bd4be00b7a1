// safetensors files: the header, then the bytes of every tensor.
#include "lpmm/files/safetensors.h"

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  static lpmm::fuzz::MemoryFile file;
  file.set(bytes);
  const lpmm::SafetensorsFile opened(file.path());
  for (const lpmm::SafetensorsEntry& entry : opened.entries()) {
    lpmm::fuzz::must(entry.bytes <= bytes.size());
    std::vector<std::byte> values(entry.bytes);
    opened.read(entry, 0, values);
  }
}
