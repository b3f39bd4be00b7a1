// The value that a parameter and its compensation, where it has one, stand for together.
#pragma once

#include <vector>

#include "kernels/formats/compensation.h"
#include "lpmm/memory/model_memory.h"

namespace lpmm {

// The values of a role in memory of the host; empty where the tensor has no such role.
inline std::vector<float> values_in(const ModelMemory& memory, int tensor, Role role) {
  const kernels::RoleView v = memory.view(tensor, role);
  std::vector<float> x(static_cast<std::size_t>(v.codes == nullptr ? 0 : v.elements));
  if (!x.empty()) memory.device().decode(v, 0, v.elements, x.data());
  return x;
}
inline std::vector<float> sum_of_terms(const ModelMemory& memory, int tensor = 0) {
  std::vector<float> p = values_in(memory, tensor, Role::kParameter);
  const std::vector<float> c = values_in(memory, tensor, Role::kCompensation);
  const Codec of_p = memory.view(tensor, Role::kParameter).codec,
              of_c = memory.view(tensor, Role::kCompensation).codec;
  for (std::size_t i = 0; i < c.size(); ++i) {
    p[i] = TwoTerms{of_p, of_c}.sum(p[i], c[i]);
  }
  return p;
}

}  // namespace lpmm
