// Roles: what a tensor stores. A new one is an entry of Role (checkpoints count by place: the last of its
// extent), a row of kRoleRows, and, where it has a value for each element, a spec in every preset.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/macros.h"

namespace lpmm {

enum class Role : std::uint8_t {
  kParameter,
  kAccumulator,
  kMomentum,
  kVariance,
  kSlowMomentum,
  kCompensation,
  kRowVariance,
  kColumnVariance
};
inline constexpr int kRoles = static_cast<int>(Role::kColumnVariance) + 1;  // the last one

// One T for every role.
template <class T>
struct RoleArray {  // NOLINT(bugprone-reserved-identifier): __i0 is the compiler's, of operator==
  T of[kRoles];

  LPMM_HD constexpr T& operator[](Role role) { return of[static_cast<int>(role)]; }
  LPMM_HD constexpr const T& operator[](Role role) const { return of[static_cast<int>(role)]; }
  constexpr T* begin() { return of; }
  constexpr T* end() { return of + kRoles; }
  constexpr const T* begin() const { return of; }
  constexpr const T* end() const { return of + kRoles; }
  constexpr T* data() { return of; }
  constexpr void fill(const T& value) {
    for (T& x : of) x = value;
  }
  friend bool operator==(const RoleArray&, const RoleArray&) = default;
};

inline constexpr RoleArray<Role> kEveryRole = [] {
  RoleArray<Role> all{};
  for (int r = 0; r < kRoles; ++r) all.of[r] = static_cast<Role>(r);
  return all;
}();

// True for the roles that a rule keeps from step to step.
LPMM_HD constexpr bool is_state(Role role) {
  return role != Role::kParameter && role != Role::kAccumulator && role != Role::kCompensation;
}
// True for the roles that files keep. An accumulator is empty between steps.
LPMM_HD constexpr bool is_saved(Role role) {
  return role != Role::kAccumulator;
}

// The parts of a tensor that a role has a value for. Each element: it is packed, by a spec of its own. Each
// row or column: it is fp32 whatever the policy says, as it is small, and the same for all elements of one.
enum class Extent : std::uint8_t { kElements, kRows, kColumns };

struct RoleRow {
  std::string_view name;
  bool is_signed;  // false: its values are never negative, and formats spend no sign on them
  Extent extent = Extent::kElements;
};
inline constexpr RoleArray<RoleRow> kRoleRows = {{
    {"parameter", true},
    {"accumulator", true},
    {"momentum", true},
    {"variance", false},
    {"slow_momentum", true},  // a second average of gradients, of thousands of steps
    {"compensation", true},   // what rounding the parameter left (kernels/formats/compensation.h)
    {"row_variance", false, Extent::kRows},
    {"column_variance", false, Extent::kColumns},
}};
static_assert(!kRoleRows.of[kRoles - 1].name.empty(), "every role has a row");

// Roles with a value for each element come first.
inline constexpr int kElementRoles = static_cast<int>(Role::kRowVariance);
LPMM_HD constexpr bool is_per_element(Role role) {
  return static_cast<int>(role) < kElementRoles;
}
inline constexpr auto kEveryElementRole = [] {
  std::array<Role, kElementRoles> all{};
  for (int r = 0; r < kElementRoles; ++r) all[static_cast<std::size_t>(r)] = static_cast<Role>(r);
  return all;
}();

}  // namespace lpmm
