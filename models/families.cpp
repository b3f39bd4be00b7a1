// The list of families.
#include "models/families.h"

namespace lpmm {

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = {resnet(), imagenet_resnet(), vit(),  mlp(),
                                                gpt(),    llama(),           bert(), transformer()};
  return kFamilies;
}

std::string_view default_model() {
  return "resnet20";
}

ModelSetting label_smoothing() {
  return {"label_smoothing", 0.0, 0, 0.999, "share of the target spread over all classes"};
}

}  // namespace lpmm
