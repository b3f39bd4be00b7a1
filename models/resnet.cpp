// Residual networks for small images: He et al. 2016, section 4.2. Wider ones after Zagoruyko & Komodakis
// 2016.
#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "lpmm/program/ops/batch_norm.h"
#include "lpmm/program/ops/convolution.h"
#include "lpmm/program/ops/input.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/loss.h"
#include "lpmm/program/ops/pool.h"
#include "lpmm/program/ops/shortcut.h"
#include "models/families.h"

namespace lpmm {
namespace {

struct Depth {
  std::string_view name;
  int blocks;  // per stage: depth = 6 blocks + 2
};
constexpr Depth kDepths[] = {{"resnet8", 1},  {"resnet20", 3}, {"resnet32", 5},
                             {"resnet44", 7}, {"resnet56", 9}, {"resnet110", 18}};

int blocks_of(const ModelConfig& c) {
  return std::find_if(std::begin(kDepths), std::end(kDepths),
                      [&](const Depth& d) { return d.name == c.name; })
      ->blocks;
}

void forward(ProgramBuilder& b, const ModelConfig& c) {
  const int widen = c.integer("widen");
  Value x = input(b, c.height, c.width, c.channels);
  x = batch_norm(b, "stem.bn", convolution(b, "stem.conv", x, 16 * widen, 3, 1), true);
  for (int stage = 1; stage <= 3; ++stage) {
    const int channels = (8 << stage) * widen;
    for (int block = 0; block < blocks_of(c); ++block) {
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
  loss(b, classifier(b, "head", x, c.classes), c.number("label_smoothing"));
}

void check(const ModelConfig& c) {
  if (c.height != c.width) throw UsageError("a ResNet needs square images");
}

}  // namespace

Family resnet() {
  std::vector<NamedModel> models;
  for (const Depth& depth : kDepths) models.push_back({depth.name});
  return {.name = "resnet",
          .help = "residual networks for small images (He et al. 2016, section 4.2)",
          .reads = &kImageTask,
          .models = std::move(models),
          .settings = {{"widen", 1, 1, 1024, "factor on the channels of every layer"}, label_smoothing()},
          .check = check,
          .forward = forward,
          .head = "head."};
}

}  // namespace lpmm
