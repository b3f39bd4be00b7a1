#include "lpmm/run/beside/model_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/conversations/chat_templates.h"
#include "lpmm/data/text_data.h"
#include "lpmm/files/files.h"
#include "lpmm/run/beside/picture_frame.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLongest = 1 << 26;
constexpr double kWhite = 255;
constexpr const char* kTokenizerFolder = "/tokenizer";  // of one that the configuration names

std::string files_of_run(const fs::path& run) {
  std::error_code error;
  const fs::path files = run / kModelFiles;
  return fs::is_directory(files, error) ? files.string() : "";
}

// A list of numbers, each at least `least`.
std::vector<double> numbers(const Json& object, const char* key, const std::string& file, double least) {
  const Json& list = object[key];
  std::vector<double> out;
  for (const Json& one : list) out.push_back(one.is_number() ? one.get<double>() : NAN);
  const bool is_good = list.is_array() && !out.empty() && out.size() <= kMostImageChannels &&
                       std::ranges::all_of(out, [&](double x) { return x >= least && x <= 1; });
  if (is_good) return out;
  throw RunError(fmt::format("{}: {} is {}, expected a number from {} to 1 for each channel", file, key,
                             list.dump(), least));
}

std::optional<Pixels> pixels_of(const Json& object, const char* mean, const char* deviation,
                                const std::string& file) {
  if (!object.is_object() && !object.is_null()) throw RunError(fmt::format("{}: is no JSON object", file));
  if (!object.contains(mean) || object[mean].is_null()) return {};
  if (!object.contains(deviation))
    throw RunError(fmt::format("{}: has {}, but no {}", file, mean, deviation));
  constexpr double kSmallest = 1e-6;
  Pixels pixels{numbers(object, mean, file, 0), numbers(object, deviation, file, kSmallest)};
  if (pixels.mean.size() == pixels.deviation.size()) return pixels;
  throw RunError(fmt::format("{}: {} and {} are of different lengths", file, mean, deviation));
}

// Labels of data numbered by `from`, as `to` numbers them; empty: it lacks some of the names, or has one
// twice.
std::vector<std::int32_t> places(const std::vector<std::string>& from, const std::vector<std::string>& to) {
  std::map<std::string, std::int32_t> at;
  for (const std::string& name : to) {
    if (!at.emplace(name, static_cast<std::int32_t>(at.size())).second) return {};
  }
  std::vector<std::int32_t> out;
  for (const std::string& name : from) {
    const auto found = at.find(name);
    if (found != at.end()) out.push_back(found->second);
  }
  return out.size() == from.size() ? out : std::vector<std::int32_t>();
}

// All that is below a folder: links to folders are not followed.
void copy_folder(const fs::path& from, const fs::path& to) {
  for (const auto& item : fs::recursive_directory_iterator(from)) {
    const fs::path copy = to / item.path().lexically_relative(from);
    std::error_code error;
    if (item.is_directory() && !item.is_symlink()) {
      make_folder(copy.string());
    } else if (item.is_regular_file(error)) {
      write_text(copy.string(), read_text(item.path().string(), kLongest));
    } else {
      throw RunError(fmt::format("{}: is neither a file nor a folder; remove it", item.path().string()));
    }
  }
}

// Returns the files of a tokenizer that `text` names; empty: it names none.
const std::string& named_files(const TextOptions& text) {
  return names_tokenizer_files(text) ? text.tokenizer : text.folder;
}

bool holds_tokenizer(const std::string& folder) {
  std::error_code error;
  return fs::is_directory(folder, error) &&
         (!tokenizer_in(folder).empty() || fs::exists(fs::path(folder) / kGpt2Tokens, error));
}

// Returns a file in a folder that `made` lacks, or the path itself if it is no folder; empty: there is none.
std::string other_file(const fs::path& there, const fs::path& made) {
  std::error_code error;
  if (!fs::is_directory(there, error)) return there.string();
  for (const auto& item : fs::recursive_directory_iterator(there)) {
    if (!fs::exists(made / item.path().lexically_relative(there), error)) return item.path().string();
  }
  return "";
}

}  // namespace

