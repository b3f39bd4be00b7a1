#include "lpmm/program/family.h"

#include <fmt/format.h>

#include <algorithm>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/program/forward_model.h"

namespace lpmm {
namespace {

void check_range(std::string_view key, double value, double low, double high) {
  if (value >= low && value <= high) return;
  throw UsageError(fmt::format("model.{} = {}: must be between {} and {}", key, value, low, high));
}

void check_setting(const ModelSetting& setting, const SettingValue& value) {
  const auto check = [&](double x) { check_range(setting.key, x, setting.low, setting.high); };
  if (const auto* whole = std::get_if<std::int64_t>(&value)) check(static_cast<double>(*whole));
  if (const auto* number = std::get_if<double>(&value)) check(*number);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
    for (const std::int64_t whole : *list) check(static_cast<double>(whole));
  }
  if (const auto* list = std::get_if<std::vector<double>>(&value)) std::ranges::for_each(*list, check);
}

std::vector<std::string_view> model_names(const Family& family) {
  std::vector<std::string_view> names;
  for (const NamedModel& model : family.models) names.push_back(model.name);
  return names;
}

const NamedModel* find_model(const Family& family, std::string_view name) {
  const auto at = std::find_if(family.models.begin(), family.models.end(),
                               [&](const NamedModel& m) { return m.name == name; });
  return at == family.models.end() ? nullptr : &*at;
}

}  // namespace

const Family& FamilyList::find(std::string_view model) const {
  std::vector<std::string_view> known;
  for (const Family& family : rows) {
    if (find_model(family, model) != nullptr) return family;
    const auto names = model_names(family);
    known.insert(known.end(), names.begin(), names.end());
  }
  throw UsageError(fmt::format("unknown model \"{}\": there are {}{}", model, join(known),
                               did_you_mean(nearest_name(model, known))));
}

ModelConfig FamilyList::config(const std::string& model) const {
  const Family& family = find(model);
  ModelConfig config;
  config.name = model;
  config.family = &family;
  config.classes = family.reads->classes;
  for (const ModelSetting& s : family.settings) config.settings.emplace_back(s.key, s.standard);
  for (const auto& [key, size] : find_model(family, model)->sizes) config.set(key, size);
  return config;
}

std::vector<const TaskRow*> FamilyList::tasks() const {
  std::vector<const TaskRow*> all;
  for (const Family& family : rows) {
    if (std::ranges::find(all, family.reads) == all.end()) all.push_back(family.reads);
  }
  return all;
}

std::vector<int> filled_lengths(int longest) {
  std::vector<int> lengths;
  for (int length = 8; length < longest; length += length < 32 ? 8 : length / 2 / 8 * 8) {
    lengths.push_back(length);
  }
  lengths.push_back(longest);
  return lengths;
}

ModelConfig complete(const ModelConfig& config) {
  ModelConfig c = config;
  const Family& family = *config.family;
  for (const auto& [key, size] : find_model(family, config.name)->sizes) {
    for (const ModelSetting& s : family.settings) {
      if (s.key == key && lowest(s) < s.low && c.value(key) == s.standard) c.set(key, size);
    }
  }
  for (const ModelSetting& s : family.settings) {
    if (s.key == kMlpWidth && lowest(s) < s.low && c.value(s.key) == s.standard) {
      c.set(s.key, std::int64_t{4} * c.integer("embedding"));
    }
  }
  if (family.reads->has_tokens && c.length == 0) c.length = c.integer(kContext);
  return c;
}

std::unique_ptr<Model> make_model(const ModelConfig& given, bool gathers) {
  const Family& family = *given.family;
  const ModelConfig config = complete(given);
  for (const ModelSetting& s : family.settings) check_setting(s, config.value(s.key));
  if (family.reads->has_tokens) {
    if (config.length > config.integer(kContext)) {
      throw UsageError(fmt::format("data.length = {} is longer than model.context = {}", config.length,
                                   config.integer(kContext)));
    }
  } else {
    check_range("height", config.height, 1, 4096);
    check_range("width", config.width, 1, 4096);
    check_range("channels", config.channels, 1, 4096);
    check_range("classes", config.classes, 2, 1 << 16);
  }
  if (family.check != nullptr) family.check(config);
  std::vector<ForwardOfLength> forwards;
  for (const int length :
       family.reads->fills_lengths ? filled_lengths(config.length) : std::vector{config.length}) {
    ModelConfig of_length = config;
    of_length.length = length;
    forwards.push_back(
        {length, [forward = family.forward, of_length](ProgramBuilder& b) { forward(b, of_length); }});
  }
  return make_forward_model(std::move(forwards), family.reads->continues, family.reads->translates, gathers);
}

double lowest(const ModelSetting& setting) {
  const auto* whole = std::get_if<std::int64_t>(&setting.standard);
  return whole == nullptr ? setting.low : std::min(setting.low, static_cast<double>(*whole));
}

}  // namespace lpmm
