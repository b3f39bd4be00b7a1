#include "models/published/text/llama_rotary.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "models/published/table.h"

namespace lpmm {
namespace {

constexpr std::string_view kDynamic = "dynamic", kOriginal = "original_max_position_embeddings",
                           kPart = "partial_rotary_factor";
constexpr const char *kShort = "short_factor", *kLong = "long_factor", *kAttention = "attention_factor";

bool is_phi3(const ModelConfig& model) {
  return model.flag("joined");
}
bool has_lists(const ModelConfig& model) {
  return !model.numbers("rope_short").empty();
}
int head_width(const ModelConfig& model) {
  const int given = model.integer("head_width");
  return given > 0 ? given : model.integer("embedding") / model.integer("heads");
}
int rotated_width(const ModelConfig& model) {
  return model.integer("rope_width") > 0 ? model.integer("rope_width") : head_width(model);
}

// Sets the channels of a head that are rotated, which of the models here only a Phi-3 says.
void read_part(const PublishedConfig& config, ModelConfig& model) {
  if (!is_phi3(model)) return config.expect(kPart, {1.0, nullptr});
  const double share = config.positive(kPart, 1);
  if (share > 1) throw RunError(fmt::format("{}: {} is {}, expected at most 1", config.path(), kPart, share));
  model.set("rope_width", static_cast<std::int64_t>(share == 1 ? 0 : head_width(model) * share));
  if (share * head_width(model) >= 1) return;
  throw RunError(fmt::format("{}: {} is {}, which leaves no channel of {}", config.path(), kPart, share,
                             head_width(model)));
}

// LongRoPE's factor on what is rotated, where none is given.
double longrope_magnitude(double factor, double original) {
  return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
}
double usual_magnitude(const ModelConfig& model) {
  const double original = model.integer("rope_context");
  return longrope_magnitude(model.integer(kContext) / original, original);
}

std::vector<double> read_list(const PublishedConfig& rope, const char* key, const ModelConfig& model) {
  const int pairs = rotated_width(model) / 2;
  const Json list = rope.has(key) ? rope.json()[key] : Json();
  if (!list.is_array() || std::ssize(list) != pairs) {
    throw RunError(fmt::format(
        "{}: {} is {}, expected {} numbers, half as many as a head has rotated channels", rope.path(), key,
        list.is_array() ? fmt::format("a list of {}", list.size()) : list.dump().substr(0, 80), pairs));
  }
  std::vector<double> out;
  for (const Json& factor : list) {
    if (!factor.is_number() || !std::isfinite(factor.get<double>()) || factor.get<double>() <= 0) {
      throw RunError(fmt::format("{}: {} has {}, expected numbers above 0", rope.path(), key,
                                 factor.dump().substr(0, 80)));
    }
    out.push_back(factor.get<double>());
  }
  return out;
}

// LongRoPE, which a Phi-3 also calls su and yarn.
void read_lists(const PublishedConfig& config, const PublishedConfig& rope, const std::string& type,
                ModelConfig& model) {
  constexpr std::int64_t kUsual = 4096;
  if (type != "longrope" && type != "su" && type != "yarn") {
    throw RunError(fmt::format("{}: type \"{}\" is not known of a Phi-3; there are default and longrope",
                               rope.path(), type));
  }
  model.set("rope_context", config.has(kOriginal) ? config.size(kOriginal) : kUsual);
  model.set("rope_short", read_list(rope, kShort, model));
  model.set("rope_long", read_list(rope, kLong, model));
  const double original = model.integer("rope_context"),
               factor = rope.positive("factor", model.integer(kContext) / original);
  model.set("rope_magnitude", rope.positive(kAttention, longrope_magnitude(factor, original)));
}

Json longrope_of(const ModelConfig& model) {
  // transformers before version 5 takes just these three.
  Json scaling = {
      {"type", "longrope"}, {kShort, model.numbers("rope_short")}, {kLong, model.numbers("rope_long")}};
  const double magnitude = model.number("rope_magnitude");
  if (std::abs(magnitude - usual_magnitude(model)) > 1e-9 * magnitude) scaling[kAttention] = magnitude;
  return scaling;
}

// YaRN's factor on what is rotated: as given, or of the paper.
double yarn_magnitude(const PublishedConfig& rope, double factor) {
  const auto of = [&](double share) { return factor <= 1 ? 1 : 0.1 * share * std::log(factor) + 1; };
  const double one = rope.number("mscale", 0), all = rope.number("mscale_all_dim", 0);
  const double usual = one != 0 && all != 0 ? of(one) / of(all) : of(1);
  return rope.positive("attention_factor", usual);
}

// Returns the rotary settings that the model was imported with: an object or null.
Json kept_rotary(const PublishedFacts& kept) {
  if (kept.files.empty() || !PublishedConfig::is_beside(kept.files)) return nullptr;
  const PublishedConfig config(PublishedConfig::beside(kept.files));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (config.has(key) && config.json()[key].is_object() && !config.json()[key].empty())
      return config.json()[key];
  }
  return nullptr;
}

Json scaling_of(const ModelConfig& model) {
  if (has_lists(model)) return longrope_of(model);
  const double factor = model.number("rope_factor");
  const bool is_yarn = model.flag("rope_yarn");
  if (factor == 1 && !is_yarn) return nullptr;
  Json scaling = {{"rope_type", "linear"}, {"factor", factor}};
  if (model.integer("rope_context") == 0) return scaling;
  scaling["rope_type"] = is_yarn ? "yarn" : "llama3";
  scaling[is_yarn ? "beta_slow" : "low_freq_factor"] = model.number("rope_low");
  scaling[is_yarn ? "beta_fast" : "high_freq_factor"] = model.number("rope_high");
  scaling[kOriginal] = model.integer("rope_context");
  if (is_yarn) scaling["attention_factor"] = model.number("rope_magnitude");
  return scaling;
}

}  // namespace

