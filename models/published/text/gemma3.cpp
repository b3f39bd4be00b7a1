#include "models/published/text/gemma3.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

constexpr std::string_view kLayerTypes = "layer_types", kQueryScalar = "query_pre_attn_scalar",
                           kLocalTheta = "rope_local_base_freq", kWindow = "sliding_window";
constexpr const char *kPattern = "sliding_window_pattern", *kOlderPattern = "_sliding_window_pattern";

std::int64_t global_every(const PublishedConfig& config) {
  const std::int64_t layers = config.size("num_hidden_layers");
  const char* const key = config.has(kPattern) ? kPattern : kOlderPattern;
  const std::int64_t said = config.has(key) ? config.size(key) : 6;
  if (!config.has(kLayerTypes)) return said;
  const Json& types = config.json()[kLayerTypes];
  if (types == layer_types(layers, said)) return said;
  for (std::int64_t every = 0; every <= layers; ++every) {
    if (types == layer_types(layers, every)) return every;
  }
  throw RunError(
      fmt::format("{}: {} is {}, which is not here: full attention may stand only at equal distances, at "
                  "layers n, 2n and so on",
                  config.path(), kLayerTypes, types.dump()));
}

}  // namespace

Json layer_types(std::int64_t layers, std::int64_t every) {
  Json types = Json::array();
  for (std::int64_t i = 1; i <= layers; ++i)
    types.push_back(every > 0 && i % every == 0 ? "full_attention" : "sliding_attention");
  return types;
}

void read_gemma(const PublishedConfig& config, ModelConfig& model) {
  config.expect("final_logit_softcapping", {nullptr});
  config.expect("attn_logit_softcapping", {nullptr});
  config.expect("use_bidirectional_attention", {false, nullptr});
  model.set("norms_around", true);
  model.set("qk_norm", true);
  model.set("embedding_scale", std::sqrt(static_cast<double>(config.size("hidden_size"))));
  const double divisor = config.positive(kQueryScalar, 1);
  if (divisor != static_cast<double>(config.size("head_dim")))
    model.set("attention_scale", 1 / std::sqrt(divisor));
  model.set("window", config.size(kWindow));
  model.set("global_every", global_every(config));
  model.set("local_theta", config.positive(kLocalTheta, 1e4));
}

PublishedConfig with_flat_rotary(const PublishedConfig& config) {
  constexpr const char *kParameters = "rope_parameters", *kFull = "full_attention",
                       *kSliding = "sliding_attention";
  Json json = config.json();
  if (!config.has(kParameters) || !json[kParameters].is_object()) return config;
  const Json parameters = json[kParameters];
  if (parameters.contains(kSliding)) {
    const PublishedConfig local(fmt::format("{}: {}.{}", config.path(), kParameters, kSliding),
                                parameters[kSliding]);
    local.expect("rope_type", {"default"});
    json[kLocalTheta] = local.positive("rope_theta", config.positive(kLocalTheta, 1e4));
  }
  if (parameters.contains(kFull)) json[kParameters] = parameters[kFull];
  return {config.path(), std::move(json)};
}

void add_gemma(const ModelConfig& m, Json& written) {
  const double scale = m.number("attention_scale");
  const std::int64_t width = written["head_dim"].get<std::int64_t>(),
                     divisor = scale == 0 ? width : std::llround(1 / (scale * scale));
  if (scale != 0 && std::abs(scale * std::sqrt(static_cast<double>(divisor)) - 1) > 1e-6) {
    throw UsageError(
        fmt::format("model.attention_scale = {}: of a Gemma 3 for transformers it is 1 / sqrt(n) of a whole "
                    "number n; export without --hf",
                    scale));
  }
  const int every = m.integer("global_every"), layers = m.integer("layers");
  written[kQueryScalar] = divisor;
  written[kLayerTypes] = layer_types(layers, every);
  written[kPattern] = every > 0 ? every : layers + 1;
  written[kLocalTheta] = m.number("local_theta") > 0 ? m.number("local_theta") : m.number("theta");
}

}  // namespace lpmm