std::string model_files_of(const std::string& checkpoint) {
  return files_of_run(fs::absolute(checkpoint).lexically_normal().parent_path().parent_path());
}

std::string saved_tokenizer_files(const std::string& checkpoint, const RunConfig& config) {
  const TextOptions& text = config.data.text;
  std::string kept = model_files_of(checkpoint), own = kept + kTokenizerFolder;
  const auto is_of_run = [&] {
    const std::string &named = named_files(text), run = config_of_run(checkpoint);
    return named.empty() || run.empty() ||
           named_files(load_config(run, {.families = config.families}).data.text) == named;
  };
  if (!kept.empty() && is_of_run()) {
    if (holds_tokenizer(own)) return own;
    if (holds_tokenizer(kept)) return kept;
  }
  return tokenizer_files(text);
}

std::optional<Pixels> read_pixels(const std::string& folder) {
  std::error_code error;
  const fs::path own = fs::path(folder) / kPixelsFile, config = fs::path(folder) / "config.json";
  if (fs::exists(own, error)) {
    const Json said = read_json(own.string(), kLongest);
    const Json scale = said.is_object() ? said.value("rescale_factor", Json()) : Json();
    if (scale.is_number() && std::abs(scale.get<double>() * kWhite - 1) > 1e-3)
      throw RunError(fmt::format("{}: rescale_factor is {}; values of pictures here are 1/255 each",
                                 own.string(), scale.dump()));
    for (const char* key : {"do_normalize", "do_rescale"}) {
      if (said.is_object() && said.contains(key) && said[key] == false)
        throw RunError(fmt::format("{}: {} is false, which pictures here cannot be", own.string(), key));
    }
    if (auto pixels = pixels_of(said, "image_mean", "image_std", own.string())) return pixels;
  }
  if (!fs::exists(config, error)) return {};
  const Json said = read_json(config.string(), kLongest);
  const bool is_timm = said.is_object() && said.contains("pretrained_cfg");
  return pixels_of(is_timm ? said["pretrained_cfg"] : said, "mean", "std",
                   config.string() + (is_timm ? ": pretrained_cfg" : ""));
}

void write_pixels(const std::string& folder, const Pixels& pixels) {
  const fs::path file = fs::path(folder) / kPixelsFile;
  std::error_code error;
  Json said = fs::exists(file, error) ? read_json(file.string(), kLongest) : Json::object();
  said.update(Json{{"do_normalize", true},
                   {"do_rescale", true},
                   {"rescale_factor", 1 / kWhite},
                   {"image_mean", pixels.mean},
                   {"image_std", pixels.deviation}});
  write_text(file.string(), said.dump(1) + "\n");
}

void take_from_model(Setup& setup, const std::string& checkpoint, bool is_tested) {
  setup.model_files = model_files_of(checkpoint);
  const Json run = checkpoint_run(checkpoint);
  const std::vector<std::string> names = stored_class_names(run);
  std::vector<std::int32_t> by_name = places(setup.class_names, names);
  setup.numbers_classes = by_name.empty() && numbers_classes(run, setup.class_names);
  if (setup.numbers_classes) {
    by_name.resize(names.size());
    std::iota(by_name.begin(), by_name.end(), 0);
    const auto& data = setup.config.data;
    tell(printable(fmt::format("{}: its labels are numbers of the model's classes: 0 is {}, {} is {}\n",
                               data.text.path.empty() ? data.set : data.text.path, names.front(),
                               names.size() - 1, names.back())));
  }
  const bool lacks_some = by_name.size() < names.size();
  if (by_name.empty() || (lacks_some && !is_tested) || names == setup.class_names) return;
  auto other = setup.task->numbered(names, by_name);
  if (other == nullptr && lacks_some) return;
  setup.class_names = names;
  if (other == nullptr) return;
  setup.task = std::move(other);
  setup.task->fit(setup.config.model);
}

