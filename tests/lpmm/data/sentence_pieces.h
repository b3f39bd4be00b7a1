// Tells tests of SentencePiece models whether this build has the library.
#pragma once

#include <string>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizers/sentence_piece/sentence_piece.h"

namespace lpmm {

// Returns the reason why there is no library; empty if there is one.
inline std::string missing_library() {
  try {
    load_sentence_piece("");
  } catch (const RunError& e) {
    const std::string said = e.what();
    return said.find("built without SentencePiece") == std::string::npos ? "" : said;
  }
  return "";
}

}  // namespace lpmm
