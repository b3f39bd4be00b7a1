#include "lpmm/program/published_facts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lpmm/base/terminal.h"

namespace lpmm {

SpecialTokens parse_special_tokens(const Json& object, std::int64_t vocabulary, std::string* left_out) {
  constexpr std::size_t kMost = 256, kShown = 60;
  SpecialTokens tokens;
  for (const char* name : {kBeginToken, kEndToken, kPadToken}) {
    const auto said = object.find(name);
    if (!object.is_object() || said == object.end() || said->is_null()) continue;
    std::vector<std::int32_t> ids;
    const auto add = [&](const Json& id) {
      const bool is_token = id.is_number_integer() && id >= 0 && id < vocabulary;
      if (is_token) ids.push_back(id.get<std::int32_t>());
      return is_token || (id.is_number_integer() && id < 0);
    };
    bool is_good = true;
    if (said->is_array()) {
      is_good = said->size() <= kMost;
      for (std::size_t i = 0; i < said->size() && is_good; ++i) is_good = add((*said)[i]);
    } else {
      is_good = add(*said);
    }
    if (is_good && !ids.empty()) tokens.emplace_back(name, std::move(ids));
    if (is_good || left_out == nullptr) continue;
    *left_out += fmt::format("{}{} is {}", left_out->empty() ? "" : ", ", name,
                             cut_to_columns(printable(said->dump()), kShown));
  }
  return tokens;
}

Json special_tokens_json(const SpecialTokens& tokens) {
  Json object = Json::object();
  for (const auto& [name, ids] : tokens) object[name] = ids.size() == 1 ? Json(ids[0]) : Json(ids);
  return object;
}

}  // namespace lpmm
