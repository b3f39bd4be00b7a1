#include "models/published/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "models/families.h"
#include "models/published/facts.h"
#include "models/published/folder.h"
#include "models/published/published.h"

namespace lpmm {
namespace {

constexpr PublishedLayout kLayout{.model = "ViT", .by = "timm", .type = "vit"};
constexpr std::int64_t kHeadWidth = 64, kMostLayers = 1000;

const std::vector<std::int64_t>& shape_of(const PublishedTensors& tensors, const std::string& name,
                                          std::size_t dimensions) {
  const std::vector<std::int64_t>& shape = expect_published(tensors, kLayout, name, dimensions).shape;
  const bool sizes = std::ranges::all_of(shape, [](std::int64_t n) { return n >= 1 && n <= 1 << 16; });
  if (!sizes) throw RunError(fmt::format("{}: {} has no shape of a ViT's", tensors.path(), name));
  return shape;
}

bool is_vit(const std::string& path) {
  return has_published_tensors(path, {"patch_embed.proj.weight", "cls_token"});
}

// The number of heads that config.json says; 0: it does not.
std::int64_t heads_beside(const std::string& path) {
  const std::string beside = PublishedConfig::beside(path);
  if (!PublishedConfig::is_beside(path)) return 0;
  const PublishedConfig config(beside);
  config.expect_timm("vit", "token");
  if (!config.has("model_args")) return 0;
  const PublishedConfig sizes(beside + ": model_args", config.json()["model_args"]);
  return sizes.has("num_heads") ? sizes.size("num_heads") : 0;
}

std::int64_t usual_heads(std::int64_t channels) {
  return std::max<std::int64_t>(1, channels / kHeadWidth);
}

std::string assumed_heads(const std::string& path, const ModelConfig& model) {
  if (heads_beside(path) > 0 || model.integer("heads") != usual_heads(model.integer("embedding"))) return "";
  return fmt::format(
      "no file says how many heads it has: {} of {} channels are assumed (--set model.heads=N)",
      model.integer("heads"), model.integer("embedding") / model.integer("heads"));
}

ModelConfig read_vit(const std::string& path) {
  const PublishedTensors tensors(path);
  const std::vector<std::int64_t> patch = shape_of(tensors, "patch_embed.proj.weight", 4);
  const std::int64_t patches = shape_of(tensors, "pos_embed", 3)[1] - 1;
  const auto across = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(patches))));
  if (across * across != patches) {
    throw RunError(fmt::format("{}: pos_embed has {} positions of patches, which are no square",
                               tensors.path(), patches));
  }
  ModelConfig model = families().config("vit");
  expect_published(tensors, kLayout, "blocks.0.norm1.weight", 1);
  model.set("layers", count_published(tensors, kLayout, kMostLayers, [](std::int64_t i) {
              return fmt::format("blocks.{}.norm1.weight", i);
            }));
  model.set("embedding", patch[0]);
  model.set("patch", patch[2]);
  const std::int64_t heads = heads_beside(path);
  model.set("heads", heads > 0 ? heads : usual_heads(patch[0]));
  model.channels = static_cast<int>(patch[1]);
  model.height = model.width = static_cast<int>(across * patch[2]);
  model.classes = static_cast<int>(shape_of(tensors, "head.weight", 2)[0]);
  return model;
}

void load_vit(const std::string& path, ModelMemory& memory) {
  load_published(PublishedTensors(path), kLayout, memory);
}

// timm's names of what it makes of model_args; one of them is as good as another.
void save_vit(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
              Device& device) {
  const ModelConfig m = complete(config);
  std::int64_t positions = 0, classes = 0;
  for (const TensorInfo& t : weights.infos()) {
    if (t.name == "pos_embed") positions = t.shape[1];
    if (t.name == "head.bias") classes = t.shape[0];
  }
  const auto across = std::lround(std::sqrt(static_cast<double>(positions - 1)));
  Json written = {{"architecture", "vit_base_patch16_224"},
                  {"num_classes", classes},
                  {"model_args",
                   {{"num_classes", classes},
                    {"img_size", across * m.integer("patch")},
                    {"patch_size", m.integer("patch")},
                    {"embed_dim", m.integer("embedding")},
                    {"depth", m.integer("layers")},
                    {"num_heads", m.integer("heads")}}}};
  add_label_names(weights.facts(), classes, written);
  add_pixels(weights.facts(), classes, written);
  save_published(weights, kLayout, written, folder, device);
}

}  // namespace

const Published& vit_timm() {
  static constexpr Published kPublished{.by = "timm",
                                        .kinds = "vit",
                                        .tokenizer = {},
                                        .is_at = is_vit,
                                        .read = read_vit,
                                        .remark = assumed_heads,
                                        .load = load_vit,
                                        .save = save_vit};
  return kPublished;
}

}  // namespace lpmm
