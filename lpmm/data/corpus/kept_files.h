// Files that are made once from a user's, and found again by what they were made from.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "lpmm/data/tokenizer.h"
#include "lpmm/files/json.h"

#include <nlohmann/json.hpp>

namespace lpmm {

// Name, length and time of change of each file: what tells that none was changed. Throws RunError for one
// that is not there.
Json identity_of_files(std::span<const std::string> files);

// All that a file of a tokenizer's ids is made of, as one text, which it keeps to be compared: `made_of`, the
// program's version, the tokenizer's files, and the ids of a text with whatever tokenizers trip over, so that
// a mended tokenizer serves no ids of before.
std::string kept_key(Json made_of, const Tokenizer& tokenizer);
// The name under which it keeps that.
inline constexpr const char* kMadeOf = "made_of";
// Where it lies: DATA/tokens/CHECKSUMENDING, DATA being data_folder().
std::string kept_path(std::string_view key, std::string_view ending);

// Calls `make`, which writes the file as a whole, unless `is_there` says that it was made; what it throws is
// said, and the file is made again. Of several processes one makes it, and the others wait for that; if it
// ends before the file is whole, another does.
void make_once(const std::string& path, const std::function<bool()>& is_there,
               const std::function<void()>& make);

}  // namespace lpmm
