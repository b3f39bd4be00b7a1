// A model made of forward code.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lpmm/program/builder.h"
#include "lpmm/program/program.h"

namespace lpmm {

// Adds a model's ops to a builder.
using Forward = std::function<void(ProgramBuilder&)>;

// The forward code of a model for sequences of one length; 0: of the length that the model has, or of none.
// Several come shortest first.
struct ForwardOfLength {
  int length = 0;
  Forward forward;
};

// Its tensors and buffers are those that all `forwards` declare. Where there are several, a batch is run by
// that of its length (Batch::length), in memory that all share. Initial values are a pure function of seed,
// tensor and element. `continues`, `translates`: TaskRow.
// `gathers`: ProgramBuilder::gather_gradients.
std::unique_ptr<Model> make_forward_model(std::vector<ForwardOfLength> forwards, bool continues,
                                          bool translates = false, bool gathers = false);
std::unique_ptr<Model> make_forward_model(Forward forward, bool continues);

}  // namespace lpmm
