// The rules' loops element by element: the specification of the faster sets.
#include "kernels/cpu/packed/rule_loops.h"
#include "kernels/rules/watched.h"

namespace lpmm::kernels {
namespace {

template <class R>
struct Loops {
  static Elements<float> load(const TileValues& values, std::int64_t i) {
    Elements<float> x{};
    x[Role::kParameter] = values[Role::kParameter][i];
    x[Role::kAccumulator] = values[Role::kAccumulator][i];
    for (const Role state : R::kStates) x[state] = values[state][i];
    return x;
  }
  static void store_states(const Elements<float>& x, const TileValues& values, std::int64_t i) {
    for (const Role state : R::kStates) values[state][i] = x[state];
  }

  static void apply(const R& rule, const TileValues& values, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      Elements<float> x = load(values, i);
      rule(x);
      values[Role::kParameter][i] = x[Role::kParameter];
      store_states(x, values, i);
    }
  }
  static void feed_back(const R& rule, const float* stored, const TileValues& values, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      Elements<float> x = load(values, i);
      rule.feed_back(x[Role::kParameter] - stored[i], x);
      store_states(x, values, i);
    }
  }
  static void terms(const R& rule, const TileValues& values, float* const* terms, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      Elements<float> x = load(values, i);
      float of[R::kNorms];
      rule.terms(x, of);
      for (int k = 0; k < R::kNorms; ++k) terms[k][i] = of[k];
    }
  }
  static void watch(const R& rule, const TileValues& values, float* const* measured, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      float of[kWatched];
      measure_element(rule, load(values, i), of);
      for (int k = 0; k < kWatched; ++k) measured[k][i] = of[k];
    }
  }

  static constexpr LoopsOf<R> loops() {
    LoopsOf<R> all;
    all.apply = apply;
    all.watch = watch;
    if constexpr (FeedsBack<R>) all.feed_back = feed_back;
    if constexpr (HasNorms<R>) all.terms = terms;
    return all;
  }
};

}  // namespace

const RuleLoops& scalar_rule_loops() {
  static constexpr RuleLoops kLoops = make_rule_loops<Loops>(std::type_identity<Rule>());
  return kLoops;
}

}  // namespace lpmm::kernels
