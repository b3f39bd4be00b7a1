#include "experiments/commands/shipped_configs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "experiments/pack/formats.h"
#include "lpmm/base/error.h"
#include "lpmm/base/process.h"
#include "lpmm/base/text.h"
#include "lpmm/data/sentences/own_words.h"
#include "lpmm/data/table.h"
#include "lpmm/files/toml_table.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kConfigs = "experiments/configs";

// prefix/bin/lpmm has prefix/share/lpmm/experiments/configs, source/build/lpmm has
// source/experiments/configs. Empty: neither is there.
fs::path folder_of_configs() {
  const fs::path root = folder_of_pages();
  return root.empty() ? root : root / kConfigs;
}

// Returns true for tables, and for texts that are no TOML.
bool holds_data(const std::string& path) {
  const std::string lower = lower_case(path);
  if (is_table(lower)) return true;
  if (!is_word_file(lower)) return false;
  try {
    TomlTable::load(path);
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

[[noreturn]] void refuse_data(const std::string& path, const char* is) {
  throw UsageError(fmt::format(
      "{0}: {1}, no configuration. On data a run or an imported model is trained by lpmm train --init RUN "
      "--set data.path={2} --out DIR, and a new model by lpmm train CONFIG --set data.path={2} --out DIR",
      path, is, path_argument(path)));
}

}  // namespace

fs::path folder_of_pages() {
  std::error_code none;
  const fs::path above = fs::read_symlink("/proc/self/exe", none).parent_path().parent_path();
  for (const fs::path& root : {above / "share/lpmm", above}) {
    if (fs::is_directory(root / kConfigs, none)) return root;
  }
  return {};
}

std::vector<std::string> shipped_config_names() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& item : fs::directory_iterator(folder_of_configs(), none)) {
    if (item.path().extension() == ".toml") names.push_back(item.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string find_config(const std::string& path_or_name) {
  std::error_code none;
  if (fs::is_regular_file(path_or_name, none)) {
    if (holds_data(path_or_name)) refuse_data(path_or_name, "holds data");
    return path_or_name;
  }
  const std::vector<std::string> names = shipped_config_names();
  if (std::ranges::find(names, path_or_name) != names.end())
    return (folder_of_configs() / (path_or_name + ".toml")).string();
  if (fs::is_directory(path_or_name, none)) refuse_data(path_or_name, "is a folder");
  if (fs::exists(path_or_name, none) || path_or_name.find('/') != std::string::npos) return path_or_name;
  if (names.empty()) return path_or_name;  // whoever opens it says that it is not there
  const std::vector<std::string_view> words(names.begin(), names.end());
  throw UsageError(fmt::format("{}: is neither a file nor a configuration that comes with lpmm ({}){}",
                               path_or_name, join(words), did_you_mean(nearest_name(path_or_name, words))));
}

}  // namespace lpmm
