#include "models/published/text/qwen3_moe.h"

#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "models/llama_experts.h"

namespace lpmm {
namespace {

constexpr std::string_view kTheirExperts = "num_experts", kNewExperts = "num_local_experts",
                           kTheirChosen = "num_experts_per_tok", kDense = "mlp_only_layers",
                           kBalances = "output_router_logits", kFactor = "router_aux_loss_coef";

// The number of experts, which transformers writes under another name since version 5.
std::int64_t experts_of(const PublishedConfig& config) {
  constexpr std::int64_t kUsual = 128;
  if (!config.has(kNewExperts) && !config.has(kTheirExperts)) return kUsual;
  const std::int64_t experts = config.size(config.has(kNewExperts) ? kNewExperts : kTheirExperts);
  if (config.has(kTheirExperts) && config.size(kTheirExperts) != experts) {
    throw RunError(fmt::format("{}: {} is {}, but {} is {}: they are names of one number", config.path(),
                               kTheirExperts, config.size(kTheirExperts), kNewExperts, experts));
  }
  return experts;
}

std::vector<std::int64_t> dense_layers(const PublishedConfig& config, std::int64_t layers) {
  std::vector<std::int64_t> dense;
  if (!config.has(kDense)) return dense;
  const Json& list = config.json()[kDense];
  const auto refuse = [&] {
    throw RunError(fmt::format("{}: {} is {}, but lists layers, which are 0 to {}", config.path(), kDense,
                               list.dump(), layers - 1));
  };
  if (!list.is_array()) refuse();
  for (const Json& layer : list) {
    if (!layer.is_number_unsigned() || layer.get<std::uint64_t>() >= static_cast<std::uint64_t>(layers))
      refuse();
    dense.push_back(layer.get<std::int64_t>());
  }
  return dense;
}

}  // namespace

void read_experts(const PublishedConfig& config, ModelConfig& model) {
  for (const char* key : {"shared_expert_intermediate_size", "n_shared_experts", "num_shared_experts"})
    config.expect(key, {nullptr, 0});
  const std::int64_t experts = experts_of(config), chosen = config.size(kTheirChosen);
  if (chosen > experts) {
    throw RunError(
        fmt::format("{}: {} is {}, but there are {} experts", config.path(), kTheirChosen, chosen, experts));
  }
  model.set(kExperts, experts);
  model.set(kChosen, chosen);
  model.set(kExpertWidth, config.size("moe_intermediate_size"));
  model.set(kExpertsNormed, config.flag("norm_topk_prob", false));
  model.set(kExpertsEvery, config.size("decoder_sparse_step"));
  model.set(kDenseLayers, dense_layers(config, model.integer("layers")));
  if (!model.has(kBalance)) return;
  const double factor = config.number(kFactor, 0.001);
  if (factor < 0)
    throw RunError(fmt::format("{}: {} is {}, but cannot be below 0", config.path(), kFactor, factor));
  model.set(kBalance, config.flag(kBalances, false) ? factor : 0.0);
}

void add_experts(const ModelConfig& m, Json& written) {
  written[kTheirExperts] = m.integer(kExperts);
  written[kTheirChosen] = m.integer(kChosen);
  written["moe_intermediate_size"] = m.integer(kExpertWidth);
  written["norm_topk_prob"] = m.flag(kExpertsNormed);
  written["decoder_sparse_step"] = m.integer(kExpertsEvery);
  written[kDense] = m.integers(kDenseLayers);
  if (!m.has(kBalance)) return;
  written[kBalances] = m.number(kBalance) > 0;
  if (m.number(kBalance) > 0) written[kFactor] = m.number(kBalance);
}

void refuse_joined_experts(const PublishedTensors& tensors) {
  for (const PublishedTensors::Place& place : tensors.all()) {
    if (!place.entry->name.ends_with(".mlp.experts.gate_up_proj")) continue;
    throw RunError(fmt::format(
        "{}: {} joins the experts of a layer, which is not read; load it in transformers and save it again "
        "without save_original_format=False",
        tensors.path(), place.entry->name));
  }
}

}  // namespace lpmm
