#include "models/published/sentences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "models/published/config.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLongest = 1 << 24;
constexpr std::string_view kMode = "pooling_mode";
constexpr const char *kWays = "modality_config", *kPrompt = "default_prompt_name";
struct PoolingRow {
  std::string_view mode, older;  // its name, also as pooling_mode_OLDER = true
  PooledFrom from;
};
constexpr PoolingRow kPoolings[] = {{"mean", "mean_tokens", PooledFrom::kMean},
                                    {"weightedmean", "weightedmean_tokens", PooledFrom::kWeighted},
                                    {"cls", "cls_token", PooledFrom::kFirst},
                                    {"lasttoken", "lasttoken", PooledFrom::kLast}};

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

PooledFrom read_pooling(const PublishedConfig& pooling) {
  std::vector<std::string> modes;
  if (pooling.has(kMode)) {
    const Json& said = pooling.json()[std::string(kMode)];
    for (const Json& one : said.is_array() ? said : Json::array({said})) {
      modes.push_back(one.is_string() ? one.get<std::string>() : one.dump());
    }
  }
  for (const auto& [key, value] : pooling.json().items()) {
    if (!key.starts_with(fmt::format("{}_", kMode)) || value != true) continue;
    const std::string mode = key.substr(kMode.size() + 1);
    const auto* row = std::ranges::find(kPoolings, mode, &PoolingRow::older);
    modes.push_back(row == std::end(kPoolings) ? mode : std::string(row->mode));
  }
  const auto* row =
      modes.size() == 1 ? std::ranges::find(kPoolings, modes[0], &PoolingRow::mode) : std::end(kPoolings);
  if (row != std::end(kPoolings)) return row->from;
  throw RunError(
      fmt::format("{}: the vector of a sentence is made by \"{}\"; there are mean, weightedmean, cls and "
                  "lasttoken here",
                  pooling.path(), fmt::join(modes, " and ")));
}

// What the library does to a text before the model, and to the vector behind it.
void read_library(const fs::path& path, SentenceVector& out) {
  if (!is_there(path)) return;
  const PublishedConfig config(path.string());
  if (config.has("truncate_dim")) out.width = static_cast<int>(config.size("truncate_dim"));
  if (!config.has(kPrompt)) return;
  const PublishedConfig prompts(fmt::format("{}: prompts", path.string()),
                                config.json().value("prompts", Json::object()));
  if (!prompts.has(config.text(kPrompt)))
    throw RunError(fmt::format("{}: {} is none of the prompts: {}", path.string(), kPrompt,
                               config.json()[kPrompt].dump()));
  out.prompt = prompts.text(config.text(kPrompt));
}

// The tokenizer's bound; 0: there is none, or one that no text reaches.
int longest_of_tokenizer(const fs::path& path) {
  constexpr std::int64_t kMost = 1 << 24;
  if (!is_there(path)) return 0;
  const Json said = PublishedConfig(path.string()).json().value("model_max_length", Json());
  return said.is_number_integer() && said > 0 && said < kMost ? said.get<int>() : 0;
}

}  // namespace

SentenceVector read_sentence_vector(const std::string& folder) {
  SentenceVector out;
  const fs::path modules = fs::path(folder) / "modules.json",
                 length = fs::path(folder) / "sentence_bert_config.json";
  out.longest = longest_of_tokenizer(fs::path(folder) / "tokenizer_config.json");
  read_library(fs::path(folder) / "config_sentence_transformers.json", out);
  if (is_there(length)) {
    const PublishedConfig config(length.string());
    if (config.has("max_seq_length")) out.longest = static_cast<int>(config.size("max_seq_length"));
    config.expect("do_lower_case", {false, nullptr});
    if (config.has(kWays) && config.json()[kWays].contains("message")) {
      throw RunError(
          fmt::format("{}: {} has \"message\": sentence-transformers puts every text into the model's chat "
                      "template, which "
                      "is not done here; take that key out where vectors of plain texts are meant",
                      length.string(), kWays));
    }
  }
  if (!is_there(modules)) return out;
  const Json list = read_json(modules.string(), kLongest);
  if (!list.is_array()) throw RunError(fmt::format("{}: is no list of modules", modules.string()));
  for (const Json& one : list) {
    const PublishedConfig module(modules.string(), one);
    const std::string type = module.text("type"), path = module.text("path"),
                      kind = type.substr(type.rfind('.') + 1);
    const bool is_outside = path.starts_with('/') || path.find("..") != std::string::npos;
    if (kind == "Transformer" && path.empty()) continue;
    if (kind == "Pooling" && !is_outside) {
      const PublishedConfig pooling((fs::path(folder) / path / "config.json").string());
      out.from = read_pooling(pooling);
      out.leaves_prompt = !out.prompt.empty() && !pooling.flag("include_prompt", true);
    } else if (kind == "Normalize") {
      out.has_unit = true;
    } else {
      throw RunError(
          fmt::format("{}: has the module {} in \"{}\"; a Transformer in \"\", Pooling and Normalize are "
                      "what there is here",
                      modules.string(), type, path));
    }
  }
  return out;
}

PooledFrom pooled_from(const std::string& folder, PooledFrom own, std::string_view type) {
  const PooledFrom said = read_sentence_vector(folder).from;
  if (said == own || said == PooledFrom::kMean || said == PooledFrom::kWeighted) return said;
  const auto* row = std::ranges::find(kPoolings, said, &PoolingRow::from);
  throw RunError(fmt::format("{}: the vector of a sentence is made by \"{}\", which is not here for a {}",
                             folder, row->mode, type));
}

}  // namespace lpmm
