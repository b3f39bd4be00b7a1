// What is said of models of transformers that no family here is.
#pragma once

#include <string>
#include <string_view>

namespace lpmm {

// What such a model has that is not here, and the nearest that is, to follow "which cannot be imported";
// empty where nothing is known of it.
std::string why_not_here(std::string_view model_type);

}  // namespace lpmm
