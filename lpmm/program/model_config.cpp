#include "lpmm/program/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

namespace lpmm {
namespace {

template <class T>
const T& held(const ModelConfig& config, std::string_view key) {
  const T* value = std::get_if<T>(&config.value(key));
  if (value == nullptr) {
    throw std::logic_error(fmt::format("{}: setting {} is of another kind", config.name, key));
  }
  return *value;
}

}  // namespace

std::string to_text(const SettingValue& value) {
  const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
  if (list != nullptr) return fmt::format("[{}]", fmt::join(*list, ", "));
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  return std::get<bool>(value) ? "true" : "false";
}

bool ModelConfig::has(std::string_view key) const {
  return std::ranges::find(settings, key, [](const auto& s) { return s.first; }) != settings.end();
}
bool ModelConfig::flag(std::string_view key) const {
  return held<bool>(*this, key);
}
int ModelConfig::integer(std::string_view key) const {
  return static_cast<int>(held<std::int64_t>(*this, key));
}
double ModelConfig::number(std::string_view key) const {
  return held<double>(*this, key);
}
const std::vector<std::int64_t>& ModelConfig::integers(std::string_view key) const {
  return held<std::vector<std::int64_t>>(*this, key);
}

const SettingValue& ModelConfig::value(std::string_view key) const {
  const auto at =
      std::find_if(settings.begin(), settings.end(), [&](const auto& s) { return s.first == key; });
  if (at == settings.end()) throw std::logic_error(fmt::format("{} has no setting {}", name, key));
  return at->second;
}

void ModelConfig::set(std::string_view key, SettingValue given) {
  const auto at =
      std::find_if(settings.begin(), settings.end(), [&](const auto& s) { return s.first == key; });
  if (at == settings.end() || at->second.index() != given.index()) {
    throw std::logic_error(fmt::format("{} has no setting {} of this kind", name, key));
  }
  at->second = std::move(given);
}

}  // namespace lpmm
