// JSON as files hold it, checked where it comes from outside.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lpmm {

using Json = nlohmann::ordered_json;

enum class SameNames { kLastCounts, kRefused };

// Takes time that grows with the text alone, unlike Json::parse, which looks through all members of an object
// for each name. Throws Json::exception for what is no JSON, RunError for a zero byte, for a name that comes
// twice where that is refused, and for more than `deepest` objects and lists within one another.
Json parse_json(const std::string& text, std::size_t deepest = 64, SameNames same = SameNames::kLastCounts);

// The NaN, Infinity and -Infinity that Python writes are no JSON: each becomes the text of its name, which
// whoever wants a number refuses.
std::string with_named_numbers(std::string text);

// Reads a file of at most `limit` bytes, with named numbers. Throws RunError naming it.
Json read_json(const std::string& path, std::uint64_t limit);

// A count that a file holds, which may say anything: an integer of 0 to 2^62, so that a run can add to it.
// Throws RunError("WHAT is ...").
std::int64_t to_count(const Json& value, const std::string& what);

}  // namespace lpmm
