// The model families.
#pragma once

#include <memory>

#include "lpmm/program/program.h"

namespace lpmm {

// Throws UsageError for an unknown name (with the nearest one) or sizes the family cannot have.
std::unique_ptr<Model> make_model(const ModelConfig& config);

}  // namespace lpmm
