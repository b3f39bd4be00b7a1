// The list of families.
#include "models/families.h"

namespace lpmm {

const FamilyList& families() {
  static const FamilyList kFamilies{
      {resnet(), imagenet_resnet(), vit(), mlp(), gpt(), llama(), bert(), transformer()}, "resnet20"};
  return kFamilies;
}

ConfigOptions with_families(ConfigOptions options) {
  options.families = &families();
  return options;
}

ModelSetting label_smoothing() {
  return {"label_smoothing", 0.0, 0, 0.999, "share of the target spread over all classes"};
}

}  // namespace lpmm
