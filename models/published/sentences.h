// How sentence-transformers makes the vector of a sentence from a model, as modules.json says.
#pragma once

#include <string>

namespace lpmm {

struct SentenceVector {
  bool of_first = false;  // the vector of the first position, [CLS]; else the mean of all
  bool has_unit = false;  // it is made of length 1
  int longest = 0;        // tokens of a sentence; 0: nobody says it
};
// What the files in a folder say; the mean where there are none. Throws RunError naming what is not
// supported: other ways of pooling, other modules, a model in a folder inside.
SentenceVector read_sentence_vector(const std::string& folder);

}  // namespace lpmm
