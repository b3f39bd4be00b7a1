// Cross-entropy of the next token.
#pragma once

#include <string>

#include "lpmm/program/builder.h"

namespace lpmm {

// Mean over the tokens of the cross-entropy of their labels under logits = x times the transpose of
// `name`.weight (vocabulary, channels), normal of that deviation.
void token_loss(ProgramBuilder& b, const std::string& name, Value x, int vocabulary, double deviation);
// The same with the weight of an embedding before it, which both share.
void tied_token_loss(ProgramBuilder& b, const std::string& embedding, Value x);

}  // namespace lpmm
