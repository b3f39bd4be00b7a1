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
                                  .may_lack = [](std::string_view name) { return name.starts_with("fc."); },
                                  .by = "timm",
                                  .type = "resnet",
                                  .counts = kCounts};

// transformers' names: a convolution and its norm share one.
std::vector<std::string> hugging_face_names(const std::string& name) {
  const std::size_t last = name.rfind('.');
  const std::string what = name.substr(last + 1);
  std::string place = name.substr(0, last), stage, block;
  if (place == "fc") return {"classifier.1." + what};
  const bool is_norm = place.find("bn") != std::string::npos || place.ends_with("downsample.1");
  std::string theirs = "embedder.embedder";
  if (place.starts_with("layer")) {  // layerS.I.convK
    constexpr std::size_t kLayer = 5;
    const std::size_t first = place.find('.'), second = place.find('.', first + 1);
    stage = place.substr(kLayer, first - kLayer);
    block = place.substr(first + 1, second - first - 1);
    place.erase(0, second + 1);
    theirs = fmt::format(
        "encoder.stages.{}.layers.{}.{}", std::stoi(stage) - 1, block,
        place.starts_with("downsample") ? "shortcut" : fmt::format("layer.{}", place.back() - '1'));
  }
  return {fmt::format("{}.{}.{}", theirs, is_norm ? "normalization" : "convolution", what)};
}

constexpr PublishedLayout kHuggingFace{
    .model = "ResNet",
    .prefix = "resnet.",
    .is_left_out = kLayout.is_left_out,
    .is_behind_prefix = [](std::string_view name) { return !name.starts_with("fc."); },
    .parts = hugging_face_names,
    .may_lack = kLayout.may_lack,
    .by = "timm",
    .type = "resnet",
    .counts = kCounts};

// Returns true if the files of a folder are those of transformers.
bool is_hugging_face(const std::string& path) {
  if (!PublishedConfig::is_beside(path)) return false;
  return PublishedConfig(PublishedConfig::beside(path)).text("model_type") == "resnet";
}
const PublishedLayout& layout_at(const std::string& path) {
  return is_hugging_face(path) ? kHuggingFace : kLayout;
}

bool is_resnet(const std::string& path) {
  return is_hugging_face(path) ||
         has_published_tensors(path, {"layer1.0.conv1.weight", "layer1.0.bn1.running_mean"});
}

// The factor on the channels inside bottlenecks, and their groups.
void read_bottleneck(const PublishedTensors& tensors, std::int64_t width, ModelConfig& model) {
  const std::vector<std::int64_t>& middle =
      expect_published(tensors, kLayout, "layer1.0.conv2.weight", 4).shape;
  const auto times = [](std::int64_t whole, std::int64_t part) {
    return part > 0 && whole % part == 0 ? std::max<std::int64_t>(1, whole / part) : 1;
  };
  model.set("widen", times(middle[0], width));
  model.set("groups", times(middle[0], middle[1]));
}

std::string remark_on_resnet(const std::string& path, const ModelConfig&) {
  return remark_on_image_head(path);
}

// Gives the model its own name, if there is one for its sizes.
void name_resnet(ModelConfig& model) {
  for (const NamedModel& named : model.family->models) {
    const ModelConfig other = complete(families().config(std::string(named.name)));
    if (other.integers("blocks") == model.integers("blocks") &&
        other.flag("bottleneck") == model.flag("bottleneck"))
      model.name = named.name;
  }
}

// Channels of the stages, as transformers names them.
std::vector<std::int64_t> stages_of(std::int64_t width, bool bottleneck) {
  std::vector<std::int64_t> channels;
  for (int stage = 0; stage < 4; ++stage) channels.push_back((width << stage) * (bottleneck ? 4 : 1));
  return channels;
}

