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
  const auto text = []<class T>(const T& held) {
    if constexpr (requires { held.begin(); })
      return fmt::format("[{}]", fmt::join(held, ", "));
    else
      return fmt::format("{}", held);
  };
  return std::visit(text, value);
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
const std::vector<double>& ModelConfig::numbers(std::string_view key) const {
  return held<std::vector<double>>(*this, key);
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
