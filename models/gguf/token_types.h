// The kinds of tokens, numbered as in a GGUF and in a SentencePiece model.
#pragma once

namespace lpmm {

enum TokenType : int {
  kNormalToken = 1,
  kUnknownToken,
  kControlToken,  // special: has no text
  kUserToken,     // taken out of a text before anything else
  kUnusedToken,
  kByteToken  // <0x0A>
};

}  // namespace lpmm
