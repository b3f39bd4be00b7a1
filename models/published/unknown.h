// Explanations for models of transformers that no family here can import.
#pragma once

#include <string>
#include <string_view>

namespace lpmm {

// Says which part such a model has that is missing here, and the nearest model that is here, to follow "which
// cannot be imported"; empty for an unknown type.
std::string why_not_here(std::string_view model_type);

// "; it is a BertForMultipleChoice, ...": the head that config.json beside weights at `path` names, and how
// to import the model without it; empty where it names none.
std::string head_not_here(const std::string& path);

}  // namespace lpmm
