// The rows of the families, each defined in its own file.
#pragma once

#include "lpmm/program/family.h"

namespace lpmm {

Family resnet();
Family imagenet_resnet();
Family vit();
Family mlp();
Family gpt();
Family llama();
Family bert();
Family transformer();

// A setting that classifiers share.
ModelSetting label_smoothing();

}  // namespace lpmm
