#include "models/published/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "models/families.h"
#include "models/published/facts.h"
#include "models/published/folder.h"
#include "models/published/published.h"

namespace lpmm {
namespace {

constexpr std::string_view kCounts = ".num_batches_tracked";
constexpr PublishedLayout kLayout{.model = "ResNet",
                                  .is_left_out =
                                      [](std::string_view name) {
                                        return name.ends_with(kCounts) || name.ends_with(".running_mean") ||
                                               name.ends_with(".running_var");
                                      },
                                  .by = "timm",
                                  .type = "resnet",
                                  .counts = kCounts};

bool is_resnet(const std::string& path) {
  return has_published_tensors(path, {"layer1.0.conv1.weight", "fc.weight"});
}

// What timm makes of the same tensors by other arithmetic.
void refuse_other_resnets(const std::string& path) {
  if (!PublishedConfig::is_beside(path)) return;
  const PublishedConfig config(PublishedConfig::beside(path));
  config.expect_timm("resnet", "avg");
  const std::string name = config.text("architecture");
  if (name.starts_with("resnetblur") || name.starts_with("resnetaa")) config.expect("architecture", {});
}

ModelConfig read_resnet(const std::string& path) {
  refuse_other_resnets(path);
  const PublishedTensors tensors(path);
  constexpr std::int64_t kMostBlocks = 100;
  std::vector<std::int64_t> blocks;
  for (int stage = 1; stage <= 4; ++stage) {
    expect_published(tensors, kLayout, fmt::format("layer{}.0.conv1.weight", stage), 4);
    blocks.push_back(count_published(tensors, kLayout, kMostBlocks, [stage](std::int64_t i) {
      return fmt::format("layer{}.{}.conv1.weight", stage, i);
    }));
  }
  const bool bottleneck = tensors.find("layer1.0.conv3.weight").entry != nullptr;
  const std::vector<std::int64_t>& stem = expect_published(tensors, kLayout, "conv1.weight", 4).shape;
  ModelConfig model = families().config(bottleneck ? "resnet50" : "resnet18");
  for (const NamedModel& named : model.family->models) {  // by its own name, where it has one
    const ModelConfig other = complete(families().config(std::string(named.name)));
    if (other.integers("blocks") == blocks && other.flag("bottleneck") == bottleneck) model.name = named.name;
  }
  model.set("blocks", blocks);
  model.set("bottleneck", bottleneck);
  model.set("width", stem[0]);
  model.set("small_stem", stem[2] == 3);
  model.channels = static_cast<int>(std::clamp<std::int64_t>(stem[1], 0, 4096));
  model.classes = static_cast<int>(
      std::clamp<std::int64_t>(expect_published(tensors, kLayout, "fc.weight", 2).shape[0], 0, 1 << 30));
  model.height = model.width = model.flag("small_stem") ? kImageSide : 224;
  return model;
}

void load_resnet(const std::string& path, ModelMemory& memory) {
  load_published(PublishedTensors(path), kLayout, memory);
}

void load_statistics(const std::string& path, Buffers& buffers) {
  load_published_buffers(PublishedTensors(path), kLayout, buffers);
}

void save_resnet(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
                 Device& device) {
  const std::vector<TensorInfo> tensors = weights.infos();
  const auto head =
      std::find_if(tensors.begin(), tensors.end(), [](const TensorInfo& t) { return t.name == "fc.bias"; });
  if (head == tensors.end()) throw RunError(fmt::format("{}: has no fc.bias", weights.path()));
  Json written = {{"architecture", config.name},
                  {"num_classes", head->elements()},
                  {"model_args", {{"num_classes", head->elements()}}}};
  add_label_names(weights.facts(), head->elements(), written);
  add_pixels(weights.facts(), head->elements(), written);
  save_published(weights, kLayout, written, folder, device);
}

}  // namespace

const Published& resnet_torchvision() {
  static constexpr Published kPublished{.by = "torchvision",
                                        .kinds = "resnet",
                                        .tokenizer = {},
                                        .is_at = is_resnet,
                                        .read = read_resnet,
                                        .load = load_resnet,
                                        .load_buffers = load_statistics,
                                        .save = save_resnet};
  return kPublished;
}

}  // namespace lpmm
