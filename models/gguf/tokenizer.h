// The tokenizer within a GGUF, byte-level BPE or SentencePiece's, as a tokenizer.json, and back.
#pragma once

#include <cstdint>
#include <string>

#include "lpmm/files/json.h"
#include "models/gguf/file.h"

namespace lpmm {

// Writes into `folder` the files by which it is known elsewhere: those of the tokenizer, its settings, the
// template of a dialogue. Adds the special tokens to the model's config.json. Returns what is left out, and
// why; empty: nothing. Throws RunError for lists that do not go together.
std::string unpack_tokenizer(const GgufFile& file, const std::string& folder, Json& config);

// Adds what the files of an exported folder say to the keys of a GGUF whose model has so many tokens. Returns
// why there is no tokenizer among them; empty: there is one.
std::string add_tokenizer(const std::string& folder, std::int64_t vocabulary, Json& keys);

}  // namespace lpmm
