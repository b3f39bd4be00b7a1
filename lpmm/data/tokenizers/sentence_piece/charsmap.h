// The character maps within a SentencePiece model. Its library trusts them, so that a damaged one makes it
// read what is not there.
#pragma once

#include <string>
#include <string_view>

namespace lpmm {

// `file`: what the file `path` holds. Throws RunError naming it where that is no model, or one of its maps
// leads anywhere but to a text of its own.
void check_charsmaps(const std::string& path, std::string_view file);

}  // namespace lpmm
