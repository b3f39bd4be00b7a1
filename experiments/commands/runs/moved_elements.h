// The elements that `lpmm watch` names, as JSON and for people.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "lpmm/memory/policy.h"
#include "lpmm/run/watch/elements.h"
#include "lpmm/run/watch/ranking.h"

namespace lpmm {

// `elements` has one entry for each tensor.
nlohmann::ordered_json elements_json(std::span<const TensorInfo> tensors,
                                     std::span<const std::vector<ElementMove>> elements);
// Prints the elements of the first tensors to move before the spike at this step.
void print_elements(std::span<const TensorInfo> tensors, std::span<const std::vector<ElementMove>> elements,
                    std::span<const Move> moves, std::int64_t spike);

}  // namespace lpmm
