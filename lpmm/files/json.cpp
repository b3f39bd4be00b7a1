#include "lpmm/files/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"

namespace lpmm {

Json parse_json(const std::string& text) {
  constexpr int kDeepest = 64;
  return Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) throw RunError("nested too deeply");
    return true;
  });
}

std::int64_t to_count(const Json& value, const std::string& what) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > kMost) {
    throw RunError(fmt::format("{} is {}", what, value.dump()));
  }
  return value.get<std::int64_t>();
}

}  // namespace lpmm
