// Products with a weight, of flattened values or at every position.
#pragma once

#include <string>
#include <vector>

#include "lpmm/program/builder.h"

namespace lpmm {

// Flattens x. Tensors `name`.weight (outputs, inputs) and .bias, uniform within 1 / sqrt(inputs).
Value linear(ProgramBuilder& b, const std::string& name, Value x, int outputs, bool relu);
// The same as a last layer, without ReLU: its weight is a head (TensorKind).
Value classifier(ProgramBuilder& b, const std::string& name, Value x, int classes, bool bias = true);
// Applies at every position. Tensors `name`.weight (outputs, channels), normal of that deviation, and, where
// there is one, .bias, zero. `parts` are projections of as many outputs each, in one weight; those of
// queries, keys and values have `heads` each.
Value projection(ProgramBuilder& b, const std::string& name, Value x, int outputs, double deviation,
                 bool bias = true, int parts = 1, int heads = 0);
// Several of the same value, their outputs side by side.
struct Projection {
  std::string name;
  int outputs = 0;
  int parts = 1, heads = 0;
  std::vector<std::int64_t> shape = {};  // of the weight, as it is published; {}: (outputs, channels)
};
Value projections(ProgramBuilder& b, const std::vector<Projection>& list, Value x, double deviation,
                  bool bias = true);

}  // namespace lpmm
