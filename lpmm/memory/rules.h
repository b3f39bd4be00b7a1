// The table of rules (kernels/rules.h) as data: names, settings, states, and what each rule can do. Whatever
// lists rules or their settings reads it.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/rules.h"

namespace lpmm {

namespace table {

template <class>
struct Rules;
template <class... R>
struct Rules<std::variant<R...>> {
  static constexpr std::array kAll = {R::kName...};
  static constexpr bool has_setting(std::string_view key) {
    return (... || [&] {
      for (const auto& s : R::kSettings) {
        if (s.key == key) return true;
      }
      return false;
    }());
  }
};

}  // namespace table

// In the order of the table.
inline constexpr std::span<const std::string_view> rule_names() {
  return table::Rules<Rule>::kAll;
}

// One of them. A literal that is no rule's name does not compile.
class RuleName {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a name is written as text
  consteval RuleName(const char* name) : RuleName(find(name).value()) {}
  static constexpr std::optional<RuleName> find(std::string_view name) {
    for (std::size_t i = 0; i < rule_names().size(); ++i) {
      if (rule_names()[i] == name) return RuleName(i);
    }
    return {};
  }
  template <class R>
  static consteval RuleName of() {
    return find(R::kName).value();
  }
  constexpr std::string_view text() const { return rule_names()[index_]; }
  constexpr std::size_t index() const { return index_; }
  friend constexpr bool operator==(RuleName, RuleName) = default;

 private:
  constexpr explicit RuleName(std::size_t index) : index_(static_cast<std::uint8_t>(index)) {}
  std::uint8_t index_;
};

// The key of a rule's setting. A literal that no rule has does not compile.
class SettingKey {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a key is written as text
  consteval SettingKey(const char* key) : SettingKey(find(key).value()) {}
  // The text is one that lasts.
  static constexpr std::optional<SettingKey> find(std::string_view key) {
    return table::Rules<Rule>::has_setting(key) ? std::optional(SettingKey(key)) : std::nullopt;
  }
  constexpr std::string_view text() const { return text_; }
  friend constexpr bool operator==(SettingKey, SettingKey) = default;

 private:
  constexpr explicit SettingKey(std::string_view text) : text_(text) {}
  std::string_view text_;
};

// The settings that were given, by key; switches are 0 or 1. Settings that were not have the rule's default.
class GivenSettings {
 public:
  struct Given {
    SettingKey key;
    double value;
  };
  GivenSettings() = default;
  GivenSettings(std::initializer_list<Given> values) : values_(values) {}
  double& operator[](SettingKey key);
  const double* find(std::string_view key) const;  // null: not given
  std::span<const Given> all() const { return values_; }

 private:
  std::vector<Given> values_;
};

// One setting of one rule; `usual` is its default there.
struct SettingRow {
  SettingKey key;
  double usual;
  Range range;
  bool is_switch;
  std::string_view help;
};

struct RuleRow {
  std::string_view name, help;  // help: one line, which says what weight decay is added to
  double learning_rate = 0;     // the default
  std::vector<SettingRow> settings;
  std::vector<Role> states;                           // that it has with some settings, of some tensors
  bool variance_grows = false;                        // it is a sum over all steps
  bool (*needs_whole_tensors)(const GivenSettings&);  // sums over them, before their update
  bool (*uses)(const GivenSettings&, const TensorTraits&, Role);   // true: it has this state of the tensor
  RowShares (*shares)(const GivenSettings&, const TensorTraits&);  // of its variances of rows
  std::string_view (*problem)(const GivenSettings&);               // of values in range each; empty: none
  double (*momentum_kept)(const GivenSettings&);                   // share of it that stays per step
  double (*slow_momentum_kept)(const GivenSettings&);              // the same; 0: it keeps none
  double (*typical_move)(double learning_rate, double size);       // of a weight of that size
  std::string_view no_feedback;                               // why errors cannot be fed back; empty: can
  std::string_view momentum_setting;                          // that they need; empty: they cannot be
  std::string_view (*no_accumulation)(const GivenSettings&);  // the same of gradients in the momentum
  bool may_accumulate = false;                                // with some settings it can
  bool (*accumulates)(const TensorTraits&);  // of which tensors they can be, where there is no reason against
  // The factor of each of K gradients there, in update `update` (from 1).
  double (*accumulated_weight)(const GivenSettings&, std::int64_t update, int microbatches);
  Rule (*make)(const GivenSettings&, const RuleStep&);
};

const RuleRow& rule_row(RuleName name);

// Its setting of that key; null: it has none.
const SettingRow* find_setting(const RuleRow& row, SettingKey key);

// Every setting once, in the order of the first rule that has it: keys and ranges are those of all rules that
// have it, defaults may differ.
const std::vector<SettingRow>& all_settings();
// The rules that have it.
std::vector<std::string_view> rules_with(SettingKey key);

}  // namespace lpmm
