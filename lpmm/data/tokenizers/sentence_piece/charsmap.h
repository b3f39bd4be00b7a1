// The character maps within a SentencePiece model, or in a tokenizer.json. SentencePiece's library trusts
// them, so that a damaged one makes it read what is not there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lpmm {

// `file`: what the file `path` holds. Throws RunError naming it where that is no model, or one of its maps
// leads anywhere but to a text of its own.
void check_charsmaps(const std::string& path, std::string_view file);

// What is wrong with a map; empty: nothing.
std::string_view charsmap_damage(std::string_view map);
// What the shortest start of `text` that the map knows becomes; nothing: it knows none. `map`: not damaged,
// and not empty.
std::optional<std::string_view> find_in_charsmap(std::string_view map, std::string_view text);

}  // namespace lpmm
