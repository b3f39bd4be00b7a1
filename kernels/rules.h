// The table of rules: one struct a rule, its arithmetic written once for every backend. A new rule is a file
// in kernels/rules/, an entry here, a call of it over a tile (kernels/cpu/tile.h) and its settings in
// lpmm/memory/optimizer_config.h.
#pragma once

#include <cmath>
#include <variant>

#include "kernels/macros.h"

namespace lpmm {

LPMM_HD float square_root(float x) {
  return sqrtf(x);
}

}  // namespace lpmm

#include "kernels/rules/adam.h"
#include "kernels/rules/sgd.h"

namespace lpmm {

using Rule = std::variant<Sgd, Adam>;

}  // namespace lpmm
