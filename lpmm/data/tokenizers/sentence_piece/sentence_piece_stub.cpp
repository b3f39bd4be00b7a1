// In place of sentence_piece.cpp where the library is missing or not wanted.
#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizers/sentence_piece/sentence_piece.h"

namespace lpmm {
namespace {

RunError built_without(const std::string& what) {
  return RunError(fmt::format(
      "{}: this lpmm was built without SentencePiece; install libsentencepiece-dev and build it again",
      what));
}

}  // namespace

std::unique_ptr<Tokenizer> load_sentence_piece(const std::string& path, bool) {
  throw built_without(path);
}

std::unique_ptr<SentencePieces> read_sentence_pieces(const std::string& path, const std::string&) {
  throw built_without(path);
}

std::string train_sentence_piece(const SentencePieceOptions&, const std::vector<std::string>& files) {
  throw built_without(files.empty() ? "" : files.front());
}

}  // namespace lpmm
