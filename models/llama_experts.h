// The layers of a Llama that choose among experts, as Qwen3-MoE has them.
#pragma once

#include <string>
#include <vector>

#include "lpmm/program/family.h"
#include "lpmm/program/ops/experts.h"

namespace lpmm {

inline constexpr std::string_view kExperts = "experts", kChosen = "experts_per_token",
                                  kExpertWidth = "expert_width", kExpertsNormed = "experts_normed",
                                  kExpertsEvery = "experts_every", kDenseLayers = "dense_layers",
                                  kBalance = "balance_loss";

std::vector<ModelSetting> expert_settings();
// Throws UsageError for settings of experts that do not go together, or with others of the model.
void check_experts(const ModelConfig& c);
// Returns true if the layer, counted from 0, has experts in place of an MLP.
bool has_experts(const ModelConfig& c, int layer);
// What the experts of a layer make of x; `name` is what its tensors begin with. The choice is added to
// `choices`.
Value expert_mlp(ProgramBuilder& b, const ModelConfig& c, const std::string& name, Value x,
                 const ExpertsConfig& config, std::vector<Choice>& choices);

}  // namespace lpmm
