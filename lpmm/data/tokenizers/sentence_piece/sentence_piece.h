// SentencePiece models (Kudo and Richardson 2018), BPE and unigram, through their library.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lpmm/data/tokenizer.h"

namespace lpmm {

// What is declared here throws RunError where this lpmm was built without the library, and where a file is
// wrong.
// `spaced`: with the space in front of a text that most models say.
std::unique_ptr<Tokenizer> load_sentence_piece(const std::string& path, bool spaced = true);

// A model for those who number its pieces themselves.
class SentencePieces {
 public:
  virtual ~SentencePieces() = default;
  // As the library spells them; neighbours that it does not know are one. `text` is UTF-8. Throws UsageError
  // where the library refuses it.
  virtual std::vector<std::string> cut(std::string_view text) const = 0;
  // The bytes of a piece within a text.
  virtual std::string within_text(const std::string& piece) const = 0;
};
// `file`: what the file holds, `path`: its name in messages.
std::unique_ptr<SentencePieces> read_sentence_pieces(const std::string& path, const std::string& file);

struct SentencePieceOptions {
  std::string type = "unigram";  // or bpe
  int vocabulary = 8000;         // pieces, <unk>, <s> and </s> among them
  double coverage = 1;           // share of the texts' characters that have a piece
};
// The model, as its file holds it, of texts with a sentence a line, each as it is or as .gz; the same for the
// same texts. Throws UsageError where the library refuses them, as it does a vocabulary that is too large for
// them.
std::string train_sentence_piece(const SentencePieceOptions& options, const std::vector<std::string>& files);

}  // namespace lpmm
