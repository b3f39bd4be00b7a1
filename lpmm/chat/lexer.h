// A chat template in pieces.
#pragma once

#include <string>
#include <vector>

#include "lpmm/chat/value.h"

namespace lpmm::chat {

struct Token {
  enum Kind {
    kText,
    kBlockBegin,
    kBlockEnd,
    kVariableBegin,
    kVariableEnd,
    kName,
    kConstant,
    kOperator,
    kEnd
  };
  Kind kind;
  int line;
  std::string text;  // of a name or operator; of kText what is written
  Value value = {};  // of a constant
};

// Throws Problem("line N: WHY"). The last one is kEnd.
std::vector<Token> split_tokens(const std::string& source);

}  // namespace lpmm::chat
