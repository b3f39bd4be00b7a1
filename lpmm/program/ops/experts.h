// Mixtures of experts (Shazeer et al. 2017): every position goes through the few MLPs that it chooses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/sequence.h"
#include "lpmm/program/builder.h"
#include "lpmm/program/ops/activations.h"

namespace lpmm {

// The experts of each position, and what they are chosen by: probabilities that have a gradient.
struct Choice {
  Value table;
  kernels::ChoiceShape shape;
};
// `logits` has a channel for each expert. With `is_normed` the weights of a position's choices sum to 1.
Choice choose_experts(ProgramBuilder& b, Value logits, int chosen, bool is_normed);
kernels::Choices choices_in(std::byte* table, const kernels::ChoiceShape& shape);  // what the table holds

struct ExpertsConfig {
  int hidden = 0;  // channels inside an expert
  Activation function = Activation::kSilu;
  double deviation = 0, last_deviation = 0;  // of new weights, and of those of the last product
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
};
// The weighted sum of what its experts make of each position: down(function(gate(x)) * up(x)). Tensors
// `name`.N.`gate`.weight and so on for expert N, (hidden, channels), and of `down` (channels, hidden).
// Weights of experts that no position of a microbatch chooses are neither read nor given a gradient.
Value experts(ProgramBuilder& b, const std::string& name, Value x, const Choice& choice,
              const ExpertsConfig& config);

// Adds the loss that balances experts (kernels::BalanceArgs) over all positions of a microbatch and all of
// these layers to the loss of training, after the op of which that is; evaluation does not have it.
void balance_loss(ProgramBuilder& b, const std::vector<Choice>& layers, double factor);

}  // namespace lpmm
