// A limit on the growth of a text in a tokenizer.json: stages in a row that double it would fill memory.
#pragma once

#include <cstddef>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizers/part.h"

namespace lpmm {

inline constexpr std::size_t kGrowthLimit = 32;

// The most bytes that all stages may make of `bytes`. U+FDFA, of which NFKC and ByteLevel make 22 times as
// much, is the largest of real ones.
constexpr std::size_t room_for(std::size_t bytes) {
  constexpr std::size_t kForShort = 4096;
  return kGrowthLimit * bytes + kForShort;
}

// The error of a stage whose output passes the limit.
RunError grows_too_much(const Part& stage);

}  // namespace lpmm
