// Residual networks as torchvision and timm publish them: He et al. 2016, table 1, with a bottleneck's stride
// in its 3x3 (Goyal et al. 2017, section 5.1) and shortcuts that are convolutions where the shape changes.
// Wide ones: Zagoruyko and Komodakis 2016; resnet-d: He et al. 2019; ResNeXt: Xie et al. 2017.
// Tensors and buffers have the publishers' names.
#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "lpmm/program/ops/batch_norm.h"
#include "lpmm/program/ops/convolution.h"
#include "lpmm/program/ops/input.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/loss.h"
#include "lpmm/program/ops/pool.h"
#include "models/families.h"
#include "models/published/layouts.h"

namespace lpmm {
namespace {

constexpr int kStages = 4, kExpansion = 4;

Value norm(ProgramBuilder& b, const ModelConfig& c, const std::string& name, Value x, bool relu,
           Value residual = {}, double initial_weight = 1) {
  return batch_norm(b, name, x, relu, residual, {initial_weight, c.flag("frozen_statistics")});
}

Value block(ProgramBuilder& b, const ModelConfig& c, const std::string& name, Value x, int width,
            int stride) {
  const bool bottleneck = c.flag("bottleneck");
  const int channels = bottleneck ? kExpansion * width : width;
  Value shortcut = x;
  if (stride > 1 || x.channels != channels) {
    const bool pools = c.flag("deep");
    if (pools && stride > 1) shortcut = average_pool(b, x, stride, stride);
    shortcut = convolution(b, name + (pools ? "downsample.1" : "downsample.0"), shortcut, channels, 1,
                           pools ? 1 : stride);
    shortcut = norm(b, c, name + (pools ? "downsample.2" : "downsample.1"), shortcut, false);
  }
  const int inner = bottleneck ? width * c.integer("widen") : width;
  Value y = convolution(b, name + "conv1", x, inner, bottleneck ? 1 : 3, bottleneck ? 1 : stride);
  y = norm(b, c, name + "bn1", y, true);
  y = convolution(b, name + "conv2", y, inner, 3, bottleneck ? stride : 1,
                  bottleneck ? c.integer("groups") : 1);
  if (bottleneck) {
    y = norm(b, c, name + "bn2", y, true);
    y = convolution(b, name + "conv3", y, channels, 1, 1);
  }
  const double weight = c.flag("zero_last_norm") ? 0 : 1;
  return norm(b, c, name + (bottleneck ? "bn3" : "bn2"), y, true, shortcut, weight);
}

Value stem(ProgramBuilder& b, const ModelConfig& c, Value x) {
  const bool small = c.flag("small_stem");
  const int width = c.integer("width");
  if (!c.flag("deep")) return convolution(b, "conv1", x, width, small ? 3 : 7, small ? 1 : 2);
  x = norm(b, c, "conv1.1", convolution(b, "conv1.0", x, width / 2, 3, 2), true);
  x = norm(b, c, "conv1.4", convolution(b, "conv1.3", x, width / 2, 3, 1), true);
  return convolution(b, "conv1.6", x, width, 3, 1);
}

void forward(ProgramBuilder& b, const ModelConfig& c) {
  const bool small = c.flag("small_stem");
  const int width = c.integer("width");
  Value x = norm(b, c, "bn1", stem(b, c, input(b, c.height, c.width, c.channels)), true);
  if (!small) x = max_pool(b, x, 3, 2, 1);
  const std::vector<std::int64_t>& blocks = c.integers("blocks");
  for (int stage = 0; stage < kStages; ++stage) {
    for (int i = 0; i < blocks[static_cast<std::size_t>(stage)]; ++i) {
      x = block(b, c, fmt::format("layer{}.{}.", stage + 1, i), x, width << stage,
                stage > 0 && i == 0 ? 2 : 1);
    }
  }
  x = average_pool(b, x, x.height, 1);
  loss(b, classifier(b, "fc", x, c.classes), c.number("label_smoothing"));
}

void check(const ModelConfig& c) {
  if (c.height != c.width) throw UsageError("a ResNet needs square images");
  constexpr int kShrinks = 32;
  if (c.flag("deep") && (c.flag("small_stem") || c.height % kShrinks != 0 || c.integer("width") % 2 != 0)) {
    throw UsageError(fmt::format(
        "model.deep = true needs model.small_stem = false, an even model.width (it is {}), and pictures "
        "whose side is a multiple of {} (it is {})",
        c.integer("width"), kShrinks, c.height));
  }
  const int inner = c.integer("width") * c.integer("widen"), groups = c.integer("groups");
  if (groups > 1 && (!c.flag("bottleneck") || inner % groups != 0)) {
    throw UsageError(fmt::format(
        "model.groups = {} must divide the {} channels inside bottlenecks (model.width * model.widen), which "
        "model.name = {} {}",
        groups, inner, c.name, c.flag("bottleneck") ? "has" : "has not"));
  }
  if (c.integers("blocks").size() != kStages) {
    throw UsageError(
        fmt::format("model.blocks = {}: a {} has four stages", to_text(c.value("blocks")), c.name));
  }
}

NamedModel depth(std::string_view name, std::vector<std::int64_t> blocks, bool bottleneck) {
  return {name, {{"blocks", std::move(blocks)}, {"bottleneck", bottleneck}}};
}

}  // namespace

Family imagenet_resnet() {
  return {
      .name = "imagenet-resnet",
      .help = "residual networks as published for ImageNet (He et al. 2016, table 1)",
      .reads = &kImageTask,
      .models = {depth("resnet18", {2, 2, 2, 2}, false), depth("resnet34", {3, 4, 6, 3}, false),
                 depth("resnet50", {3, 4, 6, 3}, true), depth("resnet101", {3, 4, 23, 3}, true)},
      .settings = {{"blocks", std::vector<std::int64_t>{}, 1, 100, "of the four stages; []: the name's own"},
                   {"bottleneck", false, 0, 0, "blocks of 1x1, 3x3, 1x1; the name's own where it has them"},
                   {"width", 64, 1, 1024, "channels of the first stage, before a bottleneck's factor of 4"},
                   {"widen", 1, 1, 64, "factor on the channels inside a bottleneck: wide ResNets"},
                   {"groups", 1, 1, 1024, "of channels inside bottlenecks that see only their own: ResNeXt"},
                   {"deep", false, 0, 0, "three convolutions in the stem, pooled shortcuts: resnet-d"},
                   {"small_stem", false, 0, 0, "begin with 3x3 and no pooling, for images of 32 x 32"},
                   {"zero_last_norm", false, 0, 0, "the last norm of a block starts at 0"},
                   {"frozen_statistics", false, 0, 0,
                    "norm by the statistics that the weights came with, and keep them"},
                   label_smoothing()},
      .check = check,
      .forward = forward,
      .head = "fc.",
      .published = &resnet_torchvision()};
}

}  // namespace lpmm
