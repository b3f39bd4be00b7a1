#include "models/published/folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/data/tokenizers/sentence_piece/fairseq.h"
#include "lpmm/files/files.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/beside/picture_frame.h"
#include "models/published/config.h"
#include "models/published/published.h"
#include "models/published/type.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLongest = 64 << 20;
constexpr const char *kConfig = "config.json", *kCfg = "pretrained_cfg";

// Returns true if some row names files of that subfolder.
bool is_known_folder(const Publisher& publisher, const std::string& name) {
  return std::ranges::any_of(publisher.files, [&](const FileRow& row) {
    const std::size_t slash = row.name.find('/');
    if (slash == std::string_view::npos) return false;
    const std::string_view folder = row.name.substr(0, slash);
    return folder == name || (folder.starts_with('*') && name.ends_with(folder.substr(1)));
  });
}

// Lists a folder by name: its files, the files of known subfolders, and other subfolders with a slash.
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
  const auto outer = std::ranges::count(key, '.');
  return std::ranges::any_of(publisher.keys, [&](const KeyRow& row) {
    std::size_t dot = row.key.find('.');
    for (auto left = outer; left > 0 && dot != std::string_view::npos; --left)
      dot = row.key.find('.', dot + 1);
    return is_of(row, type) && dot != std::string_view::npos && matches_pattern(row.key.substr(0, dot), key);
  });
}

// The row of a key inside of what `before` names; one that looks like an inner key is none.
const KeyRow* row_of(const Publisher& publisher, std::string_view type, const std::string& before,
                     const std::string& name) {
  return name.find('.') == std::string::npos ? find_key(publisher, type, before + name) : nullptr;
}

void name_unused_keys(const Publisher& publisher, std::string_view type, const Json& json,
                      const std::string& before, std::vector<std::string>& names) {
  for (const auto& [name, value] : json.items()) {
    const std::string key = before + name;
    const KeyRow* row = row_of(publisher, type, before, name);
    if (row == nullptr || row->use == Use::kUnused) {
      names.push_back(fmt::format("{}: {}", kConfig, key));
    } else if (value.is_object() && has_inner_keys(publisher, type, key)) {
      name_unused_keys(publisher, type, value, key + ".", names);
    }
  }
}

// Returns true if a key that is known has a value that is otherwise here: the end of a long text is cut off,
// special tokens in a text are found, `lpmm sample` draws, and a translation never has its first token again.
bool is_otherwise(const Json& object, const std::string& key, const Json& value) {
  if (key == "bad_words_ids") return value != Json::array({{object.value("decoder_start_token_id", Json())}});
  return (key == "truncation_side" && value == "left") || (key == "split_special_tokens" && value == true) ||
         (key == "do_sample" && value == false);
}

// The same of a file beside config.json that its row names keys of.
void name_unused_keys(const Publisher& publisher, const fs::path& folder, const std::string& name,
                      std::vector<std::string>& names) {
  const FileRow* row = find_file(publisher, name);
  if (row == nullptr || row->keys.empty()) return;
  const Json json = read_json((folder / name).string(), kLongest);
  std::set<std::string> said;
  const auto add = [&](const Json& object) {
    for (const auto& [key, value] : object.items()) {
      if ((is_otherwise(object, key, value) || !is_among(key, row->keys)) && said.insert(key).second)
        names.push_back(fmt::format("{}: {}", name, key));
    }
  };
  if (json.is_object()) add(json);
  if (!json.is_array()) return;
  for (const Json& one : json) {
    if (one.is_object()) add(one);
  }
}

void copy_kept(const fs::path& from, const fs::path& to) {
  const std::string text = read_text(from.string(), kLongest);
  make_folder(to.parent_path().string());
  write_text(to.string(), text);
}

// The name by which a file of a tokenizer is found beside a model.
std::string standard_name(const fs::path& file) {
  std::string name = file.filename().string();
  if (name == kHuggingFaceTokens || name == kFairseqFile) return name;
  return std::string(name.ends_with(".json")  ? kTokenizerJson
                     : name.ends_with(".txt") ? kVocabTxt
                                              : kSentencePieceFile);
}

