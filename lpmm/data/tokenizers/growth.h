// How much a tokenizer.json may make of a text: stages that double it, one behind another, would fill memory.
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

// What the stage throws where more came out of it.
RunError grows_too_much(const Part& stage);

}  // namespace lpmm
