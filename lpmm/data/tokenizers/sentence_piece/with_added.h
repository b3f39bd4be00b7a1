// A tokenizer whose special and added tokens are found in texts, as the files beside it say.
#pragma once

#include <memory>
#include <string>

#include "lpmm/data/tokenizer.h"

namespace lpmm {

// The tokenizer of a file as it is, or where there are settings beside it, one that takes added tokens,
// special ones and the model's controls (<s>, </s>, <unk>) out of a text first, as transformers does.
// `behind`, where it is not null, reads what follows such a token. Before kControls, special ones and
// controls were found only where tokens were added. Throws RunError where ids of added ones are not those
// that follow its own.
std::unique_ptr<Tokenizer> with_added_tokens(std::unique_ptr<Tokenizer> inner,
                                             std::unique_ptr<Tokenizer> behind, const std::string& path,
                                             SentencePieceAge age);

}  // namespace lpmm