// Returns true for files with settings of a tokenizer, which hold no vocabulary.
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
    if (is_tokenizers && row->use != Use::kWritten && (is_folder || is_setting(name)))
      copy_kept(folder / name, to / name);
  }
  if (is_folder) return;
  copy_kept(from, to / standard_name(from));
  const fs::path merges = folder / kHuggingFaceMerges;
  if (from.filename() == kHuggingFaceTokens) copy_kept(merges, to / merges.filename());
}

// Merges the written object with what is kept of the original; keys have `before` in front in tables.
Json merged(const Publisher& publisher, std::string_view type, const Json& original, const Json& written,
            const std::string& before) {
  Json out = Json::object();
  for (const auto& [name, value] : original.items()) {
    const std::string key = before + name;
    const KeyRow* row = row_of(publisher, type, before, name);
    const auto said = written.find(name);
    // A size that is null follows from others, in its library as here.
    const bool is_open = value.is_null() && row != nullptr && row->use == Use::kRead;
    if (said != written.end() && (row == nullptr || row->use != Use::kKept) &&
        !(is_open && said->is_number())) {
      const bool are_objects = value.is_object() && said->is_object();
      out[name] = are_objects && has_inner_keys(publisher, type, key)
                      ? merged(publisher, type, value, *said, key + ".")
                      : *said;
      continue;
    }
    const Use use = row == nullptr ? Use::kKept : row->use;
    if (use == Use::kRead || use == Use::kKept || (use == Use::kWritten && value.is_null()))
      out[name] = value;
  }
  for (const auto& [name, value] : written.items()) {
    if (!out.contains(name)) out[name] = value;
  }
  return out;
}

// Returns the number of classes that a config.json states, and their names.
std::pair<std::size_t, Json> classes_in(const Json& config) {
  for (const char* key : {"id2label", "label_names"}) {
    if (config.contains(key) && config[key].is_structured()) return {config[key].size(), config[key]};
  }
  for (const char* key : {"num_labels", "_num_labels", "num_classes"}) {
    if (config.contains(key) && config[key].is_number_integer() && config[key] > 0)
      return {config[key].get<std::size_t>(), nullptr};
  }
  return {0, nullptr};
}

// Removes what the original says of its classes if they have changed.
void forget_other_classes(Json& original, const Json& written) {
  const char* problem = "problem_type";
  if (written.contains("num_labels") && !written.contains(problem) && original.contains(problem) &&
      original[problem] == "multi_label_classification")
    original.erase(problem);
  const auto [now, names] = classes_in(written);
  const auto [then, old_names] = classes_in(original);
  const bool are_same = now == then && (names.is_null() || old_names.is_null() || names == old_names);
  if (now == 0 || then == 0 || are_same) return;
  for (const char* key : {"id2label", "label2id", "num_labels", "_num_labels", "problem_type",
                          "finetuning_task", "label_names", "label_descriptions"}) {
    original.erase(key);
    if (original.contains(kCfg) && original[kCfg].is_object()) original[kCfg].erase(key);
  }
}

// Names the type of the weights in the kept config.json, and keeps those of tensors of another; a sentence
// where config.json named another.
std::string keep_type(const std::string& path, const std::string& to) {
  std::map<std::string, std::uint64_t> bytes;
  std::map<std::string, std::string> types;
  const PublishedTensors tensors(path);
  for (const PublishedTensors::Place& place : tensors.all()) {
    // Running statistics are fp32 in every export.
    if (place.entry->name.find(".running_") != std::string::npos) continue;
    bytes[place.entry->dtype] += place.entry->bytes;
    if (find_type(place.entry->dtype) != nullptr) types[place.entry->name] = place.entry->dtype;
  }
  const StoredType* most = &full_type();
  std::uint64_t largest = 0;
  for (const auto& [dtype, size] : bytes) {
    const StoredType* type = find_type(dtype);
    if (size > largest && type != nullptr) most = type;
    largest = std::max(largest, size);
  }
  const fs::path file = fs::path(to) / kConfig;
  std::error_code error;
  Json config = fs::exists(file, error) ? read_json(file.string(), kLongest) : Json::object();
  std::string sentence;
  bool is_named = most == &full_type();  // which is taken where there is no name
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!config.contains(key) || !config[key].is_string()) continue;
    const auto said = config[key].get<std::string>();
    is_named = true;
    if (find_type(said) == most) continue;
    sentence = printable(fmt::format("{}: {} is {}, the weights are {}: so is an export without --type",
                                     kConfig, key, said, most->theirs));
    config[key] = most->theirs;
  }
  const bool is_changed = !is_named || !sentence.empty();
  if (!is_named) config["torch_dtype"] = most->theirs;
  if (is_changed) write_text(file.string(), config.dump(2) + "\n");
  std::erase_if(types, [&](const auto& item) { return item.second == most->stored; });
  if (!types.empty()) keep_types(types, to);
  return sentence;
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

