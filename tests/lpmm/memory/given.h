// Settings for tests of several rules.
#pragma once

#include "lpmm/memory/optimizer_config.h"

namespace lpmm {

// Gives the setting, if the rule has it.
inline void give(OptimizerConfig& config, SettingKey key, double value) {
  if (has_setting(config, key)) config.settings[key] = value;
}

}  // namespace lpmm
