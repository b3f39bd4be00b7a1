#include "lpmm/files/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"

namespace lpmm {

Json parse_json(const std::string& text) {
  constexpr int kDeepest = 64;
  return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) throw RunError("nested too deeply");
    return true;
  });
}

Json read_json(const std::string& path, std::uint64_t limit) {
  const std::string text = read_text(path, limit);
  try {
    return parse_json(text);
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{}: {}", path, error_text(e)));
  }
}

std::int64_t to_count(const Json& value, const std::string& what) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > kMost) {
    throw RunError(fmt::format("{} is {}", what, value.dump()));
  }
  return value.get<std::int64_t>();
}

}  // namespace lpmm