std::shared_ptr<const ImageData> fit_images(const Setup& setup, ImageData data) {
  const std::string& init = setup.config.train.init;
  const std::string files = setup.model_files ? *setup.model_files
                            : init.empty()    ? ""
                                              : model_files_of(find_checkpoint(init));
  if (const auto pixels = files.empty() ? std::nullopt : read_pixels(files)) {
    if (std::ssize(pixels->mean) != data.train.channels) {
      throw RunError(fmt::format("{}: normalises {} channels, the pictures of {} have {}", files,
                                 pixels->mean.size(), data.train.name, data.train.channels));
    }
    bool is_other = false;  // than the training pictures of this data have
    for (std::size_t c = 0; c < pixels->mean.size(); ++c) {
      const auto mean = static_cast<float>(kWhite * pixels->mean[c]),
                 deviation = static_cast<float>(kWhite * pixels->deviation[c]);
      is_other = is_other || mean != data.mean[c] || deviation != data.deviation[c];
      data.mean[c] = mean;
      data.deviation[c] = deviation;
    }
    if (is_other)
      tell(fmt::format("pictures are normalised by the model's mean {:.4g} and deviation {:.4g}\n",
                       fmt::join(pixels->mean, ", "), fmt::join(pixels->deviation, ", ")));
  }
  const std::vector<std::int32_t> by_name = places(data.class_names, setup.class_names);
  if (data.class_names != setup.class_names && !by_name.empty() &&
      by_name.size() == setup.class_names.size()) {
    for (ImageSet* set : {&data.train, &data.test}) {
      for (std::uint16_t& label : set->labels) label = static_cast<std::uint16_t>(by_name[label]);
    }
    data.class_names = setup.class_names;
  }
  return std::make_shared<const ImageData>(std::move(data));
}

void make_model_files(const fs::path& run, const std::function<void(const fs::path&)>& fill) {
  const fs::path to = run / kModelFiles, made = run / fmt::format(".lpmm-{}", kModelFiles);
  const struct Removed {
    const fs::path& folder;
    ~Removed() {
      std::error_code ignored;
      fs::remove_all(folder, ignored);
    }
  } removed{made};
  fs::remove_all(made);
  make_folder(made.string());
  fill(made);
  if (fs::exists(fs::symlink_status(to))) {
    const std::string other = other_file(to, made);
    if (!other.empty()) {
      throw UsageError(
          fmt::format("{}: lies where the run would keep the files of its model; move it, or name another "
                      "folder (--out)",
                      other));
    }
    fs::remove_all(to);
  }
  fs::rename(made, to);
  sync_folder(run.string());
}

void keep_model_files(const std::string& checkpoint, const fs::path& run, const DataSource& data,
                      const Setup& setup) {
  const std::string from = checkpoint.empty() ? "" : model_files_of(checkpoint);
  const auto* images = dynamic_cast<const ImageData*>(&data);
  const TextOptions& text = setup.config.data.text;
  const Json tokenizer = setup.task->tokenizer() == nullptr ? Json() : setup.task->tokenizer()->describe();
  const std::string files =
      from.empty() ? tokenizer_files(text) : saved_tokenizer_files(checkpoint, setup.config);
  const bool keeps_tokenizer = tokenizer.contains("checksum") && names_tokenizer_files(text) &&
                               (from.empty() || (files != from && files != from + kTokenizerFolder));
  const std::string& chat_template = setup.config.data.conversations.chat_template;
  if (from.empty() && images == nullptr && !keeps_tokenizer && chat_template.empty()) return;
  make_model_files(run, [&](const fs::path& folder) {
    if (!from.empty()) copy_folder(from, folder);
    if (!chat_template.empty()) keep_template(chat_template, folder.string());
    if (const std::string own = folder.string() + kTokenizerFolder; keeps_tokenizer && !fs::exists(own)) {
      copy_tokenizer(files, tokenizer["kind"].get<std::string>(), own);
    }
    if (images == nullptr) return;
    if (!read_pixels(folder.string())) {
      Pixels pixels;
      for (int c = 0; c < images->train.channels; ++c) {
        pixels.mean.push_back(double{images->mean[c]} / kWhite);
        pixels.deviation.push_back(double{images->deviation[c]} / kWhite);
      }
      write_pixels(folder.string(), pixels);
    }
    keep_frame(folder.string(), *images);
  });
}

}  // namespace lpmm
