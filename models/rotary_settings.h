// The settings of rotary positions that models of the Llama family share.
#pragma once

#include <vector>

#include "lpmm/program/model_config.h"
#include "lpmm/program/ops/sequence/rotary.h"

namespace lpmm {

std::vector<ModelSetting> rotary_settings();
RotaryConfig rotary_config(const ModelConfig& config);
// Throws UsageError for settings, each within its range, that do not go together.
void check_rotary(const RotaryConfig& rope);

}  // namespace lpmm