// Scaling of the frequencies, as transformers wrote it before and since version 5, which takes the older one
// where there are both.
void read_rotary(const PublishedConfig& config, ModelConfig& model) {
  const bool is_new = !config.has("rope_scaling") || config.json()["rope_scaling"].empty();
  const char* key = is_new ? "rope_parameters" : "rope_scaling";
  model.set("theta", config.positive("rope_theta", 1e4));
  read_part(config, model);
  if (!config.has(key)) return;
  const PublishedConfig rope(fmt::format("{}: {}", config.path(), key), config.json()[key]);
  model.set("theta", rope.positive("rope_theta", model.number("theta")));
  if (rope.has(kPart)) read_part(rope, model);
  const char* said = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text(said);
  // Dynamic scaling begins behind the positions that the model has, which are all that there are here.
  if (!rope.has(said) || type == "default" || type == kDynamic) return;
  if (is_phi3(model)) return read_lists(config, rope, type, model);
  if (type != "linear" && type != "llama3" && type != "yarn") {
    throw RunError(
        fmt::format("{}: type \"{}\" is not known here; there are default, dynamic, linear, llama3 and yarn",
                    rope.path(), type));
  }
  if (!rope.has("factor")) throw RunError(fmt::format("{}: has no factor", rope.path()));
  model.set("rope_factor", rope.positive("factor", 1));
  if (type == "linear") return;
  const bool is_yarn = type == "yarn";
  // transformers 5 lets the outer key count before the inner one, but not where layers have bases of their
  // own.
  model.set("rope_context", config.has(kOriginal) && !model.flag("norms_around") ? config.size(kOriginal)
                            : rope.has(kOriginal)                                ? rope.size(kOriginal)
                                                  : config.size("max_position_embeddings"));
  model.set("rope_low", rope.positive(is_yarn ? "beta_slow" : "low_freq_factor", 1));
  model.set("rope_high", rope.positive(is_yarn ? "beta_fast" : "high_freq_factor", is_yarn ? 32 : 4));
  if (!is_yarn) return;
  rope.expect("truncate", {true});
  model.set("rope_yarn", true);
  model.set("rope_magnitude", yarn_magnitude(rope, model.number("rope_factor")));
}

Json rotary_of(const ModelConfig& model, const PublishedFacts& facts, std::string_view type) {
  Json scaling = scaling_of(model);
  const Json kept = kept_rotary(facts);
  if (!kept.is_object()) return scaling;
  const bool is_dynamic =
      kept.value("rope_type", Json()) == kDynamic || kept.value("type", Json()) == kDynamic;
  if (scaling.is_null() && is_dynamic)
    scaling = {{"rope_type", kDynamic}, {"factor", kept.value("factor", Json(1.0))}};
  for (const auto& [name, value] : kept.items()) {
    if (find_key(publisher_of("transformers"), type, fmt::format("rope_parameters.{}", name)) != nullptr)
      continue;
    if (scaling.is_null()) scaling = {{"rope_type", "default"}};
    scaling[name] = value;
  }
  return scaling;
}

void add_phi3_rotary(const ModelConfig& model, Json& written) {
  const int width = head_width(model), part = rotated_width(model);
  double share = static_cast<double>(part) / width;
  if (static_cast<int>(width * share) < part) share = std::nextafter(share, 1.0);
  written[kPart] = share;
  if (has_lists(model)) written[kOriginal] = model.integer("rope_context");
}

void check_saved_rotary(const std::string& path, const ModelConfig& model) {
  const double magnitude = model.number("rope_magnitude");
  if (magnitude == 1 || model.flag("rope_yarn") || has_lists(model)) return;
  throw UsageError(fmt::format(
      "{}: model.rope_magnitude = {} without model.rope_yarn or model.rope_short: there is no key "
      "for it in transformers; export without --hf",
      path, magnitude));
}

}  // namespace lpmm