ModelConfig read_hugging_face(const std::string& path, const PublishedTensors& tensors) {
  const PublishedConfig config(PublishedConfig::beside(path));
  const bool bottleneck = config.text("layer_type") != "basic";
  ModelConfig model = families().config(bottleneck ? "resnet50" : "resnet18");
  const std::int64_t width = config.size("embedding_size");
  std::vector<std::int64_t> blocks;
  for (const Json& depth : config.has("depths") ? config.json()["depths"] : Json::array()) {
    constexpr std::int64_t kMost = 100;
    const std::int64_t count = depth.is_number_integer() ? depth.get<std::int64_t>() : 0;
    blocks.push_back(std::clamp<std::int64_t>(count, 0, kMost));
  }
  config.expect("layer_type", {"basic", "bottleneck"});
  config.expect("hidden_sizes", {stages_of(width, bottleneck)});
  config.expect("hidden_act", {"relu"});
  config.expect("downsample_in_first_stage", {false});
  config.expect("downsample_in_bottleneck", {false});
  if (blocks.size() != 4 || std::ranges::find(blocks, 0) != blocks.end())
    throw RunError(fmt::format("{}: depths are not four numbers of blocks", config.path()));
  model.set("blocks", blocks);
  model.set("bottleneck", bottleneck);
  model.set("width", width);
  name_resnet(model);
  const SafetensorsEntry* head = tensors.find("classifier.1.weight").entry;
  model.channels = config.has("num_channels") ? static_cast<int>(config.size("num_channels")) : 3;
  model.classes = head == nullptr || head->shape.empty()
                      ? kStandInClasses
                      : static_cast<int>(std::clamp<std::int64_t>(head->shape[0], 0, 1 << 30));
  model.height = model.width = 224;
  return model;
}

// Refuses models of timm that compute otherwise with the same tensors.
void refuse_other_resnets(const std::string& path) {
  if (!PublishedConfig::is_beside(path)) return;
  const PublishedConfig config(PublishedConfig::beside(path));
  config.expect_timm("resnet", {"avg"});
  const std::string name = config.text("architecture");
  if (name.starts_with("resnetblur") || name.starts_with("resnetaa")) config.expect("architecture", {});
}

ModelConfig read_resnet(const std::string& path) {
  refuse_other_resnets(path);
  const PublishedTensors tensors(path);
  if (is_hugging_face(path)) return read_hugging_face(path, tensors);
  constexpr std::int64_t kMostBlocks = 100;
  std::vector<std::int64_t> blocks;
  for (int stage = 1; stage <= 4; ++stage) {
    expect_published(tensors, kLayout, fmt::format("layer{}.0.conv1.weight", stage), 4);
    blocks.push_back(count_published(tensors, kLayout, kMostBlocks, [stage](std::int64_t i) {
      return fmt::format("layer{}.{}.conv1.weight", stage, i);
    }));
  }
  const bool bottleneck = tensors.find("layer1.0.conv3.weight").entry != nullptr;
  const bool deep = tensors.find("conv1.6.weight").entry != nullptr;
  const std::vector<std::int64_t>&first =
            expect_published(tensors, kLayout, deep ? "conv1.0.weight" : "conv1.weight", 4).shape,
        &stem = deep ? expect_published(tensors, kLayout, "conv1.6.weight", 4).shape : first;
  ModelConfig model = families().config(bottleneck ? "resnet50" : "resnet18");
  model.set("blocks", blocks);
  model.set("bottleneck", bottleneck);
  model.set("width", stem[0]);
  model.set("small_stem", !deep && stem[2] == 3);
  model.set("deep", deep);
  if (bottleneck) read_bottleneck(tensors, stem[0], model);
  name_resnet(model);
  model.channels = static_cast<int>(std::clamp<std::int64_t>(first[1], 0, 4096));
  model.classes = lacks_image_head(path)
                      ? kStandInClasses
                      : static_cast<int>(std::clamp<std::int64_t>(
                            expect_published(tensors, kLayout, "fc.weight", 2).shape[0], 0, 1 << 30));
  model.height = model.width = model.flag("small_stem") ? kImageSide : 224;
  return model;
}

