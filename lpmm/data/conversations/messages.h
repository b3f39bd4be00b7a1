// What rows of files say of messages, as chat templates take them. All throw RunError that says what is
// wrong.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lpmm/files/json.h"

#include <nlohmann/json.hpp>

namespace lpmm {

void refuse_unless(bool holds, const std::string& why);
// "" where there is none.
std::string text_at(const Json& object, const char* name);
Json turn(const char* role, std::string text);

// One message, {"role", "content"} or ShareGPT's {"from", "value"}: transformers leaves out what is null, and
// has a name for what was thought.
Json message_of(const Json& said);
// The list under that name, behind those that are there.
void add_messages(const Json& list, const char* name, Json& messages);
// The column "tools"; null: there are none.
Json tools_of(const Json& row);
// The columns "system" and "history", a list of pairs of a question and an answer; an empty list where there
// are none.
Json said_before(const Json& row);
// The columns "instruction" and "input".
std::string instruction_of(const Json& row);

// Returns true if a row has such a column, with something else than null.
bool has_column(const Json& row, const std::string& name);
// "a, b": the names of the columns, for messages.
std::string column_names(const Json& row);
// Adds the columns that are not `used`, of which some hundred are kept.
void note_unused(const Json& row, std::span<const std::string> used, std::vector<std::string>& unused);

}  // namespace lpmm
