// What each file that reads or writes JSON would compile for itself is compiled once, in json_compiled.cpp.
// For precompiled headers, in place of <nlohmann/json.hpp>.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

extern template class std::vector<nlohmann::json>;
extern template class std::vector<nlohmann::ordered_json>;
extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class nlohmann::detail::serializer<nlohmann::json>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;
