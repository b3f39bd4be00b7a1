#include "lpmm/data/tokenizers/part.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lpmm/base/text.h"
#include "lpmm/data/tokenizers/growth.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/files.h"
#include "lpmm/files/json.h"

namespace lpmm {

using AnyJson = nlohmann::json;

namespace {

// Returns how deeply objects and lists are nested. The parser could watch that itself, but then it looks
// through a whole list at the end of each object in it.
int depth_of(std::string_view text) {
  int depth = 0, most = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++at;
    if (quoted) continue;
    if (c == '{' || c == '[') most = std::max(most, ++depth);
    if (c == '}' || c == ']') --depth;
  }
  return most;
}

}  // namespace

AnyJson read_sorted_json(const std::string& path) {
  constexpr std::uint64_t kMost = 64 << 20;
  constexpr int kDeepest = 32;
  const std::string text = with_named_numbers(read_text(path, kMost));
  // The parser takes a zero byte for the end.
  if (text.find('\0') != std::string::npos) throw RunError(fmt::format("{}: is no JSON", path));
  if (depth_of(text) > kDeepest) throw RunError(fmt::format("{}: is nested too deeply", path));
  try {
    return AnyJson::parse(text);
  } catch (const AnyJson::exception&) {
    throw RunError(fmt::format("{}: is no JSON; it may be cut off", path));
  }
}

Part::Part(const AnyJson& json, std::string file, std::string name)
    : json_(&json), file_(std::move(file)), name_(std::move(name)) {
  if (!json.is_object()) throw refusal("is no JSON object");
}

RunError Part::refusal(std::string_view what) const {
  return RunError(fmt::format("{}: {}{}{}", file_, name_, name_.empty() ? "" : ": ", what));
}

bool Part::has(const char* key) const {
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

const AnyJson& Part::member(const char* key) const {
  if (!has(key)) throw refusal(fmt::format("has no {}", key));
  return *json_->find(key);
}

Part Part::at(const char* key) const {
  return {member(key), file_, name_.empty() ? key : name_ + "." + key};
}

std::vector<Part> Part::list(const char* key) const {
  if (!member(key).is_array()) throw refusal(fmt::format("{} is no list", key));
  std::vector<Part> parts;
  for (const AnyJson& one : member(key)) {
    parts.emplace_back(one, file_,
                       fmt::format("{}{}{}[{}]", name_, name_.empty() ? "" : ".", key, parts.size()));
  }
  return parts;
}

bool Part::is_text(const char* key) const {
  return member(key).is_string();
}

std::string Part::text(const char* key) const {
  if (!is_text(key)) throw refusal(fmt::format("{} is no text", key));
  return member(key).get<std::string>();
}

std::string Part::text(const char* key, const char* otherwise) const {
  return has(key) ? text(key) : otherwise;
}

bool Part::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!member(key).is_boolean()) throw refusal(fmt::format("{} is neither true nor false", key));
  return member(key).get<bool>();
}

std::int64_t Part::integer(const char* key, std::int64_t low, std::int64_t high) const {
  // Past 2^63 the value comes back negative.
  const std::int64_t value = member(key).is_number_integer() ? member(key).get<std::int64_t>() : low - 1;
  if (value < low || value > high) {
    throw refusal(fmt::format("{} is no whole number from {} to {}", key, low, high));
  }
  return value;
}

std::int64_t Part::integer(const char* key, std::int64_t low, std::int64_t high,
                           std::int64_t otherwise) const {
  return has(key) ? integer(key, low, high) : otherwise;
}

double Part::number(const char* key, double otherwise) const {
  if (!has(key)) return otherwise;
  if (!member(key).is_number()) throw refusal(fmt::format("{} is no number", key));
  return member(key).get<double>();
}

std::int32_t Part::id(const AnyJson& value) const {
  constexpr std::uint64_t kMost = 1 << 24;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= kMost) {
    throw refusal(fmt::format("{} is no id of a token", shown(value.dump())));
  }
  return value.get<std::int32_t>();
}

std::vector<std::int32_t> Part::ids(const char* key) const {
  if (!member(key).is_array() || member(key).empty()) throw refusal(fmt::format("{} is no list of ids", key));
  std::vector<std::int32_t> ids;
  for (const AnyJson& one : member(key)) ids.push_back(id(one));
  return ids;
}

std::int32_t Part::named_id(const char* key) const {
  if (!member(key).is_array() || member(key).size() != 2) {
    throw refusal(fmt::format("{} is no token with its id", key));
  }
  return id(member(key)[1]);
}

RunError unsupported(const Part& part, std::string_view kind, const std::string& type,
                     std::span<const std::string_view> known) {
  return RunError(
      fmt::format("{}: {} {} is not supported; there are {}", part.file(), kind, shown(type), join(known)));
}

RunError grows_too_much(const Part& stage) {
  return stage.refusal(
      fmt::format("makes more than {} times as much of a text or of its tokens; take this part out, or "
                  "another tokenizer",
                  kGrowthLimit));
}

}  // namespace lpmm
