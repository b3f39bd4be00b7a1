#include "lpmm/memory/rules.h"

#include <algorithm>

namespace lpmm {
namespace {

// The settings of rule R: given values over its defaults.
template <class R>
typename R::Settings typed(const GivenSettings& values) {
  typename R::Settings settings;
  for (const auto& s : R::kSettings) {
    const double* given = values.find(s.key);
    if (given == nullptr) continue;
    if (s.flag != nullptr) {
      settings.*s.flag = *given != 0;
    } else {
      settings.*s.number = *given;
    }
  }
  return settings;
}

template <class R>
bool has_state(Role role) {
  return std::find(R::kStates.begin(), R::kStates.end(), role) != R::kStates.end();
}

template <class R>
std::vector<SettingRow> settings_of() {
  std::vector<SettingRow> rows;
  const typename R::Settings usual{};
  for (const auto& s : R::kSettings) {
    const double value = s.flag != nullptr ? (usual.*s.flag ? 1.0 : 0.0) : usual.*s.number;
    rows.push_back({SettingKey::find(s.key).value(), value, s.range, s.flag != nullptr, s.help});
  }
  return rows;
}

template <class R>
RuleRow row_of() {
  RuleRow row;
  row.name = R::kName;
  row.help = R::kHelp;
  row.learning_rate = R::kLearningRate;
  row.settings = settings_of<R>();
  row.states.assign(R::kStates.begin(), R::kStates.end());
  row.variance_grows = requires {
    R::kVarianceGrows;
  };
  row.needs_whole_tensors = []([[maybe_unused]] const GivenSettings& v) {
    if constexpr (HasRows<R> || HasPasses<R>) {
      return true;
    } else if constexpr (HasNorms<R>) {
      return R::make(typed<R>(v), {}).needs_norms();
    } else {
      return false;
    }
  };
  row.uses = [](const GivenSettings& v, const TensorTraits& tensor, Role role) {
    return has_state<R>(role) && R::uses(typed<R>(v), tensor, role);
  };
  row.shares = []([[maybe_unused]] const GivenSettings& v, [[maybe_unused]] const TensorTraits& tensor) {
    if constexpr (requires { R::shares(typed<R>(v), tensor); }) return R::shares(typed<R>(v), tensor);
    return RowShares();
  };
  row.problem = [](const GivenSettings& v) { return R::problem(typed<R>(v)); };
  row.momentum_kept = [](const GivenSettings& v) { return R::momentum_kept(typed<R>(v)); };
  row.slow_momentum_kept = []([[maybe_unused]] const GivenSettings& v) {
    if constexpr (requires(typename R::Settings s) { R::slow_momentum_kept(s); }) {
      return R::slow_momentum_kept(typed<R>(v));
    } else {
      return 0.0;
    }
  };
  row.typical_move = R::typical_move;
  if constexpr (FeedsBack<R>) {
    static_assert(table::Rules<Rule>::has_setting(R::kMomentumSetting));
    row.momentum_setting = R::kMomentumSetting;
  } else {
    row.no_feedback = R::kNoFeedback;
  }
  row.accumulates = [](const TensorTraits& tensor) {
    if constexpr (requires { R::accumulates(tensor); }) return R::accumulates(tensor);
    return true;
  };
  if constexpr (requires { R::kNoAccumulation; }) {
    row.no_accumulation = [](const GivenSettings&) { return R::kNoAccumulation; };
    row.accumulated_weight = [](const GivenSettings&, std::int64_t, int) { return 0.0; };
  } else {
    row.may_accumulate = true;
    row.no_accumulation = [](const GivenSettings& v) { return R::no_accumulation(typed<R>(v)); };
    row.accumulated_weight = [](const GivenSettings& v, std::int64_t update, int microbatches) {
      return R::accumulated_weight(typed<R>(v), update, microbatches);
    };
  }
  row.make = [](const GivenSettings& v, const RuleStep& step) { return as_rule(R::make(typed<R>(v), step)); };
  return row;
}

template <class... R>
std::vector<RuleRow> rows_of(std::type_identity<std::variant<R...>>) {
  return {row_of<R>()...};
}

const std::vector<RuleRow>& rows() {
  static const std::vector<RuleRow> kRows = rows_of(std::type_identity<Rule>());
  return kRows;
}

}  // namespace

double& GivenSettings::operator[](SettingKey key) {
  const auto found =
      std::find_if(values_.begin(), values_.end(), [&](const Given& v) { return v.key == key; });
  return found != values_.end() ? found->value : values_.emplace_back(Given{key, 0}).value;
}

const double* GivenSettings::find(std::string_view key) const {
  const auto found =
      std::find_if(values_.begin(), values_.end(), [&](const Given& v) { return v.key.text() == key; });
  return found != values_.end() ? &found->value : nullptr;
}

const RuleRow& rule_row(RuleName name) {
  return rows()[name.index()];
}

const SettingRow* find_setting(const RuleRow& row, SettingKey key) {
  const auto found = std::find_if(row.settings.begin(), row.settings.end(),
                                  [&](const SettingRow& s) { return s.key == key; });
  return found != row.settings.end() ? &*found : nullptr;
}

const std::vector<SettingRow>& all_settings() {
  static const std::vector<SettingRow> kAll = [] {
    std::vector<SettingRow> all;
    for (const RuleRow& row : rows()) {
      for (const SettingRow& s : row.settings) {
        if (std::none_of(all.begin(), all.end(), [&](const SettingRow& a) { return a.key == s.key; })) {
          all.push_back(s);
        }
      }
    }
    return all;
  }();
  return kAll;
}

std::vector<std::string_view> rules_with(SettingKey key) {
  std::vector<std::string_view> names;
  for (const RuleRow& row : rows()) {
    if (find_setting(row, key) != nullptr) names.push_back(row.name);
  }
  return names;
}

}  // namespace lpmm
