#include "models/published/layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "lpmm/base/error.h"
#include "models/families.h"
#include "models/published/facts.h"
#include "models/published/folder.h"
#include "models/published/published.h"

namespace lpmm {
namespace {

constexpr PublishedLayout kLayout{.model = "ViT",
                                  .may_lack = [](std::string_view name) { return name.starts_with("head"); },
                                  .by = "timm",
                                  .type = "vit"};
// The names that transformers gives to our parts of a layer and to the parts outside of layers.
constexpr std::pair<std::string_view, std::string_view> kInLayer[] = {
    {"norm1.", "layernorm_before."},
    {"attn.proj.", "attention.output.dense."},
    {"norm2.", "layernorm_after."},
    {"mlp.fc1.", "intermediate.dense."},
    {"mlp.fc2.", "output.dense."}};
constexpr std::pair<std::string_view, std::string_view> kOutside[] = {
    {"cls_token", "embeddings.cls_token"},
    {"pos_embed", "embeddings.position_embeddings"},
    {"patch_embed.proj.", "embeddings.patch_embeddings.projection."},
    {"norm.", "layernorm."},
    {"head.", "classifier."}};

// The name with what it begins with in place of ours; the name where that is in no row.
template <class Rows>
std::string renamed(std::string_view name, const Rows& rows) {
  for (const auto& [ours, theirs] : rows) {
    if (name.starts_with(ours)) return fmt::format("{}{}", theirs, name.substr(ours.size()));
  }
  return std::string(name);
}

std::vector<std::string> hugging_face_names(const std::string& name) {
  constexpr std::string_view kBlocks = "blocks.", kJoined = "attn.qkv.";
  if (!name.starts_with(kBlocks)) return {renamed(name, kOutside)};
  const std::size_t dot = name.find('.', kBlocks.size());
  const std::string layer =
                        fmt::format("encoder.layer.{}.", name.substr(kBlocks.size(), dot - kBlocks.size())),
                    part = name.substr(dot + 1);
  if (!part.starts_with(kJoined)) return {layer + renamed(part, kInLayer)};
  std::vector<std::string> names;
  for (const char* one : {"query", "key", "value"})
    names.push_back(fmt::format("{}attention.attention.{}.{}", layer, one, part.substr(kJoined.size())));
  return names;
}

constexpr PublishedLayout kHuggingFace{
    .model = "ViT",
    .prefix = "vit.",
    .is_left_out = [](std::string_view name) { return name.find("pooler.dense.") != std::string_view::npos; },
    .is_behind_prefix = [](std::string_view name) { return !name.starts_with("head"); },
    .parts = hugging_face_names,
    .may_lack = kLayout.may_lack,
    .by = "timm",
    .type = "vit"};
constexpr double kTimmsEpsilon = 1e-6;
constexpr int kColours = 3;
constexpr const char* kNoPooler = "its pooler (pooler.dense) is not used, and no export has it";

// The tensors by which other ViTs are known.
struct OtherVit {
  const char* tensor;
  std::string_view has;
};
constexpr OtherVit kOthers[] = {{"blocks.0.gamma_1", "factors on what layers add, as BEiT has"},
                                {"blocks.0.attn.q_norm.weight", "norms of queries and keys"},
                                {"blocks.0.mlp.fc1_g.weight", "gated MLPs"},
                                {"norm_pre.weight", "a norm before its layers, as CLIP has"},
                                {"attn_pool.latent", "a head that attends (global_pool map)"}};
constexpr std::int64_t kHeadWidth = 64, kMostLayers = 1000;

const std::vector<std::int64_t>& shape_of(const PublishedTensors& tensors, const std::string& name,
                                          std::size_t dimensions) {
  const std::vector<std::int64_t>& shape = expect_published(tensors, kLayout, name, dimensions).shape;
  const bool sizes = std::ranges::all_of(shape, [](std::int64_t n) { return n >= 1 && n <= 1 << 16; });
  if (!sizes) throw RunError(fmt::format("{}: {} has no shape of a ViT's", tensors.path(), name));
  return shape;
}

// Returns true if the files of a folder are those of transformers.
bool is_hugging_face(const std::string& path) {
  if (!PublishedConfig::is_beside(path)) return false;
  return PublishedConfig(PublishedConfig::beside(path)).text("model_type") == "vit";
}

bool is_vit(const std::string& path) {
  return is_hugging_face(path) ||
         has_published_tensors(path, {"patch_embed.proj.weight", "blocks.0.attn.qkv.weight"});
}

// Throws for one that this ViT is not.
void refuse_others(const PublishedTensors& tensors) {
  constexpr std::string_view kInstead =
      "which is not here; vit_*_patch16_224.augreg_in21k, deit, dino and dinov2 are";
  for (const OtherVit& other : kOthers) {
    if (tensors.find(other.tensor).entry != nullptr)
      throw RunError(fmt::format("{}: is a ViT with {}, {}", tensors.path(), other.has, kInstead));
  }
  if (tensors.find("pos_embed").entry == nullptr)
    throw RunError(fmt::format("{}: is a ViT without pos_embed, {}", tensors.path(), kInstead));
  const bool has_token = tensors.find("cls_token").entry != nullptr,
             reads_mean = tensors.find("fc_norm.weight").entry != nullptr;
  if (has_token == reads_mean) {
    throw RunError(fmt::format("{}: is a ViT {}, {}", tensors.path(),
                               has_token ? "with a class token whose head reads the mean of the patches"
                                         : "with neither a class token nor a head of their mean (fc_norm)",
                               kInstead));
  }
}

// The settings that config.json has for timm's architecture; none where it has not.
PublishedConfig arguments_beside(const std::string& path) {
  const std::string beside = PublishedConfig::beside(path);
  Json arguments = Json::object();
  if (PublishedConfig::is_beside(path)) {
    const PublishedConfig config(beside);
    if (config.has("model_args")) arguments = config.json()["model_args"];
  }
  return {beside + ": model_args", std::move(arguments)};
}
// The number of heads that config.json says; 0: it does not.
std::int64_t heads_beside(const std::string& path) {
  const PublishedConfig arguments = arguments_beside(path);
  return arguments.has("num_heads") ? arguments.size("num_heads") : 0;
}

// Returns the number of positions that belong to tokens before the patches.
std::int64_t tokens_with_positions(const ModelConfig& m) {
  if (m.flag("patch_positions")) return 0;
  return m.integer("registers") + (m.flag("distilled") ? 1 : 0) + (m.flag("mean_pooled") ? 0 : 1);
}
// The side of the square of patches that so many positions leave; 0: none.
std::int64_t patches_across(const ModelConfig& m, std::int64_t positions) {
  const std::int64_t patches = positions - tokens_with_positions(m);
  const auto across = std::lround(std::sqrt(static_cast<double>(std::max<std::int64_t>(patches, 0))));
  return across * across == patches ? across : 0;
}
// Factors on what layers add are learned: this is what timm's models begin with, mostly.
constexpr double kFirstFactor = 1e-5;

std::int64_t usual_heads(std::int64_t channels) {
  return std::max<std::int64_t>(1, channels / kHeadWidth);
}

std::string remark_on_vit(const std::string& path, const ModelConfig& model) {
  const bool says_heads = is_hugging_face(path);
  std::string remark = remark_on_image_head(path);
  if (says_heads) {
    const PublishedTensors tensors(path);
    const bool has_pooler = tensors.find("pooler.dense.weight", kHuggingFace.prefix).entry != nullptr;
    return remark + (has_pooler ? (remark.empty() ? "" : "; ") + std::string(kNoPooler) : "");
  }
  if (heads_beside(path) > 0 || model.integer("heads") != usual_heads(model.integer("embedding")))
    return remark;
  return (remark.empty() ? "" : remark + "; ") +
         fmt::format(
             "no file says how many heads it has: {} of {} channels are assumed (--set model.heads=N)",
             model.integer("heads"), model.integer("embedding") / model.integer("heads"));
}

ModelConfig read_hugging_face(const std::string& path, const PublishedTensors& tensors) {
  const PublishedConfig config(PublishedConfig::beside(path));
  constexpr std::int64_t kSide = 224, kUsualPatch = 16;
  const auto size = [&](const char* key, std::int64_t otherwise) {
    return config.has(key) ? config.size(key) : otherwise;
  };
  ModelConfig model = families().config("vit");
  const std::int64_t width = config.size("hidden_size");
  model.set("layers", config.size("num_hidden_layers"));
  model.set("heads", config.size("num_attention_heads"));
  model.set("embedding", width);
  model.set("patch", size("patch_size", kUsualPatch));
  model.set("epsilon", config.positive("layer_norm_eps", 1e-12));
  model.channels = static_cast<int>(size("num_channels", kColours));
  model.height = model.width = static_cast<int>(size("image_size", kSide));
  config.expect("intermediate_size", {4 * width});
  config.expect("hidden_act", {"gelu"});
  config.expect("qkv_bias", {true});
  const SafetensorsEntry* head = tensors.find("classifier.weight").entry;
  model.classes = head == nullptr || head->shape.empty()
                      ? kStandInClasses
                      : static_cast<int>(std::clamp<std::int64_t>(head->shape[0], 0, 1 << 30));
  return model;
}

ModelConfig read_vit(const std::string& path) {
  const PublishedTensors tensors(path);
  if (is_hugging_face(path)) return read_hugging_face(path, tensors);
  refuse_others(tensors);
  const std::vector<std::int64_t> patch = shape_of(tensors, "patch_embed.proj.weight", 4);
  const auto has = [&](const char* name) { return tensors.find(name).entry != nullptr; };
  ModelConfig model = families().config("vit");
  model.set("distilled", has("dist_token"));
  model.set("mean_pooled", !has("cls_token"));
  model.set("registers", has("reg_token") ? shape_of(tensors, "reg_token", 3)[1] : 0);
  if (has("blocks.0.ls1.gamma"))
    model.set("layer_scale", arguments_beside(path).positive("init_values", kFirstFactor));
  const std::int64_t positions = shape_of(tensors, "pos_embed", 3)[1];
  if (patches_across(model, positions) == 0) model.set("patch_positions", true);
  const std::int64_t across = patches_across(model, positions);
  if (across == 0) {
    throw RunError(fmt::format("{}: pos_embed has {} positions, which are no square of patches",
                               tensors.path(), positions));
  }
  expect_published(tensors, kLayout, "blocks.0.norm1.weight", 1);
  model.set("layers", count_published(tensors, kLayout, kMostLayers, [](std::int64_t i) {
              return fmt::format("blocks.{}.norm1.weight", i);
            }));
  model.set("embedding", patch[0]);
  model.set("patch", patch[2]);
  if (PublishedConfig::is_beside(path)) {
    PublishedConfig(PublishedConfig::beside(path))
        .expect_timm("vit", {model.flag("mean_pooled") ? "avg" : "token"});
  }
  const std::int64_t heads = heads_beside(path);
  model.set("heads", heads > 0 ? heads : usual_heads(patch[0]));
  model.channels = static_cast<int>(patch[1]);
  model.height = model.width = static_cast<int>(across * patch[2]);
  model.classes = tensors.find("head.weight").entry == nullptr
                      ? kStandInClasses
                      : static_cast<int>(shape_of(tensors, "head.weight", 2)[0]);
  return model;
}

void load_vit(const std::string& path, ModelMemory& memory) {
  load_published(PublishedTensors(path), is_hugging_face(path) ? kHuggingFace : kLayout, memory);
}

void save_hugging_face(const WeightSource& weights, const ModelConfig& m, std::int64_t side,
                       std::int64_t classes, const std::string& folder, Device& device) {
  Json written = {{"architectures", {"ViTForImageClassification"}},
                  {"model_type", "vit"},
                  {"num_labels", classes},
                  {"image_size", side},
                  {"patch_size", m.integer("patch")},
                  {"num_channels", m.channels},
                  {"hidden_size", m.integer("embedding")},
                  {"num_hidden_layers", m.integer("layers")},
                  {"num_attention_heads", m.integer("heads")},
                  {"intermediate_size", 4 * m.integer("embedding")},
                  {"layer_norm_eps", m.number("epsilon")},
                  {"hidden_act", "gelu"},
                  {"qkv_bias", true},
                  {"torch_dtype", "float32"}};
  add_id2label(weights.facts(), classes, written);
  save_published(weights, kHuggingFace, written, folder, device);
}

// timm's names of what it makes of model_args; one of them is as good as another.
void save_vit(const WeightSource& weights, const ModelConfig& config, const std::string& folder,
              Device& device) {
  ModelConfig m = complete(config);
  std::int64_t positions = 0, classes = 0;
  for (const TensorInfo& t : weights.infos()) {
    if (t.name == "patch_embed.proj.weight") m.channels = static_cast<int>(t.shape[1]);
    if (t.name == "pos_embed") positions = t.shape[1];
    if (t.name == "head.bias") classes = t.shape[0];
  }
  const std::int64_t across = patches_across(m, positions);
  const PublishedFacts facts = weights.facts();
  if (!facts.files.empty() && is_hugging_face(facts.files))
    return save_hugging_face(weights, m, across * m.integer("patch"), classes, folder, device);
  if (m.number("epsilon") != kTimmsEpsilon) {
    throw UsageError(fmt::format("{}: model.epsilon = {}: timm's ViT has {}; export without --hf",
                                 weights.path(), m.number("epsilon"), kTimmsEpsilon));
  }
  Json written = {
      {"architecture", m.flag("distilled") ? "deit_base_distilled_patch16_224" : "vit_base_patch16_224"},
      {"num_classes", classes},
      {"model_args",
       {{"num_classes", classes},
        {"img_size", across * m.integer("patch")},
        {"patch_size", m.integer("patch")},
        {"embed_dim", m.integer("embedding")},
        {"depth", m.integer("layers")},
        {"num_heads", m.integer("heads")}}}};
  Json& arguments = written["model_args"];
  if (m.channels != kColours) arguments["in_chans"] = m.channels;
  if (m.flag("mean_pooled")) {
    written["global_pool"] = arguments["global_pool"] = "avg";
    arguments["class_token"] = false;
  }
  if (m.integer("registers") > 0) arguments["reg_tokens"] = m.integer("registers");
  if (m.flag("patch_positions")) arguments["no_embed_class"] = true;
  if (m.number("layer_scale") > 0) arguments["init_values"] = m.number("layer_scale");
  add_label_names(facts, classes, written);
  add_pixels(facts, classes, written);
  save_published(weights, kLayout, written, folder, device);
}

}  // namespace

const Published& vit_timm() {
  static constexpr Published kPublished{.by = "timm",
                                        .kinds = "vit",
                                        .tokenizer = {},
                                        .is_at = is_vit,
                                        .read = read_vit,
                                        .remark = remark_on_vit,
                                        .load = load_vit,
                                        .save = save_vit};
  return kPublished;
}

}  // namespace lpmm
