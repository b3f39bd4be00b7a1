// A preset's formats without an accumulator.
#pragma once

#include <string_view>

#include "lpmm/memory/policy.h"

namespace lpmm {

inline Policy at_once(std::string_view preset) {
  Policy policy = make_policy(preset);
  policy.apply_at_once = true;
  return policy;
}

}  // namespace lpmm
