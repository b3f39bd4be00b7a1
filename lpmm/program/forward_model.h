// A model made of forward code.
#pragma once

#include <functional>
#include <memory>

#include "lpmm/program/builder.h"
#include "lpmm/program/program.h"

namespace lpmm {

// Adds a model's ops to a builder.
using Forward = std::function<void(ProgramBuilder&)>;

// Its tensors and buffers are those that `forward` declares. Initial values are a pure function of seed,
// tensor and element.
std::unique_ptr<Model> make_forward_model(Forward forward, bool reads_tokens);

}  // namespace lpmm
