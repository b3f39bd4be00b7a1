// Reads the bytes that a memory keeps from step to step, by tensor; the host must be able to read them.
#pragma once

#include <cstdint>
#include <vector>

#include "lpmm/memory/model_memory.h"

namespace lpmm {

using Bytes = std::vector<std::vector<std::uint8_t>>;

inline Bytes stored_bytes(const ModelMemory& memory) {
  Bytes all(static_cast<std::size_t>(memory.tensors()));
  for (int i = 0; i < memory.tensors(); ++i) {
    std::vector<std::uint8_t>& bytes = all[static_cast<std::size_t>(i)];
    for (const Role role : kEveryRole) {
      const kernels::RoleView v = memory.view(i, role);
      if (!is_saved(role) || v.codes == nullptr) continue;
      bytes.insert(bytes.end(), v.codes, v.codes + code_bytes(v.codec.format, v.elements));
      const auto* steps = reinterpret_cast<const std::uint8_t*>(v.steps);
      bytes.insert(bytes.end(), steps, steps + step_bytes(v.codec, v.elements));
    }
  }
  return all;
}

}  // namespace lpmm
