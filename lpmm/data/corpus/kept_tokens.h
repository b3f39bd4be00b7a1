// Tokens of texts, made once into a token file of the data folder.
#pragma once

#include <span>
#include <string>

#include "lpmm/data/tokenizer.h"

namespace lpmm {

// The path of that file, which is made where it is not there: the tokens of all files that are not empty,
// each followed by the one that ends a text where several are left. Memory of a few times 16 MiB is used.
// Throws what encode() throws, and UsageError where all files are empty. `progress` counts bytes encoded.
std::string kept_tokens(std::span<const std::string> files, const Tokenizer& tokenizer,
                        const ProgressCall& progress);

}  // namespace lpmm
