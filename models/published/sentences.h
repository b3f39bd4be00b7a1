// The way in which sentence-transformers makes the vector of a sentence, as modules.json says it.
#pragma once

#include <cstdint>
#include <string>

namespace lpmm {

enum class PooledFrom : std::uint8_t { kMean, kFirst, kLast };  // [CLS] is the first

struct SentenceVector {
  PooledFrom from = PooledFrom::kMean;
  bool has_unit = false;  // it is made of length 1
  int longest = 0;        // tokens of a sentence; 0: nobody says it
};
// Reads the files in a folder; without any, the vector is the mean. Throws RunError naming what is not
// supported: other ways of pooling, other modules, a model in a folder inside.
SentenceVector read_sentence_vector(const std::string& folder);
// Throws RunError where a model of that type does not make it so, but in one of two ways, one of which is the
// mean.
bool is_pooled(const std::string& folder, PooledFrom from, std::string_view type);

}  // namespace lpmm
