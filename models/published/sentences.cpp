#include "models/published/sentences.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "models/published/config.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLongest = 1 << 24;
constexpr std::string_view kMode = "pooling_mode", kFirst = "cls", kMean = "mean";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Whether the vector is that of the first position.
bool reads_first(const PublishedConfig& pooling) {
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
    modes.push_back(mode == "cls_token"     ? std::string(kFirst)
                    : mode == "mean_tokens" ? std::string(kMean)
                                            : mode);
  }
  if (modes.size() == 1 && (modes[0] == kFirst || modes[0] == kMean)) return modes[0] == kFirst;
  std::string all;
  for (const std::string& mode : modes) all += (all.empty() ? "" : " and ") + mode;
  throw RunError(fmt::format("{}: the vector of a sentence is made by \"{}\"; there are {} and {} here",
                             pooling.path(), all, kFirst, kMean));
}

}  // namespace

SentenceVector read_sentence_vector(const std::string& folder) {
  SentenceVector out;
  const fs::path modules = fs::path(folder) / "modules.json",
                 length = fs::path(folder) / "sentence_bert_config.json";
  if (is_there(length)) {
    const PublishedConfig config(length.string());
    if (config.has("max_seq_length")) out.longest = static_cast<int>(config.size("max_seq_length"));
    config.expect("do_lower_case", {false, nullptr});
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
      out.of_first = reads_first(PublishedConfig((fs::path(folder) / path / "config.json").string()));
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

}  // namespace lpmm
