// The loops of every rule over one tile, once per instruction set; buffers and counts as in
// kernels/cpu/tile.h. The table of rules makes them: a new rule needs no line here.
#pragma once

#include <cstdint>
#include <tuple>
#include <variant>

#include "kernels/cpu/packed/fused.h"
#include "kernels/rules.h"

namespace lpmm::kernels {

// A tile's values by role. States that the rule does not have are not touched.
using TileValues = RoleArray<float*>;

template <class R>
struct LoopsOf {
  void (*apply)(const R& rule, const TileValues& values, std::int64_t count) = nullptr;
  // The rounding error of the parameter, values - stored, goes into the states. Null: the rule has no
  // feedback.
  void (*feed_back)(const R& rule, const float* stored, const TileValues& values,
                    std::int64_t count) = nullptr;
  // The terms of the first pass; `values` stay. Null: the rule has none.
  void (*terms)(const R& rule, const TileValues& values, float* const* terms, std::int64_t count) = nullptr;
  // Computes what the watch measures; `measured` may be arrays of `values`.
  void (*watch)(const R& rule, const TileValues& values, float* const* measured,
                std::int64_t count) = nullptr;
  // The fused loop for these codecs; null where none is compiled for them, or for this set.
  FusedUpdate<R> (*fused)(const RoleArray<RoleView>& roles) = nullptr;
};

template <class... R>
std::tuple<LoopsOf<R>...> loops_of(const std::variant<R...>&);
using RuleLoops = decltype(loops_of(Rule()));

const RuleLoops& scalar_rule_loops();
const RuleLoops& rule_loops();  // the set in use

// Calls body(rule, its loops).
template <class Body>
decltype(auto) with_rule(const Rule& rule, const Body& body) {
  return std::visit(
      [&]<class R>(const R& r) -> decltype(auto) { return body(r, std::get<LoopsOf<R>>(rule_loops())); },
      rule);
}

// The loops of all rules from those of one: Maker<R>::loops().
template <template <class> class Maker, class... R>
constexpr RuleLoops make_rule_loops(std::type_identity<std::variant<R...>>) {
  return {Maker<R>::loops()...};
}

}  // namespace lpmm::kernels
