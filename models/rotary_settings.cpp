#include "models/rotary_settings.h"

#include <fmt/format.h>

#include <cmath>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw UsageError("model." + why);
}

void check_part(const RotaryConfig& rope) {
  if (rope.head_width % 2 != 0)
    refuse(fmt::format("head_width = {}: RoPE rotates pairs, so it must be even", rope.head_width));
  if (rope.part % 2 == 0 && rope.part <= rope.head_width) return;
  refuse(fmt::format("rope_width = {}: it must be even, and at most the {} channels of a head", rope.part,
                     rope.head_width));
}

void check_lists(const RotaryConfig& rope) {
  if (rope.short_factors.empty() && rope.long_factors.empty()) return;
  const int pairs = rope.rotated_width() / 2;
  for (const auto& [key, list] :
       {std::pair{"rope_short", &rope.short_factors}, {"rope_long", &rope.long_factors}}) {
    if (std::ssize(*list) == pairs) continue;
    refuse(
        fmt::format("{} has {} factors: both lists must have {}, half as many as a head has rotated "
                    "channels",
                    key, list->size(), pairs));
  }
  if (rope.original_context > 0 && !rope.is_yarn && rope.factor == 1) return;
  refuse(
      "rope_short and model.rope_long need model.rope_context, the length up to which the first counts, and "
      "no other scaling: neither model.rope_factor nor model.rope_yarn");
}

}  // namespace

std::vector<ModelSetting> rotary_settings() {
  return {
      {"theta", 1e4, 1, 1e12, "base of the rotary frequencies"},
      {"rope_factor", 1.0, 1, 1e6, "divides rotary frequencies, for longer contexts"},
      {"rope_context", 0, 0, 1 << 24,
       "Llama 3's scaling: context the model was trained with first; 0: divide them all"},
      {"rope_low", 1.0, 0, 1e6, "Llama 3's scaling: turns below which frequencies are divided"},
      {"rope_high", 4.0, 0, 1e6, "Llama 3's scaling: turns above which they are not"},
      {"rope_yarn", false, 0, 0, "YaRN's scaling between the two, in place of Llama 3's"},
      {"rope_magnitude", 1.0, 1e-3, 1e3, "factor on rotated queries and keys, as YaRN and LongRoPE have"},
      {"rope_short", std::vector<double>(), 1e-3, 1e6,
       "LongRoPE: divisors of the rotary frequencies in sequences of at most rope_context tokens; []: none"},
      {"rope_long", std::vector<double>(), 1e-3, 1e6,
       "the same in longer ones, at all positions; where a model is trained, data.length decides"},
      {"rope_width", 0, 0, 1 << 16,
       "channels of a head that are rotated, the first, as Phi-4-mini has; 0: all"}};
}

RotaryConfig rotary_config(const ModelConfig& c) {
  const int given = c.integer("head_width"),
            head_width = given > 0 ? given : c.integer("embedding") / c.integer("heads");
  const double attention_scale = c.number("attention_scale");
  // Attention multiplies by 1 / sqrt(head_width); another factor comes in here, a root each on queries and
  // keys.
  const double magnitude = attention_scale == 0 ? 1 : std::sqrt(attention_scale * std::sqrt(head_width));
  return {.head_width = head_width,
          .theta = c.number("theta"),
          .factor = c.number("rope_factor"),
          .original_context = c.integer("rope_context"),
          .low = c.number("rope_low"),
          .high = c.number("rope_high"),
          .is_yarn = c.flag("rope_yarn"),
          .magnitude = magnitude * c.number("rope_magnitude"),
          .part = c.integer("rope_width"),
          .short_factors = c.numbers("rope_short"),
          .long_factors = c.numbers("rope_long")};
}

void check_rotary(const RotaryConfig& rope) {
  check_part(rope);
  check_lists(rope);
  if (rope.low >= rope.high)
    refuse(fmt::format("rope_low = {} must be below model.rope_high = {}", rope.low, rope.high));
  if (!rope.is_yarn || (rope.original_context > 0 && rope.theta > 1 && rope.low > 0)) return;
  refuse(
      fmt::format("rope_yarn = true with rope_context = {}, theta = {} and rope_low = {}: YaRN needs "
                  "the context that the model was trained with first, and theta above 1, rope_low above 0",
                  rope.original_context, rope.theta, rope.low));
}

}  // namespace lpmm
