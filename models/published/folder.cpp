#include "models/published/folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "lpmm/base/terminal.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/sentence_piece/fairseq.h"
#include "lpmm/files/files.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/beside/picture_frame.h"
#include "models/published/config.h"
#include "models/published/type.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLongest = 64 << 20;
constexpr const char *kConfig = "config.json", *kCfg = "pretrained_cfg";

// Whether some row names files of a folder inside.
bool is_known_folder(const Publisher& publisher, const std::string& name) {
  return std::ranges::any_of(publisher.files, [&](const FileRow& row) {
    const std::size_t slash = row.name.find('/');
    if (slash == std::string_view::npos) return false;
    const std::string_view folder = row.name.substr(0, slash);
    return folder == name || (folder.starts_with('*') && name.ends_with(folder.substr(1)));
  });
}

// What is in a folder, by name: files, files of folders that are known, and other folders with a slash.
std::vector<std::string> files_in(const fs::path& folder, const Publisher& publisher) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code none;
    if (!fs::is_directory(at->path(), none)) {
      names.push_back(name);
    } else if (!is_known_folder(publisher, name)) {
      names.push_back(name + "/");
    } else {
      for (fs::directory_iterator in(at->path(), none), last; !none && in != last; in.increment(none)) {
        names.push_back(fmt::format("{}/{}", name, in->path().filename().string()));
      }
    }
  }
  std::ranges::sort(names);
  return names;
}

bool has_inner_keys(const Publisher& publisher, std::string_view type, const std::string& key) {
  return std::ranges::any_of(
      publisher.keys, [&](const KeyRow& row) { return is_of(row, type) && row.key.starts_with(key + "."); });
}

void name_unused_keys(const Publisher& publisher, std::string_view type, const Json& json,
                      const std::string& before, std::vector<std::string>& names) {
  for (const auto& [name, value] : json.items()) {
    const std::string key = before + name;
    const KeyRow* row = find_key(publisher, type, key);
    if (row == nullptr || row->use == Use::kUnused) {
      names.push_back(fmt::format("{}: {}", kConfig, key));
    } else if (value.is_object() && has_inner_keys(publisher, type, key)) {
      name_unused_keys(publisher, type, value, key + ".", names);
    }
  }
}

void copy_kept(const fs::path& from, const fs::path& to) {
  const std::string text = read_text(from.string(), kLongest);
  make_folder(to.parent_path().string());
  write_text(to.string(), text);
}

// The name by which a file of a tokenizer is found beside a model.
std::string standard_name(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name == kHuggingFaceTokens || name == kFairseqFile) return name;
  return std::string(name.ends_with(".json")  ? kTokenizerJson
                     : name.ends_with(".txt") ? kVocabTxt
                                              : kSentencePieceFile);
}

// What tells about a tokenizer besides its tokens.
bool is_setting(std::string_view name) {
  return name.find("chat_template") != std::string_view::npos || name == "tokenizer_config.json" ||
         name == "special_tokens_map.json" || name == "added_tokens.json";
}

void keep_vocabulary(const fs::path& from, const Publisher& publisher, const fs::path& to) {
  std::error_code error;
  const bool is_folder = fs::is_directory(from, error);
  const fs::path folder = is_folder ? from : from.parent_path();
  for (const std::string& name : files_in(folder, publisher)) {
    const FileRow* row = find_file(publisher, name);
    const bool is_tokenizers = row != nullptr && row->with == Beside::kTokenizer;
    if (is_tokenizers && (is_folder || is_setting(name))) copy_kept(folder / name, to / name);
  }
  if (is_folder) return;
  copy_kept(from, to / standard_name(from));
  const fs::path merges = folder / kHuggingFaceMerges;
  if (from.filename() == kHuggingFaceTokens) copy_kept(merges, to / merges.filename());
}

// Of both objects, whose keys begin with `before`.
Json merged(const Publisher& publisher, std::string_view type, const Json& original, const Json& written,
            const std::string& before) {
  Json out = Json::object();
  for (const auto& [name, value] : original.items()) {
    const std::string key = before + name;
    const KeyRow* row = find_key(publisher, type, key);
    const auto said = written.find(name);
    if (said != written.end() && (row == nullptr || row->use != Use::kKept)) {
      const bool are_objects = value.is_object() && said->is_object();
      out[name] = are_objects && has_inner_keys(publisher, type, key)
                      ? merged(publisher, type, value, *said, key + ".")
                      : *said;
      continue;
    }
    if (row == nullptr || row->use == Use::kUnused) continue;
    if (row->use != Use::kWritten || value.is_null()) out[name] = value;
  }
  for (const auto& [name, value] : written.items()) {
    if (!out.contains(name)) out[name] = value;
  }
  return out;
}

