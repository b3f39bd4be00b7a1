// The way in which sentence-transformers makes the vector of a sentence, as modules.json says it.
#pragma once

#include <cstdint>
#include <string>

namespace lpmm {

// [CLS] is the first; weighted, the first position counts once in the mean, the second twice, and so on.
enum class PooledFrom : std::uint8_t { kMean, kWeighted, kFirst, kLast };

struct SentenceVector {
  PooledFrom from = PooledFrom::kMean;
  bool has_unit = false;       // it is made of length 1
  int longest = 0;             // tokens of a sentence; 0: nobody says it
  std::string prompt = {};     // stands in front of every sentence
  bool leaves_prompt = false;  // the mean is to be without the prompt's positions, which is not here
  int width = 0;               // so many channels of it are told; 0: all
};
// Reads the files in a folder; without any, the vector is the mean. Throws RunError naming what is not
// supported: other ways of pooling, other modules, a model in a folder inside.
SentenceVector read_sentence_vector(const std::string& folder);
// How that of a model of that type is made: by a mean, or from its `own` position. Throws RunError for
// another way.
PooledFrom pooled_from(const std::string& folder, PooledFrom own, std::string_view type);

}  // namespace lpmm
