// Vectors side by side as a number of a rule.
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/cpu/tile_vectors-inl.h"
#include "kernels/roles.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

// The number type that a rule computes with. Not forced inline: rules are compiled for the baseline until
// they are inlined.
struct Number {
  RowsF v;
  inline Number() = default;
  inline explicit Number(float x) {
    each([&](int i) { v[i] = set(x); });
  }
};
template <class Operation>
HWY_INLINE Number each_vector(const Operation& operation) {
  Number result;
  each([&](int i) { result.v[i] = operation(i); });
  return result;
}
inline Number operator+(const Number& a, const Number& b) {
  return each_vector([&](int i) { return hn::Add(a.v[i], b.v[i]); });
}
inline Number operator-(const Number& a, const Number& b) {
  return each_vector([&](int i) { return hn::Sub(a.v[i], b.v[i]); });
}
inline Number operator*(const Number& a, const Number& b) {
  return each_vector([&](int i) { return hn::Mul(a.v[i], b.v[i]); });
}
inline Number operator/(const Number& a, const Number& b) {
  return each_vector([&](int i) { return hn::Div(a.v[i], b.v[i]); });
}
inline Number square_root(const Number& a) {
  return each_vector([&](int i) { return hn::Sqrt(a.v[i]); });
}
inline Number larger_of(const Number& a, const Number& b) {
  return each_vector([&](int i) { return hn::IfThenElse(hn::Gt(a.v[i], b.v[i]), a.v[i], b.v[i]); });
}
inline Number sign(const Number& a) {
  const VF zero = hn::Zero(DF()), one = hn::Set(DF(), 1.0F);
  return each_vector([&](int i) {
    return hn::Sub(hn::IfThenElseZero(hn::Gt(a.v[i], zero), one),
                   hn::IfThenElseZero(hn::Lt(a.v[i], zero), one));
  });
}

// Calls body(role) for each of these roles, the role known to the compiler.
template <std::array kOf, class Body>
HWY_INLINE void each_role(const Body& body) {
  [&]<std::size_t... kAt>(std::index_sequence<kAt...>) {
    (body(std::integral_constant<Role, kOf[kAt]>()), ...);
  }
  (std::make_index_sequence<kOf.size()>());
}

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