void load_resnet(const std::string& path, ModelMemory& memory) {
  load_published(PublishedTensors(path), layout_at(path), memory);
}

void load_statistics(const std::string& path, Buffers& buffers) {
  load_published_buffers(PublishedTensors(path), layout_at(path), buffers);
}

void save_hugging_face(const WeightSource& weights, const ModelConfig& m, std::int64_t classes,
                       const std::string& folder, Device& device) {
  const bool bottleneck = m.flag("bottleneck");
  if (m.flag("small_stem") || m.flag("deep") || m.integer("widen") > 1 || m.integer("groups") > 1) {
    throw UsageError(
        fmt::format("{}: transformers' ResNet has none of model.small_stem, model.deep, model.widen and "
                    "model.groups; export without --hf",
                    weights.path()));
  }
  Json written = {{"architectures", {"ResNetForImageClassification"}},
                  {"model_type", "resnet"},
                  {"num_labels", classes},
                  {"num_channels", m.channels},
                  {"embedding_size", m.integer("width")},
                  {"hidden_sizes", stages_of(m.integer("width"), bottleneck)},
                  {"depths", m.integers("blocks")},
                  {"layer_type", bottleneck ? "bottleneck" : "basic"},
                  {"hidden_act", "relu"},
                  {"downsample_in_first_stage", false},
                  {"downsample_in_bottleneck", false},
                  {"torch_dtype", "float32"}};
  add_id2label(weights.facts(), classes, written);
  save_published(weights, kHuggingFace, written, folder, device);
}

// timm's names: resnet50d, wide_resnet50_2, resnext50_32x4d (groups, and channels of one at a width of 64).
std::string architecture_of(const ModelConfig& m) {
  const int widen = m.integer("widen"), groups = m.integer("groups");
  const char* deep = m.flag("deep") ? "d" : "";
  if (groups > 1) {
    constexpr int kBaseWidth = 64;
    return fmt::format("resnext{}{}_{}x{}d", m.name.substr(std::string_view("resnet").size()), deep, groups,
                       kBaseWidth * widen / groups);
  }
  return widen > 1 ? fmt::format("wide_{}{}_{}", m.name, deep, widen) : m.name + deep;
}

void save_resnet(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
                 Device& device) {
  const std::vector<TensorInfo> tensors = weights.infos();
  const auto head =
      std::find_if(tensors.begin(), tensors.end(), [](const TensorInfo& t) { return t.name == "fc.bias"; });
  if (head == tensors.end()) throw RunError(fmt::format("{}: has no fc.bias", weights.path()));
  ModelConfig m = complete(config);
  for (const TensorInfo& t : tensors) {
    if (t.name == "conv1.weight" || t.name == "conv1.0.weight") m.channels = static_cast<int>(t.shape[1]);
  }
  const PublishedFacts facts = weights.facts();
  if (!facts.files.empty() && is_hugging_face(facts.files))
    return save_hugging_face(weights, m, head->elements(), folder, device);
  Json written = {{"architecture", architecture_of(m)},
                  {"num_classes", head->elements()},
                  {"model_args", {{"num_classes", head->elements()}}}};
  if (m.channels != kMostImageChannels) written["model_args"]["in_chans"] = m.channels;
  add_label_names(facts, head->elements(), written);
  add_pixels(facts, head->elements(), written);
  save_published(weights, kLayout, written, folder, device);
}

}  // namespace

const Published& resnet_torchvision() {
  static constexpr Published kPublished{.by = "torchvision",
                                        .kinds = "resnet",
                                        .tokenizer = {},
                                        .is_at = is_resnet,
                                        .read = read_resnet,
                                        .remark = remark_on_resnet,
                                        .load = load_resnet,
                                        .load_buffers = load_statistics,
                                        .save = save_resnet};
  return kPublished;
}

}  // namespace lpmm
