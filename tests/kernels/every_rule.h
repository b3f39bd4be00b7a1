// Every rule of the table with its usual settings, for tests that compare backends.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/cpu/packed/fused.h"
#include "kernels/rules.h"

namespace lpmm {

template <class... R>
std::vector<Rule> every_rule(std::type_identity<std::variant<R...>>) {
  const RuleStep step{.learning_rate = 0.05, .weight_decay = 0.02, .update = 3, .clip = 0.75};
  return {as_rule(R::make(typename R::Settings(), step))...};
}
inline std::vector<Rule> every_rule() {
  return every_rule(std::type_identity<Rule>());
}

// The rules that can feed rounding errors back, with feedback on and with a momentum.
template <class... R>
std::vector<Rule> every_fed_rule(std::type_identity<std::variant<R...>>) {
  const RuleStep step{
      .learning_rate = 0.05, .weight_decay = 0.02, .update = 3, .clip = 0.75, .error_feedback = true};
  std::vector<Rule> rules;
  const auto add = [&]<class One>(std::type_identity<One>) {
    typename One::Settings settings;
    if constexpr (requires { settings.momentum; }) settings.momentum = 0.9;
    if constexpr (requires { settings.beta1; }) settings.beta1 = 0.9;
    if constexpr (FeedsBack<One>) rules.push_back(as_rule(One::make(settings, step)));
  };
  (add(std::type_identity<R>()), ...);
  return rules;
}
inline std::vector<Rule> every_fed_rule() {
  return every_fed_rule(std::type_identity<Rule>());
}

// True if a rule of usual settings keeps this state.
inline bool has_state(const Rule& rule, Role role) {
  return std::visit([&]<class R>(const R&) { return kernels::fused::keeps<R>(role); }, rule);
}

// True if a tensor stored by these codecs has the role; a compensation of fp32 stands for none.
inline bool has_role(const Rule& rule, const RoleArray<Codec>& codecs, Role role) {
  if (role == Role::kCompensation) return codecs[role].format.map != Map::kFp32;
  return !is_state(role) || has_state(rule, role);
}

// A tensor of n elements as a matrix of a few rows, where n allows, and how many values a role of it has.
inline std::int64_t rows_of(std::int64_t n) {
  for (const std::int64_t rows : {10, 7, 5, 3, 2}) {
    if (n % rows == 0) return rows;
  }
  return 1;
}
inline std::int64_t values_of(Role role, std::int64_t n) {
  const Extent extent = kRoleRows[role].extent;
  return extent == Extent::kElements ? n : extent == Extent::kRows ? rows_of(n) : n / rows_of(n);
}

}  // namespace lpmm
