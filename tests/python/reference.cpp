// Steps of one tensor by ModelMemory, for equal_test.py: floats of the weights and then of each gradient come
// in, what is stored of each role goes out. Each number of the gradient is one part of so many as there are
// microbatches. usage: reference RULE PRESET ROWS COLUMNS STEPS MICROBATCHES LEARNING_RATE WEIGHT_DECAY
// CLIP_NORM [SETTING=VALUE...]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cpu_packed.h"
#include "lpmm/memory/model_memory.h"

namespace {

std::vector<float> read(std::size_t count) {
  std::vector<float> values(count);
  if (std::fread(values.data(), sizeof(float), count, stdin) != count) std::abort();
  return values;
}

}  // namespace

int main(int count, char** words) {
  using namespace lpmm;
  if (count < 10) return 2;
  const auto number = [&](int word) { return std::atoi(words[word]); };
  OptimizerConfig config;
  config.rule = RuleName::find(words[1]).value();
  config.learning_rate = std::atof(words[7]);
  config.weight_decay = std::atof(words[8]);
  config.clip_norm = std::atof(words[9]);
  for (int i = 10; i < count; ++i) {
    const std::string word = words[i];
    const std::string key = word.substr(0, word.find('='));
    for (const SettingRow& s : rule_row(config.rule).settings) {
      if (s.key.text() == key) config.settings[s.key] = std::atof(word.c_str() + key.size() + 1);
    }
  }
  const std::int64_t rows = number(3), columns = number(4);
  const int microbatches = number(6);
  CpuPackedDevice device(2);
  const std::vector<std::int64_t> shape =
      rows == 0 ? std::vector<std::int64_t>{columns} : std::vector<std::int64_t>{rows, columns};
  ModelMemory memory({{"w", shape}}, make_policy(words[2], config), config, 7, microbatches, device);
  const auto elements = static_cast<std::size_t>(memory.info(0).elements());
  memory.initialize(0, 0, read(elements));
  for (int s = 0; s < number(5); ++s) {
    Step step = memory.begin_step();
    for (int m = 0; m < microbatches; ++m) step.fold(0, 0, read(elements), m, 0, m + 1 == microbatches);
    if (!std::move(step).commit().applied) return 1;
  }
  for (const Role role : kEveryRole) {
    const kernels::RoleView v = memory.view(0, role);
    if (v.codes == nullptr || !is_saved(role)) continue;
    std::fwrite(v.codes, 1, static_cast<std::size_t>(code_bytes(v.codec.format, v.elements)), stdout);
    std::fwrite(v.steps, 1, static_cast<std::size_t>(step_bytes(v.codec, v.elements)), stdout);
  }
  return 0;
}