// Puts back what a written config.json says otherwise without meaning anything else: tokens that are -1,
// which is none, and numbers of the same names of classes, which go by id2label.
void put_back(const Json& original, Json& written) {
  for (const char* key : {kBeginToken, kEndToken, kPadToken}) {
    const Json said = original.value(key, Json());
    if (said.is_number_integer() && said < 0 && written.value(key, Json()).is_null()) written[key] = said;
  }
  const Json numbers = original.value("label2id", Json()), now = written.value("label2id", Json());
  const auto has = [&](const auto& item) { return numbers.contains(item.key()); };
  if (numbers.is_object() && now.is_object() && numbers.size() == now.size() &&
      std::ranges::all_of(now.items(), has))
    written["label2id"] = numbers;
}

}  // namespace

std::string unused_beside(const std::string& path, const Published& published) {
  constexpr std::size_t kMost = 24;
  const Publisher& publisher = publisher_of(published.by);
  std::error_code error;
  const bool is_whole =
      fs::is_directory(path, error) || find_file(publisher, fs::path(path).filename().string()) != nullptr;
  std::vector<std::string> names;
  // Shards beside a whole file are of another save.
  const bool is_single = fs::exists(fs::path(path) / "model.safetensors", error);
  const fs::path folder = published_folder(path);
  const std::vector<std::string> files = files_in(folder, publisher);
  for (const std::string& name : files) {
    const FileRow* row = find_file(publisher, name);
    const bool is_shard = name.starts_with("model-") || name == "model.safetensors.index.json";
    if (row == nullptr ? is_whole : row->use == Use::kUnused || (is_single && is_shard))
      names.push_back(name);
  }
  for (const std::string& name : files) name_unused_keys(publisher, folder, name, names);
  if (PublishedConfig::is_beside(path)) {
    const Json config = PublishedConfig(kConfig, read_json(PublishedConfig::beside(path), kLongest)).json();
    name_unused_keys(publisher, type_of(config, published.kinds), config, "", names);
  }
  const std::size_t more = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - more);
  return printable(fmt::format("{}", fmt::join(names, ", "))) +
         (more == 0 ? "" : fmt::format(" and {} more", more));
}

std::string dropout_beside(const std::string& path, const Published& published) {
  if (!PublishedConfig::is_beside(path)) return "";
  const Json config = PublishedConfig(PublishedConfig::beside(path)).json();
  std::vector<std::string> rates;
  for (const auto& [name, value] : config.items()) {
    const KeyRow* row = find_key(publisher_of(published.by), type_of(config, published.kinds), name);
    const bool is_rate = row != nullptr && row->use == Use::kKept && name.find("drop") != std::string::npos;
    if (is_rate && value.is_number() && value > 0)
      rates.push_back(fmt::format("{} = {}", name, value.dump()));
  }
  return printable(fmt::format("{}", fmt::join(rates, ", ")));
}

