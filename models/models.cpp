#include "models/models.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>
#include <span>

#include "kernels/noise.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/program/forward_model.h"
#include "lpmm/program/ops/activations.h"
#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/attention.h"
#include "lpmm/program/ops/batch_norm.h"
#include "lpmm/program/ops/convolution.h"
#include "lpmm/program/ops/dropout.h"
#include "lpmm/program/ops/embedding.h"
#include "lpmm/program/ops/input.h"
#include "lpmm/program/ops/layer_norm.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/loss.h"
#include "lpmm/program/ops/pool.h"
#include "lpmm/program/ops/shortcut.h"
#include "lpmm/program/ops/token_loss.h"

namespace lpmm {
namespace {

// He et al. 2016, section 4.2: depth = 6 n + 2. Wider ones after Zagoruyko & Komodakis 2016.
void resnet(ProgramBuilder& b, const ModelConfig& config, int depth) {
  Value x = input(b, config.height, config.width, config.channels);
  x = batch_norm(b, "stem.bn", convolution(b, "stem.conv", x, 16 * config.widen, 3, 1), true);
  for (int stage = 1; stage <= 3; ++stage) {
    const int channels = (8 << stage) * config.widen;
    for (int block = 0; block < (depth - 2) / 6; ++block) {
      const std::string name = fmt::format("stage{}.{}", stage, block);
      const int stride = stage > 1 && block == 0 ? 2 : 1;
      Value y = convolution(b, name + ".conv1", x, channels, 3, stride);
      y = batch_norm(b, name + ".bn1", y, true);
      y = convolution(b, name + ".conv2", y, channels, 3, 1);
      if (stride > 1) x = shortcut(b, x, channels, stride);
      x = batch_norm(b, name + ".bn2", y, true, x);
    }
  }
  x = average_pool(b, x, x.height, 1);
  loss(b, linear(b, "head", x, config.classes, false), config.label_smoothing);
}

void mlp(ProgramBuilder& b, const ModelConfig& config) {
  Value x = input(b, config.height, config.width, config.channels);
  for (std::size_t i = 0; i < config.hidden.size(); ++i) {
    x = linear(b, fmt::format("hidden{}", i + 1), x, static_cast<int>(config.hidden[i]), true);
  }
  loss(b, linear(b, "head", x, config.classes, false), config.label_smoothing);
}

void check_range(const char* what, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    throw UsageError(fmt::format("model.{} = {}: must be between {} and {}", what, value, low, high));
  }
}

// The shape of a GPT: the family's, and what the configuration says otherwise.
ModelConfig gpt_shape(const ModelConfig& config) {
  ModelConfig c = complete(config);
  check_range("layers", c.layers, 1, 1000);
  check_range("heads", c.heads, 1, 1000);
  check_range("embedding", c.embedding, 1, 1 << 16);
  check_range("context", c.context, 1, 1 << 20);
  check_range("vocabulary", c.vocabulary, 2, 1 << 24);
  if (!(c.dropout >= 0 && c.dropout < 1)) {
    throw UsageError(fmt::format("model.dropout = {}: must be at least 0 and below 1", c.dropout));
  }
  if (c.embedding % c.heads != 0) {
    throw UsageError(
        fmt::format("model.embedding = {} must be a multiple of model.heads = {}", c.embedding, c.heads));
  }
  if (c.length > c.context) {
    throw UsageError(fmt::format("data.length = {} is longer than model.context = {}", c.length, c.context));
  }
  return c;
}

// Radford et al. 2019: norms before each part, a last norm, the embedding tied to the output. Tensors have
// the names of the published checkpoints.
void gpt(ProgramBuilder& b, const ModelConfig& c) {
  const double deviation = 0.02, residual = deviation / std::sqrt(2.0 * c.layers);
  Value x =
      dropout(b, embedding(b, "wte", {c.vocabulary, c.length, c.embedding, "wpe", c.context}), c.dropout);
  for (int i = 0; i < c.layers; ++i) {
    const auto layer = [&](Value in) {
      const std::string name = fmt::format("h.{}.", i);
      Value y = layer_norm(b, name + "ln_1", in);
      y = attention(b, projection(b, name + "attn.c_attn", y, 3 * c.embedding, deviation), c.heads, c.context,
                    c.dropout);
      y = projection(b, name + "attn.c_proj", y, c.embedding, residual);
      const Value middle = add(b, in, dropout(b, y, c.dropout));
      y = layer_norm(b, name + "ln_2", middle);
      y = gelu(b, projection(b, name + "mlp.c_fc", y, 4 * c.embedding, deviation));
      y = projection(b, name + "mlp.c_proj", y, c.embedding, residual);
      return add(b, middle, dropout(b, y, c.dropout));
    };
    x = c.recompute ? b.recompute(x, layer) : layer(x);
  }
  tied_token_loss(b, "wte", layer_norm(b, "ln_f", x));
}

struct Family {
  std::string_view name;
  int depth;  // 0: an MLP
};
constexpr std::array<Family, 7> kFamilies = {{{"resnet8", 8},
                                              {"resnet20", 20},
                                              {"resnet32", 32},
                                              {"resnet44", 44},
                                              {"resnet56", 56},
                                              {"resnet110", 110},
                                              {"mlp", 0}}};

}  // namespace

std::unique_ptr<Model> make_model(const ModelConfig& config) {
  check_range("height", config.height, 1, 4096);
  check_range("width", config.width, 1, 4096);
  check_range("channels", config.channels, 1, 4096);
  check_range("classes", config.classes, 2, 1 << 16);
  if (!(config.label_smoothing >= 0 && config.label_smoothing < 1)) {
    throw UsageError(
        fmt::format("model.label_smoothing = {}: must be at least 0 and below 1", config.label_smoothing));
  }
  for (const Family& family : kFamilies) {
    if (config.name != family.name) continue;
    if (config.layers != 0 || config.heads != 0 || config.embedding != 0 || config.context != 0 ||
        config.vocabulary != 0 || config.dropout != 0 || config.recompute) {
      throw UsageError(
          fmt::format("model.layers, heads, embedding, context, vocabulary, dropout and recompute are "
                      "for a gpt, not for {}",
                      config.name));
    }
    if (family.depth == 0) {
      if (config.widen != 1) throw UsageError("model.widen is for ResNets; an mlp has model.hidden");
      for (const std::int64_t width : config.hidden) check_range("hidden", width, 1, 1 << 20);
      return make_forward_model([config](ProgramBuilder& b) { mlp(b, config); }, false);
    }
    if (!config.hidden.empty())
      throw UsageError(fmt::format("model.hidden is for mlp; {} has none", config.name));
    check_range("widen", config.widen, 1, 1024);
    if (config.height != config.width) throw UsageError("a ResNet needs square images");
    return make_forward_model([config, family](ProgramBuilder& b) { resnet(b, config, family.depth); },
                              false);
  }
  if (reads_tokens(config)) {
    if (!config.hidden.empty() || config.label_smoothing != 0 || config.widen != 1) {
      throw UsageError(fmt::format("model.hidden, label_smoothing and widen are not for {}", config.name));
    }
    const ModelConfig shape = gpt_shape(config);
    return make_forward_model([shape](ProgramBuilder& b) { gpt(b, shape); }, true);
  }
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  for (const std::string_view gpt : gpt_names()) names.push_back(gpt);
  throw UsageError(fmt::format("unknown model \"{}\"; did you mean \"{}\"? There are {}", config.name,
                               nearest_name(config.name, names), join(names)));
}

}  // namespace lpmm
