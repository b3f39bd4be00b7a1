// A tokenizer with tokens added beside its file, as added_tokens.json or tokenizer_config.json list them.
#pragma once

#include <memory>
#include <string>

#include "lpmm/data/tokenizer.h"

namespace lpmm {

// The tokenizer of a file as it is, or where the files beside add tokens behind its own, one that takes these
// and special ones out of a text first. `behind`, where it is not null, reads what follows such a token.
// Throws RunError where ids are not those that follow its own.
std::unique_ptr<Tokenizer> with_added_tokens(std::unique_ptr<Tokenizer> inner,
                                             std::unique_ptr<Tokenizer> behind, const std::string& path);

}  // namespace lpmm
