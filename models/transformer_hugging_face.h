// Marian's translators as Hugging Face publishes them.
#pragma once

#include "lpmm/program/family.h"

namespace lpmm {

const Published& transformer_hugging_face();

}  // namespace lpmm
