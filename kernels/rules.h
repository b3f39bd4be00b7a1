// The table of rules. A new rule is one file in kernels/rules/ and one entry here.
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
