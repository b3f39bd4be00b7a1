#include "models/published/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "lpmm/base/error.h"
#include "models/published/table.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kConfig = "config.json";
constexpr std::uint64_t kLongestText = 1 << 26;

}  // namespace

std::string published_folder(const std::string& path) {
  std::error_code error;
  return (fs::is_directory(path, error) ? fs::path(path) : fs::path(path).parent_path()).string();
}

void refuse_no_model(const std::string& path) {
  std::error_code none;
  if (!fs::exists(path, none)) {
    const bool may_be_hub = std::ranges::count(path, '/') < 2 && !path.starts_with('.') &&
                            !path.starts_with('/') && !path.ends_with(".safetensors") &&
                            !path.ends_with(".gguf");
    throw RunError(fmt::format(
        "{}: there is no such file or folder{}", path,
        may_be_hub ? "; where that is a model on a hub, download it first and give its folder: hf download " +
                         path + " --local-dir FOLDER"
                   : ""));
  }
  const fs::path folder = published_folder(path);
  if (const fs::path inside = folder / "0_Transformer";
      !fs::exists(folder / kConfig, none) && fs::exists(inside / kConfig, none)) {
    throw RunError(
        fmt::format("{0}: has its model in {1} inside, as sentence-transformers of old: move what lies there "
                    "up into {0}, "
                    "and make the \"path\" of that module in modules.json empty",
                    folder.string(), inside.filename().string()));
  }
  if (!fs::exists(folder / "adapter_config.json", none) || fs::exists(folder / "model.safetensors", none) ||
      fs::exists(folder / "model.safetensors.index.json", none))
    return;
  throw RunError(
      fmt::format("{}: is a LoRA adapter without its model: merge it into that first (peft: "
                  "model.merge_and_unload().save_pretrained(FOLDER)) and import FOLDER",
                  folder.string()));
}

PublishedConfig::PublishedConfig(const std::string& path)
    : PublishedConfig(path, read_json(path, kLongestText)) {
  const std::string type = text("model_type");
  for (const KeyRow& row : publishers()[0].keys) {
    const std::string key(row.key);
    if (row.absent.empty() || type.empty() || !is_of(row, type) || json_.contains(key)) continue;
    json_[key] = Json::parse(row.absent);
  }
}
PublishedConfig::PublishedConfig(std::string name, Json json)
    : path_(std::move(name)), json_(std::move(json)) {
  if (!json_.is_object()) throw RunError(fmt::format("{}: is no object of a model's settings", path_));
}

std::string PublishedConfig::beside(const std::string& path) {
  return (fs::path(published_folder(path)) / kConfig).string();
}

bool PublishedConfig::is_beside(const std::string& path) {
  std::error_code error;
  return fs::exists(beside(path), error);
}

bool PublishedConfig::has(std::string_view key) const {
  const auto at = json_.find(key);
  return at != json_.end() && !at->is_null();
}

const Json& PublishedConfig::at(std::string_view key) const {
  if (!has(key)) throw RunError(fmt::format("{}: has no {}", path_, key));
  return *json_.find(key);
}

std::int64_t PublishedConfig::size(std::string_view key) const {
  constexpr std::int64_t kMost = 1 << 24;
  const Json& value = at(key);
  if (!value.is_number_integer() || value < 1 || value > kMost) {
    throw RunError(
        fmt::format("{}: {} is {}, expected a whole number from 1 to {}", path_, key, value.dump(), kMost));
  }
  return value.get<std::int64_t>();
}

double PublishedConfig::number(std::string_view key, double otherwise) const {
  if (!has(key)) return otherwise;
  const Json& value = at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    throw RunError(fmt::format("{}: {} is {}, which is no number", path_, key, value.dump()));
  }
  return value.get<double>();
}

double PublishedConfig::positive(std::string_view key, double otherwise) const {
  const double value = number(key, otherwise);
  if (value > 0) return value;
  throw RunError(fmt::format("{}: {} is {}, expected more than 0", path_, key, value));
}

bool PublishedConfig::flag(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!at(key).is_boolean()) {
    throw RunError(fmt::format("{}: {} is {}, expected true or false", path_, key, at(key).dump()));
  }
  return at(key).get<bool>();
}

std::string PublishedConfig::text(std::string_view key) const {
  return has(key) && at(key).is_string() ? at(key).get<std::string>() : "";
}

std::string PublishedConfig::architecture() const {
  const Json said = json_.value("architectures", Json());
  return said.is_array() && !said.empty() && said[0].is_string() ? said[0].get<std::string>() : "";
}

void PublishedConfig::expect_timm(std::string_view type, std::vector<Json> pooling) const {
  constexpr const char *kArguments = "model_args", *kPooling = "global_pool";
  pooling.emplace_back("");
  expect(kPooling, pooling);
  if (!has(kArguments)) return;
  const PublishedConfig inside(fmt::format("{}: {}", path_, kArguments), json_[kArguments]);
  pooling.emplace_back(nullptr);
  inside.expect(kPooling, pooling);
  for (const auto& [name, value] : inside.json().items()) {
    if (find_key(publisher_of("timm"), type, fmt::format("{}.{}", kArguments, name)) == nullptr) {
      inside.expect(name, {nullptr});
    }
  }
}

void PublishedConfig::expect(std::string_view key, const std::vector<Json>& known) const {
  const auto at = json_.find(key);
  if (at == json_.end() || std::find(known.begin(), known.end(), *at) != known.end()) return;
  throw RunError(
      fmt::format("{}: {} is {}, which this program's models do not have", path_, key, at->dump()));
}

}  // namespace lpmm
