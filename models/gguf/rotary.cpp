#include "models/gguf/rotary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <span>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"

namespace lpmm {
namespace {

constexpr const char *kLlama3Factors = "rope_freqs.weight", *kShortFactors = "rope_factors_short.weight",
                     *kLongFactors = "rope_factors_long.weight";
constexpr const char *kRopeType = "rope.scaling.type", *kRopeFactor = "rope.scaling.factor",
                     *kOldFactor = "rope.scale_linear",
                     *kRopeContext = "rope.scaling.original_context_length",
                     *kRopeMagnitude = "rope.scaling.attn_factor", *kRopeFast = "rope.scaling.yarn_beta_fast",
                     *kRopeSlow = "rope.scaling.yarn_beta_slow";
constexpr const char* kOriginalContext = "original_max_position_embeddings";
constexpr double kUsualContext = 8192;  // of Llama 3 before its frequencies are scaled

// Returns the number of positions after which a frequency has turned once.
double rotary_length(const Json& config, double i) {
  return 2 * std::numbers::pi * std::pow(config.value("rope_theta", 1e4), 2 * i / gguf_head_width(config));
}

// Returns the context length of a Llama 3 before its frequencies were scaled. The first factor that lies
// between the two bounds gives it.
double positions_before(const Json& config, std::span<const float> factors, double low, double high) {
  const double most = *std::ranges::max_element(factors);
  constexpr double kNone = 1e-4;  // what is left out of a factor by then is below what it is compared to
  double least = 1, most_of = 1e9;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double length = rotary_length(config, static_cast<double>(i));
    const double share = (1 / double{factors[i]} - 1 / most) / (1 - 1 / most);
    if (share > kNone && share < 1 - kNone) return std::round(length * (low + share * (high - low)));
    if (share >= 1 - kNone) least = std::max(least, std::ceil(length * high));
    if (share <= kNone) most_of = std::min(most_of, std::floor(length * low));
  }
  // None lies between: all numbers within these bounds give the same factors.
  return std::clamp(kUsualContext, least, std::max(least, most_of));
}

std::vector<float> read_factors(const GgufFile& file, const GgufTensor& tensor) {
  std::vector<float> factors(static_cast<std::size_t>(std::clamp<std::int64_t>(tensor.columns(), 0, 4096)));
  if (tensor.type->stored != "F32" || tensor.shape.size() != 1 || std::ssize(factors) != tensor.columns())
    throw RunError(fmt::format("{}: {} is no list of fp32", file.path(), tensor.name));
  file.read(tensor, 0, std::as_writable_bytes(std::span(factors)));
  for (const float factor : factors) {
    if (!std::isfinite(factor) || factor <= 0)
      throw RunError(
          fmt::format("{}: {} has {}, expected numbers above 0", file.path(), tensor.name, factor));
  }
  return factors;
}

std::vector<float> llama3_factors(const Json& config) {
  const Json scaling = config.value("rope_scaling", Json());
  if (!scaling.is_object() || scaling.value("rope_type", scaling.value("type", "")) != "llama3") return {};
  const double factor = scaling.value("factor", 1.0), low = scaling.value("low_freq_factor", 1.0),
               high = scaling.value("high_freq_factor", 4.0),
               context = scaling.value(kOriginalContext, kUsualContext);
  std::vector<float> factors;
  for (double i = 0; 2 * i < gguf_head_width(config); ++i) {
    const double share = std::clamp((context / rotary_length(config, i) - low) / (high - low), 0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - share) / factor + share)));
  }
  return factors;
}

// The scaling that a Llama 3 has by its factors; the two bounds are those of all that are published.
Json llama3_scaling(const GgufFile& file, const GgufTensor& tensor, Json config) {
  const std::vector<float> factors = read_factors(file, tensor);
  constexpr double kLow = 1, kHigh = 4;
  Json scaling = {{"rope_type", "llama3"},
                  {"factor", *std::ranges::max_element(factors)},
                  {"low_freq_factor", kLow},
                  {"high_freq_factor", kHigh},
                  {kOriginalContext, static_cast<std::int64_t>(std::clamp(
                                         positions_before(config, factors, kLow, kHigh), 1.0, 1e9))}};
  config["rope_scaling"] = scaling;
  const std::vector<float> these = llama3_factors(config);
  bool is_known = these.size() == factors.size();
  for (std::size_t i = 0; is_known && i < these.size(); ++i)
    is_known = std::abs(these[i] - factors[i]) <= 1e-3F * these[i];
  if (is_known) return scaling;
  throw RunError(
      fmt::format("{}: {} holds other factors than those of Llama 3's scaling, which are not here: "
                  "import the model's safetensors",
                  file.path(), kLlama3Factors));
}

// ---- LongRoPE ------------------------------------------------------------------------------------------------
bool has_lists(const Json& scaling) {
  return scaling.is_object() && scaling.contains("short_factor");
}

// What is rotated is multiplied by this, unless attention_factor says another; 0: sizes are missing.
double longrope_magnitude(const Json& config) {
  const auto size = [&](const char* key) {
    const Json value = config.value(key, Json());
    return value.is_number() ? value.get<double>() : 0.0;
  };
  const double original = size(kOriginalContext), factor = size("max_position_embeddings") / original;
  if (original < 2) return 0;
  return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
}