std::string type_of(const Json& config, std::string_view otherwise) {
  const auto type = config.find("model_type");
  return type != config.end() && type->is_string() ? type->get<std::string>() : std::string(otherwise);
}

Json kept_config(const PublishedFacts& facts) {
  const fs::path path = fs::path(facts.files) / kConfig;
  std::error_code error;
  if (facts.files.empty() || !fs::exists(path, error)) return Json::object();
  return PublishedConfig(path.string(), read_json(path.string(), kLongest)).json();
}

}  // namespace

std::string unused_beside(const std::string& path, const Published& published) {
  constexpr std::size_t kMost = 24;
  const Publisher& publisher = publisher_of(published.by);
  std::error_code error;
  const bool is_whole =
      fs::is_directory(path, error) || find_file(publisher, fs::path(path).filename().string()) != nullptr;
  std::vector<std::string> names;
  for (const std::string& name : files_in(published_folder(path), publisher)) {
    const FileRow* row = find_file(publisher, name);
    if (row == nullptr ? is_whole : row->use == Use::kUnused) names.push_back(name);
  }
  if (PublishedConfig::is_beside(path)) {
    const Json config = PublishedConfig(kConfig, read_json(PublishedConfig::beside(path), kLongest)).json();
    name_unused_keys(publisher, type_of(config, published.kinds), config, "", names);
  }
  const std::size_t more = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - more);
  return printable(fmt::format("{}", fmt::join(names, ", "))) +
         (more == 0 ? "" : fmt::format(" and {} more", more));
}

std::string keep_published(const std::string& path, const std::string& vocabulary, const Published& published,
                           int channels, const std::string& to) {
  const Publisher& publisher = publisher_of(published.by);
  const fs::path from = published_folder(path);
  const bool is_usual = channels == std::ssize(publisher.mean) && publisher.deviation[0] > 0 &&
                        !read_pixels(from.string());  // which refuses files before anything is written
  fs::remove_all(to);
  make_folder(to);
  for (const std::string& name : files_in(from, publisher)) {
    const FileRow* row = find_file(publisher, name);
    if (row == nullptr || row->use == Use::kUnused) continue;
    if (row->use == Use::kWritten && name != kConfig) continue;  // the run has them in its own form
    if (row->with == Beside::kTokenizer && !vocabulary.empty()) continue;
    copy_kept(from / name, fs::path(to) / name);
  }
  if (!vocabulary.empty()) keep_vocabulary(vocabulary, publisher, to);
  if (!is_usual) return "";
  const std::vector<double> mean(std::begin(publisher.mean), std::end(publisher.mean)),
      deviation(std::begin(publisher.deviation), std::end(publisher.deviation));
  write_pixels(to, {mean, deviation});
  return fmt::format(
      "no file says how its pictures are normalised: by mean {} and deviation {}, as is usual for {} (edit "
      "{}/{} where it is otherwise)",
      fmt::join(mean, ", "), fmt::join(deviation, ", "), published.by, to, kPixelsFile);
}

Json with_kept_keys(const PublishedFacts& facts, const Publisher& publisher, std::string_view type,
                    Json written) {
  const Json original = kept_config(facts);
  if (written.erase("torch_dtype") > 0) {  // since transformers 5 without torch
    const bool is_new = original.contains("dtype") && !original.contains("torch_dtype");
    written[is_new ? "dtype" : "torch_dtype"] = exported_type(facts).theirs;
  }
  return merged(publisher, type_of(original, type), original, written, "");
}

void write_back(const PublishedFacts& facts, const Publisher& publisher, Beside with, const std::string& to) {
  if (facts.files.empty()) return;
  for (const std::string& name : files_in(facts.files, publisher)) {
    const FileRow* row = find_file(publisher, name);
    if (row == nullptr || row->with != with || row->use == Use::kWritten) continue;
    copy_kept(fs::path(facts.files) / name, fs::path(to) / name);
  }
}

void add_pixels(const PublishedFacts& facts, std::int64_t classes, Json& written) {
  const auto pixels = facts.files.empty() ? std::nullopt : read_pixels(facts.files);
  if (!pixels) return;
  written[kCfg] = {{"mean", pixels->mean}, {"std", pixels->deviation}, {"num_classes", classes}};
  std::error_code error;
  if (!fs::exists(fs::path(facts.files) / kPixelsFile, error))
    return;  // config.json says the rest as it came
  const PictureFrame frame = read_frame(facts.files);
  if (frame.side == 0) return;
  written[kCfg]["input_size"] = {pixels->mean.size(), frame.side, frame.side};
  written[kCfg]["crop_pct"] = static_cast<double>(frame.side) / frame.scale_to;
  written[kCfg]["interpolation"] = frame.interpolation == Interpolation::kBicubic ? "bicubic" : "bilinear";
}

}  // namespace lpmm
