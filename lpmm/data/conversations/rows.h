// The rows of files that hold conversations, and what they say.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lpmm/files/json.h"

#include <nlohmann/json.hpp>

namespace lpmm {

// What a row holds: messages, or a text that is learnt from `completion` on.
struct Conversation {
  Json messages = nullptr;  // a list of objects with role and content, as templates take them
  Json tools = nullptr;     // a list, or null
  std::string prompt, completion;
};

// The files of a path, which is one or a folder of them. Throws RunError for what is none.
std::vector<std::string> conversation_files(const std::string& path);

// Calls `take` with each row of a file, "line N" or "item N", until it returns false. A row that is no JSON
// comes as a text of why, in place of an object. Throws RunError for what ends the reading of a whole file.
void for_each_row(const std::string& file,
                  const std::function<bool(const std::string& place, const Json& row)>& take);

// Throws RunError that says what is wrong with the row. `columns`: data.columns; adds the names of columns
// that are not read to `unused`.
Conversation conversation_of(const Json& row, const std::vector<std::string>& columns,
                             std::vector<std::string>& unused);

}  // namespace lpmm
