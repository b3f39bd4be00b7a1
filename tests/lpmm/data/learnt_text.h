// Which tokens of documents are learnt, as text, for a tokenizer of bytes.
#pragma once

#include <string>
#include <vector>

#include "lpmm/data/conversations/conversations.h"

namespace lpmm {

// Returns the learnt bytes of all documents, with a | after each run of them.
inline std::string learnt_text(const std::vector<Document>& documents) {
  std::string out;
  for (const Document& one : documents) {
    for (std::size_t i = 0; i < one.ids.size(); ++i) {
      if (one.learnt[i] != 0) out += static_cast<char>(one.ids[i]);
      if (one.learnt[i] != 0 && (i + 1 == one.ids.size() || one.learnt[i + 1] == 0)) out += '|';
    }
  }
  return out;
}

}  // namespace lpmm
