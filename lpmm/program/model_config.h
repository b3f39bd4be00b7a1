// A model's settings. Each family of models declares its own; a configuration holds their values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lpmm/data/images.h"

namespace lpmm {

using SettingValue = std::variant<bool, std::int64_t, double, std::vector<std::int64_t>, std::vector<double>>;

struct ModelSetting {
  std::string_view key;
  SettingValue standard;          // the default, which also gives the type of the value
  double low = 0, high = 0;       // of a number, or of every number of a list. A default below: must be given
  std::string_view help;          // one line
  std::string_view old_key = {};  // its former name in configurations, which still works
};

// "true", "12", "0.1", "[512, 64]": as TOML has it.
std::string to_text(const SettingValue& value);

struct Family;

// The loss of pairs of answers (kernels::PreferenceArgs).
struct PreferenceLoss {
  double beta = 0;  // 0: there are no pairs
  double smoothing = 0;
  bool is_mean = false;

  bool operator==(const PreferenceLoss&) const = default;
};

struct ModelConfig {
  std::string name;
  const Family* family = nullptr;  // that the name is of
  // Set by the data: the shape of images and their classes, or the length of sequences of tokens.
  int height = kImageSide, width = kImageSide, channels = kImageChannels, classes = kImageClasses;
  int length = 0;
  bool documents = false;  // a sequence holds several, kept apart, and the loss of some tokens does not count
  PreferenceLoss preferences = {};
  // All settings of the family, in its order: family.h makes them.
  std::vector<std::pair<std::string_view, SettingValue>> settings;

  bool has(std::string_view key) const;
  // Throw std::logic_error where the family has no such setting, or one of another kind.
  bool flag(std::string_view key) const;
  int integer(std::string_view key) const;
  double number(std::string_view key) const;
  const std::vector<std::int64_t>& integers(std::string_view key) const;
  const std::vector<double>& numbers(std::string_view key) const;
  const SettingValue& value(std::string_view key) const;
  void set(std::string_view key, SettingValue value);
};

}  // namespace lpmm
