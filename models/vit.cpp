// Vision transformers: Dosovitskiy et al. 2021; distilled ones: Touvron et al. 2021; with registers, which no
// head reads: Darcet et al. 2023; as timm publishes them. An image is a sequence of patches behind a class
// token, which the head reads; norms before each part. Tensors have timm's names.
#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "lpmm/program/ops/activations.h"
#include "lpmm/program/ops/add.h"
#include "lpmm/program/ops/dropout.h"
#include "lpmm/program/ops/input.h"
#include "lpmm/program/ops/layer_scale.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/loss.h"
#include "lpmm/program/ops/patches.h"
#include "lpmm/program/ops/row_norm.h"
#include "lpmm/program/ops/sequence/attention.h"
#include "lpmm/program/ops/sequence/mean.h"
#include "lpmm/program/ops/sequence/positions.h"
#include "models/families.h"
#include "models/published/layouts.h"

namespace lpmm {
namespace {

constexpr double kDeviation = 0.02;

// The sequence of an image, with positions: class token, distillation token, registers, patches.
Value sequence(ProgramBuilder& b, const ModelConfig& c) {
  const int width = c.integer("embedding"), patch = c.integer("patch"), registers = c.integer("registers");
  const bool only_patches = c.flag("patch_positions");
  const auto positions = [&](Value x) { return add_positions(b, "pos_embed", x, {1, x.width, width}); };
  Value x = patches(b, input(b, c.height, c.width, c.channels), patch);
  x = projections(
      b, {{.name = "patch_embed.proj", .outputs = width, .shape = {width, c.channels, patch, patch}}}, x,
      kDeviation);
  if (only_patches) x = positions(x);
  if (registers > 0) x = prepend(b, "reg_token", x, registers);
  if (c.flag("distilled")) x = prepend(b, "dist_token", x);
  if (!c.flag("mean_pooled")) x = prepend(b, "cls_token", x);
  return only_patches ? x : positions(x);
}

void forward(ProgramBuilder& b, const ModelConfig& c) {
  const int heads = c.integer("heads"), width = c.integer("embedding");
  const int hidden = 4 * width;
  const double drop = c.number("dropout"), epsilon = c.number("epsilon"), factor = c.number("layer_scale");
  const bool distilled = c.flag("distilled"), mean_pooled = c.flag("mean_pooled");
  Value x = dropout(b, sequence(b, c), drop);
  for (int i = 0; i < c.integer("layers"); ++i) {
    const auto layer = [&](Value in) {
      const std::string name = fmt::format("blocks.{}.", i);
      const auto joined = [&](Value before, Value y, const char* scale) {
        if (factor > 0) y = layer_scale(b, name + scale, y, factor);
        return add(b, before, dropout(b, y, drop));
      };
      Value y = layer_norm(b, name + "norm1", in, epsilon);
      y = projection(b, name + "attn.qkv", y, 3 * width, kDeviation, true, 3, heads);
      y = attention(b, y, {.heads = heads, .dropout = drop, .is_causal = false});
      y = projection(b, name + "attn.proj", y, width, kDeviation);
      const Value middle = joined(in, y, "ls1.gamma");
      y = layer_norm(b, name + "norm2", middle, epsilon);
      y = activation(b, Activation::kGelu, projection(b, name + "mlp.fc1", y, hidden, kDeviation));
      y = projection(b, name + "mlp.fc2", y, width, kDeviation);
      return joined(middle, y, "ls2.gamma");
    };
    x = c.flag("recompute") ? b.recompute(x, layer) : layer(x);
  }
  if (distilled) {  // the mean of what two heads tell
    x = layer_norm(b, "norm", x, epsilon);
    const Value first = classifier(b, "head", select(b, x, 0), c.classes),
                second = classifier(b, "head_dist", select(b, x, 1), c.classes);
    return loss(b, scale(b, add(b, first, second), 0.5), c.number("label_smoothing"));
  }
  // The norm is of each row alone, so it may follow the selection of the class token.
  if (mean_pooled) {
    const int registers = c.integer("registers");
    if (registers > 0) x = select(b, x, registers, x.width - registers);
    x = layer_norm(b, "fc_norm", mean(b, x), epsilon);
  } else {
    x = layer_norm(b, "norm", select(b, x, 0), epsilon);
  }
  loss(b, classifier(b, "head", x, c.classes), c.number("label_smoothing"));
}

void check(const ModelConfig& c) {
  const int patch = c.integer("patch");
  if (c.integer("embedding") % c.integer("heads") != 0) {
    throw UsageError(fmt::format("model.embedding = {} must be a multiple of model.heads = {}",
                                 c.integer("embedding"), c.integer("heads")));
  }
  if (c.flag("distilled") && c.flag("mean_pooled"))
    throw UsageError("model.distilled and model.mean_pooled are two ways to a head: only one may be true");
  if (c.height % patch != 0 || c.width % patch != 0) {
    throw UsageError(fmt::format("model.patch = {}: the images have {} x {} pixels, which it must divide",
                                 patch, c.height, c.width));
  }
}

// Table 1 of the paper, and of DeiT (Touvron et al. 2021).
NamedModel size(std::string_view name, std::int64_t heads, std::int64_t width) {
  return {name, {{"layers", std::int64_t{12}}, {"heads", heads}, {"embedding", width}}};
}

}  // namespace

Family vit() {
  return {.name = "vit",
          .help = "vision transformers (Dosovitskiy et al. 2021)",
          .reads = &kImageTask,
          .models = {{"vit"}, size("vit-tiny", 3, 192), size("vit-small", 6, 384), size("vit-base", 12, 768)},
          .settings =
              {{"layers", 0, 1, 1000, "layers of attention and MLP; 0: the name's own"},
               {"heads", 0, 1, 1000, "heads of attention; 0: the name's own"},
               {"embedding", 0, 1, 1 << 16, "channels of a position; 0: the name's own"},
               {"patch", 16, 1, 1024, "pixels of a side of a patch; 4 for images of 32 x 32"},
               {"epsilon", 1e-6, 1e-12, 1, "of the norms; that of transformers: 1e-12"},
               {"distilled", false, 0, 0, "DeiT's second token and head, whose mean with the first's counts"},
               {"mean_pooled", false, 0, 0, "no class token: the head reads the mean of the patches"},
               {"registers", 0, 0, 1024, "learned tokens beside the patches that no head reads"},
               {"patch_positions", false, 0, 0, "only patches have positions, tokens before them none"},
               {"layer_scale", 0.0, 0, 1, "initial factor on what layers add, learned: LayerScale; 0: none"},
               {"dropout", 0.0, 0, 0.999, "of the embedding, of attention, of what layers add"},
               label_smoothing(),
               {"recompute", false, 0, 0, "keep the input of layers only, compute them again"}},
          .check = check,
          .forward = forward,
          .head = "head",
          .published = &vit_timm()};
}

}  // namespace lpmm