std::vector<std::string> keep_published(const std::string& path, const std::string& vocabulary,
                                        const Published& published, int channels, const std::string& to) {
  const Publisher& publisher = publisher_of(published.by);
  const fs::path from = published_folder(path);
  const bool reads_pictures = publisher.deviation[0] > 0;
  // Files are refused before anything is written.
  const auto pixels = reads_pictures ? read_pixels(from.string()) : std::nullopt;
  if (pixels && std::ssize(pixels->mean) != channels) {
    throw RunError(fmt::format(
        "{}: its files name the mean of {} channels of pictures, and the model reads {}: give one for each",
        path, pixels->mean.size(), channels));
  }
  const bool is_usual = reads_pictures && channels == std::ssize(publisher.mean) && !pixels;
  for (const std::string& name : files_in(from, publisher)) {
    const FileRow* row = find_file(publisher, name);
    if (row == nullptr || row->use == Use::kUnused) continue;
    if (row->use == Use::kWritten && name != kConfig) continue;  // the run has them in its own form
    if (row->with == Beside::kTokenizer && !vocabulary.empty()) continue;
    copy_kept(from / name, fs::path(to) / name);
  }
  if (!vocabulary.empty()) keep_vocabulary(vocabulary, publisher, to);
  std::vector<std::string> sentences = {keep_type(path, to)};
  if (sentences[0].empty()) sentences.clear();
  if (reads_pictures) std::ranges::copy(unread_of_frame(from.string()), std::back_inserter(sentences));
  if (!is_usual) return sentences;
  const std::vector<double> mean(std::begin(publisher.mean), std::end(publisher.mean)),
      deviation(std::begin(publisher.deviation), std::end(publisher.deviation));
  write_pixels(to, {mean, deviation});
  sentences.push_back(fmt::format(
      "no file says how its pictures are normalised: by mean {} and deviation {}, as is usual for {} (edit "
      "{}/{} of the run where it is otherwise)",
      fmt::join(mean, ", "), fmt::join(deviation, ", "), published.by, kModelFiles, kPixelsFile));
  return sentences;
}

std::string kept_type(const PublishedFacts& facts) {
  return type_of(kept_config(facts), "");
}

Json with_kept_keys(const PublishedFacts& facts, const Publisher& publisher, std::string_view type,
                    Json written) {
  Json original = kept_config(facts);
  forget_other_classes(original, written);
  put_back(original, written);
  if (written.erase("torch_dtype") > 0) {  // since transformers 5 without torch
    const bool is_new = original.contains("dtype") && !original.contains("torch_dtype");
    written[is_new ? "dtype" : "torch_dtype"] = exported_type(facts).theirs;
  }
  return merged(publisher, type_of(original, type), original, written, "");
}

std::vector<std::string> write_back(const PublishedFacts& facts, const Publisher& publisher, Beside with,
                                    const std::string& to) {
  std::vector<std::string> written;
  if (facts.files.empty()) return written;
  for (const std::string& name : files_in(facts.files, publisher)) {
    const FileRow* row = find_file(publisher, name);
    if (row == nullptr || row->with != with || row->use == Use::kWritten) continue;
    copy_kept(fs::path(facts.files) / name, fs::path(to) / name);
    written.push_back(name);
  }
  return written;
}

std::string not_written(const PublishedFacts& facts, const Publisher& publisher, const std::string& folder) {
  std::vector<std::string> names;
  if (facts.files.empty()) return "";
  for (const std::string& name : files_in(facts.files, publisher)) {
    const FileRow* row = find_file(publisher, name);
    std::error_code error;
    const bool is_of_vectors = row != nullptr && row->with == Beside::kSentences;
    if (is_of_vectors && !fs::exists(fs::path(folder) / name, error)) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void remove_others(const PublishedFacts& facts, const Publisher& publisher,
                   const std::vector<std::string>& written, const std::string& folder) {
  for (const std::string& name : files_in(folder, publisher)) {
    const FileRow* row = find_file(publisher, name);
    const bool is_read = row != nullptr && (row->use == Use::kRead || row->with != Beside::kModel);
    std::error_code error;
    const bool is_kept = !facts.files.empty() && fs::exists(fs::path(facts.files) / name, error);
    if (!is_read || is_kept || std::ranges::find(written, name) != written.end()) continue;
    fs::remove(fs::path(folder) / name, error);
    if (name.find('/') != std::string::npos) fs::remove((fs::path(folder) / name).parent_path(), error);
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
  double share = static_cast<double>(frame.side) / frame.scale_to;
  if (std::floor(frame.side / share) < frame.scale_to) share = std::nextafter(share, 0);  // as timm reads it
  written[kCfg]["crop_pct"] = share;
  written[kCfg]["interpolation"] = interpolation_name(frame);
  written[kCfg]["crop_mode"] = frame.squashes ? "squash" : "center";
}

}  // namespace lpmm
