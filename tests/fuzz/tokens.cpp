// Token files: the header, the tokenizer that it describes, the ids.
#include "lpmm/data/tokens.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  static lpmm::fuzz::MemoryFile file;
  file.set(bytes);
  const lpmm::TokenFile tokens(file.path());
  lpmm::fuzz::read([&] { lpmm::make_tokenizer(tokens.description(), ""); });
  std::array<std::int32_t, 64> ids;
  for (std::int64_t first = 0; first < tokens.size();) {
    const std::int64_t n = std::min<std::int64_t>(tokens.size() - first, ids.size());
    tokens.read(first, std::span(ids).first(static_cast<std::size_t>(n)));
    first += n;
  }
}
