// JSON as files hold it, checked where it comes from outside.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lpmm {

using Json = nlohmann::ordered_json;

// Throws Json::exception for what is no JSON, RunError for what is nested so deeply that copying it would end
// the stack.
Json parse_json(const std::string& text);

// Reads a file of at most `limit` bytes. Throws RunError naming it.
Json read_json(const std::string& path, std::uint64_t limit);

// A count that a file holds, which may say anything: an integer of 0 to 2^62, so that a run can add to it.
// Throws RunError("WHAT is ...").
std::int64_t to_count(const Json& value, const std::string& what);

}  // namespace lpmm