Json longrope(const GgufFile& file, const GgufKeys& keys, const Json& config) {
  Json scaling = {{"type", "longrope"}};
  for (const auto& [name, key] : {std::pair{kShortFactors, "short_factor"}, {kLongFactors, "long_factor"}}) {
    const GgufTensor* tensor = file.find(name);
    if (tensor == nullptr)
      throw RunError(fmt::format("{}: has one list of LongRoPE's factors, but no {}", file.path(), name));
    for (const float factor : read_factors(file, *tensor)) {
      // The number that was meant: the fp32 that is nearest to 1.1 is 1.1 and a little more.
      scaling[key].push_back(std::strtod(fmt::format("{}", factor).c_str(), nullptr));
    }
  }
  const double given = keys.number(kRopeMagnitude, 1), usual = longrope_magnitude(config);
  if (std::abs(given - usual) > 1e-6 * usual) scaling["attention_factor"] = given;
  return scaling;
}

}  // namespace

std::string GgufKeys::name(std::string_view key) const {
  return fmt::format("{}.{}", model_.name, key);
}
const Json* GgufKeys::find(std::string_view key) const {
  const auto at = file_.keys().find(name(key));
  return at == file_.keys().end() ? nullptr : &*at;
}
double GgufKeys::number(std::string_view key, double otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_number()) return value->get<double>();
  throw RunError(fmt::format("{}: {} is {}, expected a number", file_.path(), name(key), value->dump()));
}
std::string GgufKeys::text(std::string_view key, const char* otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_string()) return value->get<std::string>();
  throw RunError(fmt::format("{}: {} is {}, expected a text", file_.path(), name(key), value->dump()));
}

double gguf_head_width(const Json& config) {
  if (config.contains("head_dim") && config["head_dim"].is_number()) return config["head_dim"].get<double>();
  return config.value("hidden_size", 0.0) / std::max(1.0, config.value("num_attention_heads", 1.0));
}

Json gguf_scaling(const GgufFile& file, const GgufModel& model, const Json& config) {
  const GgufKeys keys(file, model);
  if (const GgufTensor* factors = file.find(kLlama3Factors); factors != nullptr)
    return llama3_scaling(file, *factors, config);
  if (model.name == kGgufPhi3 && (file.find(kShortFactors) != nullptr || file.find(kLongFactors) != nullptr))
    return longrope(file, keys, config);
  // Files of old have a factor alone, which llama.cpp takes as linear; 0 is none.
  const double factor = keys.number(kRopeFactor, keys.number(kOldFactor, 1));
  const std::string type = keys.text(kRopeType, factor == 0 || factor == 1 ? "none" : "linear");
  if (type == "none") return nullptr;
  Json scaling = {{"rope_type", type}, {"factor", factor}};
  if (type != "yarn") return scaling;  // whoever reads it refuses what it does not know
  scaling[kOriginalContext] = keys.number(kRopeContext, config.value("max_position_embeddings", 0.0));
  scaling[kOriginalContext] = scaling[kOriginalContext].get<std::int64_t>();
  scaling["beta_fast"] = keys.number(kRopeFast, 32);
  scaling["beta_slow"] = keys.number(kRopeSlow, 1);
  const double usual = 0.1 * std::log(factor) + 1;
  scaling["attention_factor"] = usual * keys.number(kRopeMagnitude, 1);
  return scaling;
}

void add_gguf_scaling(const Json& config, const GgufModel& model, Json& keys) {
  const Json scaling = config.value("rope_scaling", Json());
  if (!scaling.is_object() || scaling.empty()) return;
  const auto type = scaling.value("rope_type", scaling.value("type", std::string("default")));
  // Llama 3's is a tensor, and dynamic scaling begins behind the positions that the model has.
  if (type == "default" || type == "dynamic" || type == "llama3") return;
  const auto put = [&](const char* key, const Json& value) {
    keys[fmt::format("{}.{}", model.name, key)] = value;
  };
  if (has_lists(scaling))
    return put(kRopeMagnitude, scaling.value("attention_factor", longrope_magnitude(config)));
  const auto factor = scaling.value("factor", 1.0);
  put(kRopeType, type);
  put(kRopeFactor, factor);
  if (type != "yarn") return;
  put(kRopeContext, scaling.value(kOriginalContext, Json(0)));
  put(kRopeFast, scaling.value("beta_fast", 32.0));
  put(kRopeSlow, scaling.value("beta_slow", 1.0));
  const double usual = 0.1 * std::log(factor) + 1;
  put(kRopeMagnitude, scaling.value("attention_factor", usual) / usual);
}

bool is_scaling_key(std::string_view key) {
  constexpr std::string_view kKeys[] = {kRopeType,      kRopeFactor, kOldFactor, kRopeContext,
                                        kRopeMagnitude, kRopeFast,   kRopeSlow};
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

std::vector<RotaryTensor> rotary_tensors(const Json& config) {
  const Json scaling = config.value("rope_scaling", Json());
  if (has_lists(scaling)) {
    return {{kShortFactors, scaling["short_factor"].get<std::vector<float>>()},
            {kLongFactors, scaling["long_factor"].get<std::vector<float>>()}};
  }
  std::vector<float> factors = llama3_factors(config);
  if (factors.empty()) return {};
  return {{kLlama3Factors, std::move(factors)}};
}

bool is_rotary_tensor(const GgufModel& model, std::string_view name) {
  return name == kLlama3Factors ||
         (model.name == kGgufPhi3 && (name == kShortFactors || name == kLongFactors));
}

}  // namespace lpmm
