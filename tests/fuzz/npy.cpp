// NumPy files, headers and values.
#include "lpmm/files/npy.h"

#include <algorithm>
#include <array>

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  static lpmm::fuzz::MemoryFile file;
  file.set(bytes);
  lpmm::NpyReader reader(file.path());
  std::array<float, 64> values;
  for (std::int64_t left = reader.elements(); left > 0;) {
    const std::int64_t n = std::min<std::int64_t>(left, values.size());
    reader.read(std::span(values).first(static_cast<std::size_t>(n)));
    left -= n;
  }
}
