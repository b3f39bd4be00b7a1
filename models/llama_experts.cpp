#include "models/llama_experts.h"

#include <fmt/format.h>

#include <algorithm>

#include "lpmm/base/error.h"
#include "lpmm/program/ops/linear.h"

namespace lpmm {

std::vector<ModelSetting> expert_settings() {
  return {
      {kExperts, 0, 0, 4096,
       "experts that a layer chooses among in place of its MLP, as Qwen3-MoE has; 0: none"},
      {kChosen, 0, 0, 4096, "experts that a position chooses"},
      {kExpertWidth, 0, 0, 1 << 20, "channels inside an expert"},
      {kExpertsNormed, false, 0, 0, "the weights of a position's experts sum to 1"},
      {kExpertsEvery, 1, 1, 1000, "every so many layers one has experts, the others have an MLP"},
      {kDenseLayers, std::vector<std::int64_t>{}, 0, 999, "layers, from 0 on, that have an MLP in any case"},
      {kBalance, 0.0, 0, 100, "factor on the loss of training that balances experts; 0: there is none"}};
}

bool has_experts(const ModelConfig& c, int layer) {
  const std::vector<std::int64_t>& dense = c.integers(kDenseLayers);
  return c.integer(kExperts) > 0 && (layer + 1) % c.integer(kExpertsEvery) == 0 &&
         std::ranges::find(dense, layer) == dense.end();
}

void check_experts(const ModelConfig& c) {
  const auto refuse = [](const std::string& why) { throw UsageError("model." + why); };
  const int experts = c.integer(kExperts), chosen = c.integer(kChosen), layers = c.integer("layers");
  if (experts == 0) {
    const bool has_others = chosen > 0 || c.integer(kExpertWidth) > 0 || c.flag(kExpertsNormed) ||
                            c.integer(kExpertsEvery) > 1 || !c.integers(kDenseLayers).empty() ||
                            (c.has(kBalance) && c.number(kBalance) > 0);
    if (has_others) {
      refuse(
          "experts = 0: experts_per_token, expert_width, experts_normed, experts_every, dense_layers and "
          "balance_loss are for models that have experts");
    }
    return;
  }
  if (chosen < 1 || chosen > experts) {
    refuse(
        fmt::format("experts_per_token = {}, but must be 1 to {}, which model.experts is", chosen, experts));
  }
  if (c.integer(kExpertWidth) == 0) refuse("expert_width = 0: say how many channels an expert has");
  for (const std::int64_t layer : c.integers(kDenseLayers)) {
    if (layer >= layers)
      refuse(fmt::format("dense_layers has {}, but there are layers 0 to {}", layer, layers - 1));
  }
  bool has_any = false;
  for (int layer = 0; layer < layers; ++layer) has_any = has_any || has_experts(c, layer);
  if (!has_any) refuse("experts_every and model.dense_layers leave no layer with experts; take experts = 0");
  if (!c.flag("qk_norm") || c.flag("norms_around"))
    refuse("experts, which Qwen3-MoE has, go with model.qk_norm and without norms_around");
}

Value expert_mlp(ProgramBuilder& b, const ModelConfig& c, const std::string& name, Value x,
                 const ExpertsConfig& config, std::vector<Choice>& choices) {
  const Value logits = projection(b, name + "gate", x, c.integer(kExperts), config.deviation, false);
  choices.push_back(choose_experts(b, logits, c.integer(kChosen), c.flag(kExpertsNormed)));
  return experts(b, name + "experts", x, choices.back(), config);
}

}  // namespace lpmm
