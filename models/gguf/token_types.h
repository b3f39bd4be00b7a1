// What a token is, as a GGUF and a SentencePiece model number it.
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
