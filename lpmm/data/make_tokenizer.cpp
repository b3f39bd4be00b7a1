// The tokenizer that a description stands for.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

using Json = nlohmann::ordered_json;

std::string member(const Json& description, const char* name) {
  if (!description.is_object() || !description.contains(name) || !description[name].is_string()) {
    throw RunError(fmt::format("the description of a tokenizer lacks the text \"{}\"", name));
  }
  return description[name].get<std::string>();
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const Json& description, const std::string& folder) {
  const std::string kind = member(description, "kind");
  if (kind == "bytes") return make_byte_tokenizer();
  if (kind == "characters") {
    const std::string characters = member(description, "characters");
    auto tokenizer = make_character_tokenizer(characters);
    if (member(tokenizer->describe(), "characters") != characters) {
      throw RunError("the description of a tokenizer has characters twice or not in code point order");
    }
    return tokenizer;
  }
  if (kind != kGpt2Tokenizer) {
    throw RunError(
        fmt::format("the description of a tokenizer has the kind {}; bytes, characters and gpt2 are "
                    "known",
                    shown(kind)));
  }
  const std::string expected = member(description, "checksum");
  auto tokenizer = load_gpt2_tokenizer(folder);
  const std::string found = member(tokenizer->describe(), "checksum");
  if (found != expected) {
    throw RunError(
        fmt::format("{}: its encoder.json and vocab.bpe have the checksum {}, {} was expected: give "
                    "the folder of those that the tokenizer was made from",
                    folder, found, shown(expected)));
  }
  return tokenizer;
}

}  // namespace lpmm
