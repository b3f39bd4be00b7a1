// Explanations for models of transformers that no family here can import.
#pragma once

#include <string>
#include <string_view>

namespace lpmm {

// Says which part such a model has that is missing here, and the nearest model that is here, to follow "which
// cannot be imported"; empty for an unknown type.
std::string why_not_here(std::string_view model_type);

}  // namespace lpmm
