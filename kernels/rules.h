// The table of rules: an entry each, in the order in which they are listed.
#pragma once

#include <variant>

#include "kernels/rules/adafactor.h"
#include "kernels/rules/adagrad.h"
#include "kernels/rules/adam.h"
#include "kernels/rules/adam_mini.h"
#include "kernels/rules/adamw_factored.h"
#include "kernels/rules/ademamix.h"
#include "kernels/rules/lamb.h"
#include "kernels/rules/lars.h"
#include "kernels/rules/lars_clip.h"
#include "kernels/rules/lion.h"
#include "kernels/rules/muon.h"
#include "kernels/rules/rmsprop.h"
#include "kernels/rules/sgd.h"

namespace lpmm {

using Rule = std::variant<Sgd, Adam, AdamW, Lion, Lamb, RmsProp, Lars, LarsClip, Adagrad, AdEmaMix, AdamMini,
                          AdamWFactored, Adafactor, Muon>;

// Wraps what a rule's make() returns: the rule, or, where that depends on the tensor, one of several.
template <class R>
Rule as_rule(const R& rule) {
  return rule;
}
template <class... R>
Rule as_rule(const std::variant<R...>& rule) {
  return std::visit([](const auto& r) -> Rule { return r; }, rule);
}

// True if the parameter's rounding errors go into its states.
inline bool feeds_back(const Rule& rule) {
  return std::visit(
      []<class R>(const R& r) {
        if constexpr (FeedsBack<R>) return r.feedback != 0;
        return false;
      },
      rule);
}

}  // namespace lpmm
