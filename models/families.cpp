// The list of families.
#include "models/families.h"

#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "lpmm/program/ops/loss.h"

namespace lpmm {

const FamilyList& families() {
  static const FamilyList kFamilies{{resnet(), imagenet_resnet(), vit(), mlp(), gpt(), llama(),
                                     llama_sentences(), bert(), modernbert(), transformer()},
                                    "resnet20"};
  return kFamilies;
}

ConfigOptions with_families(ConfigOptions options) {
  options.families = &families();
  return options;
}

ModelSetting mlp_width(int low) {
  return {kMlpWidth, 0, static_cast<double>(low), 1 << 20,
          "channels inside an MLP; 0: the name's own, or 4 times embedding"};
}

ModelSetting label_smoothing() {
  return {"label_smoothing", 0.0, 0, 0.999, "share of the target spread over all classes"};
}

ModelSetting multi_label() {
  return {kMultiLabel, false, 0, 0,
          "an example has any number of the classes; set where the data has several"};
}

ModelSetting weighted_embeds() {
  return {kWeightedEmbeds, false, 0, 0,
          "an embedding is a mean in which the first position counts once, the second twice, and so on"};
}

void check_one_embedding(const ModelConfig& c, std::string_view other) {
  if (c.flag(other) && c.flag(kWeightedEmbeds)) {
    throw UsageError(
        fmt::format("model.{} and model.{} are two ways: only one may be true", other, kWeightedEmbeds));
  }
}

void sentence_loss(ProgramBuilder& b, Value told, const ModelConfig& c) {
  const double smoothing = c.number("label_smoothing");
  if (c.classes == 1) return square_loss(b, told);
  if (!c.flag(kMultiLabel)) return loss(b, told, smoothing);
  if (smoothing > 0) {
    throw UsageError(fmt::format(
        "model.label_smoothing = {} is for examples of one class each, and these have several: leave it out",
        smoothing));
  }
  sigmoid_loss(b, told);
}

}  // namespace lpmm
