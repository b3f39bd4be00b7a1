#include "experiments/pack/picture_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "experiments/pack/formats.h"
#include "experiments/pack/picture_table.h"
#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/data/batch.h"
#include "lpmm/data/images.h"
#include "lpmm/data/table.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kTrainParts[] = {"train", "training"};

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

// Lists a folder's entries, sorted by name.
std::vector<fs::path> listed(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> all;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    all.push_back(at->path());
  }
  if (error) throw RunError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  std::sort(all.begin(), all.end());
  return all;
}

// Lists the folders in it that are not hidden.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> all = listed(folder);
  std::error_code error;
  std::erase_if(all, [&](const fs::path& path) { return is_hidden(path) || !fs::is_directory(path, error); });
  return all;
}

// Returns true if an entry is a picture and not the folder of a class.
bool is_picture(const fs::path& path) {
  std::error_code error;
  return !is_hidden(path) && fs::is_regular_file(path, error) && !format_of_file(path.string()).empty();
}

std::vector<std::string> of_class(const fs::path& folder, PictureList& list) {
  const std::string name = folder.filename().string();
  if (name.find('\n') != std::string::npos) {
    throw RunError(fmt::format("{}: a class has a line break in its name", folder.string()));
  }
  std::vector<std::string> pictures = pictures_below(folder.string(), list.no_pictures, &list.other_formats);
  if (pictures.empty() && list.other_formats.count == 0) {
    throw RunError(fmt::format("{}: holds no pictures; remove the folder, or put some in", folder.string()));
  }
  return pictures;
}

PictureClasses classes_of(const fs::path& folder, PictureList& list) {
  PictureClasses classes;
  std::error_code error;
  for (const fs::path& path : listed(folder)) {
    if (is_picture(path)) {
      throw RunError(
          fmt::format("{}: lies in no folder of a class; pictures lie in {}/CLASS/, or a .csv of file and "
                      "label is named in place of the folder",
                      path.string(), folder.string()));
    }
    if (!is_hidden(path) && fs::is_directory(path, error)) {
      classes[path.filename().string()] = of_class(path, list);
    } else {
      list.no_pictures.add(path.string());
    }
  }
  return classes;
}

void expect_same_classes(const PictureClasses& train, const PictureClasses& test, const std::string& where) {
  const auto check = [&](const PictureClasses& some, const PictureClasses& others, const char* with,
                         const char* without) {
    for (const auto& [name, pictures] : some) {
      if (others.contains(name)) continue;
      for (const auto& [other, more] : others) {
        if (lower_case(other) == lower_case(name)) {
          throw RunError(
              fmt::format("{}: a class is called {} among the {} pictures and {} among the {} ones; "
                          "give it one name",
                          where, name, with, other, without));
        }
      }
      throw RunError(
          fmt::format("{}: class {} has {} images but no {} images: give it some, or take the class out",
                      where, name, with, without));
    }
  };
  check(train, test, "training", "test");
  check(test, train, "test", "training");
}

// Moves a share of each class to the test pictures.
void draw_share(PictureParts& parts, const PictureSource& source, PictureList& list) {
  const double share = source.validation_share;
  if (!(share > 0 && share < 1)) {
    throw UsageError(
        fmt::format("{}: has no test pictures, and a share of {} cannot be kept for tests; it is above 0 and "
                    "below 1 (data.validation_share, --validation-share)",
                    source.path, share));
  }
  std::int64_t epoch = 0;  // another draw for each class
  for (auto& [name, pictures] : parts.train) {
    const std::int64_t all = std::ssize(pictures);
    if (all < 2) {
      throw RunError(fmt::format(
          "{}: class {} has {} pictures; it needs 2 or more, as there is no folder of test pictures",
          source.path, name, all));
    }
    const std::int64_t tests =
        std::clamp<std::int64_t>(std::llround(share * static_cast<double>(all)), 1, all - 1);
    std::set<std::int64_t> drawn;
    for (std::int64_t i = 0; i < tests; ++i) drawn.insert(drawn_order(source.seed, epoch, all, i));
    ++epoch;
    std::vector<std::string> kept;
    for (std::int64_t i = 0; i < all; ++i) {
      (drawn.contains(i) ? parts.test[name] : kept).push_back(pictures[static_cast<std::size_t>(i)]);
    }
    pictures = std::move(kept);
  }
  list.tested = fmt::format("{:.3g} % of each class, drawn", 100 * share);
}

// The folder that is called so in any case; empty: there is none.
fs::path folder_called(const std::vector<fs::path>& folders, const std::string& name) {
  for (const fs::path& folder : folders) {
    if (lower_case(folder.filename().string()) == lower_case(name)) return folder;
  }
  return {};
}

// The folder of the first of these names that holds folders, as parts do, and classes of those names do not.
template <class Names>
fs::path part_called(const std::vector<fs::path>& folders, const Names& names) {
  for (const char* name : names) {
    fs::path folder = folder_called(folders, name);
    if (!folder.empty() && !folders_in(folder).empty()) return folder;
  }
  return {};
}

PictureParts parts_of_folder(const PictureSource& source, PictureList& list) {
  const std::vector<fs::path> folders = folders_in(source.path);
  const fs::path train = part_called(folders, kTrainParts);
  fs::path test =
      source.test.empty() ? part_called(folders, kTestParts) : folder_called(folders, source.test);
  PictureParts parts;
  if (!source.test.empty() && (train.empty() || test.empty() || test == train)) {
    throw UsageError(
        fmt::format("{}: has no folder {} beside a folder train, to test on", source.path, source.test));
  }
  if (train.empty()) {
    if (!test.empty()) {
      throw RunError(fmt::format("{}: has a folder {} of classes, but no folder train beside it", source.path,
                                 test.filename().string()));
    }
    parts.train = classes_of(source.path, list);
    return parts;
  }
  for (const fs::path& path : listed(source.path)) {
    std::error_code error;
    if (path == train || path == test) continue;
    if (!is_hidden(path) && fs::is_directory(path, error)) {
      list.not_used.push_back(path.filename().string());
    } else {
      list.no_pictures.add(path.string());
    }
  }
  parts.train = classes_of(train, list);
  if (test.empty()) return parts;
  parts.test = classes_of(test, list);
  list.tested = fmt::format("those of {}", test.filename().string());
  return parts;
}

void take_test_path(const PictureSource& source, PictureParts& parts, PictureList& list) {
  if (!parts.test.empty()) list.not_used.push_back(list.tested);
  PictureSource tests;
  tests.path = source.test_path;
  tests.columns = source.columns;
  parts.test =
      is_picture_table(tests.path) ? read_picture_table(tests, list).train : classes_of(tests.path, list);
  list.tested = fmt::format("those of {}", tests.path);
}

void check_count(const PictureClasses& train, const std::string& where) {
  for (const auto& [name, pictures] : train) {
    if (pictures.empty()) throw RunError(fmt::format("{}: class {} holds no JPEG or PNG", where, name));
  }
  if (train.size() >= 2 && train.size() <= static_cast<std::size_t>(kMostImageClasses)) return;
  throw RunError(
      fmt::format("{}: holds {} of pictures, 2 to {} are read; each class has a folder of its own, or a "
                  "table of file and label (.csv) is named",
                  where,
                  train.size() == 1 ? fmt::format("1 class ({})", train.begin()->first)
                                    : fmt::format("{} classes", train.size()),
                  kMostImageClasses));
}

}  // namespace

std::vector<std::string> pictures_below(const std::string& given, LeftOut& no_pictures,
                                        LeftOut* other_formats) {
  std::error_code error;
  if (!fs::is_directory(given, error)) return {given};
  std::vector<fs::path> files;
  fs::recursive_directory_iterator at(given, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    InterruptGuard::check();
    std::error_code ignored;
    const bool is_folder = at->is_directory(ignored) && !at->is_symlink(ignored);
    if (is_hidden(at->path()) || (!is_folder && !at->is_regular_file(ignored))) {
      at.disable_recursion_pending();
      no_pictures.add(at->path().string());
    } else if (!is_folder) {
      files.push_back(at->path());
    }
  }
  if (error) throw RunError(fmt::format("{}: cannot be read: {}", given, error.message()));
  std::sort(files.begin(), files.end());
  std::vector<std::string> pictures;
  for (const fs::path& path : files) {
    const std::string_view format = format_of_file(path.string());
    if (format.empty()) {
      no_pictures.add(path.string());
    } else if (other_formats != nullptr && !is_decoded(format)) {
      other_formats->add(path.string());
    } else {
      pictures.push_back(path.string());
    }
  }
  return pictures;
}

PictureList list_pictures(const PictureSource& source) {
  PictureList list;
  const bool is_table = is_picture_table(source.path);
  if (!source.columns.empty() && !is_table && !is_picture_table(source.test_path)) {
    throw UsageError(fmt::format("columns {}: {} is no table", source.columns, source.path));
  }
  PictureParts parts = is_table ? read_picture_table(source, list) : parts_of_folder(source, list);
  if (!source.test_path.empty()) take_test_path(source, parts, list);
  if (list.other_formats.count > 0 && !source.skips_others) {
    const std::string& first = list.other_formats.first;
    throw RunError(fmt::format("{}: {}. There are {} such files; {}", first,
                               conversion_advice(format_of_file(first)), list.other_formats.count,
                               kSkipAdvice));
  }
  check_count(parts.train, source.path);
  if (source.asks_share && !parts.test.empty()) {
    throw UsageError(fmt::format(
        "{}: has test pictures, so that no share of the others is to be drawn for tests", source.path));
  }
  if (parts.test.empty()) draw_share(parts, source, list);
  expect_same_classes(parts.train, parts.test, source.path);
  for (const auto& [name, pictures] : parts.train) list.names.push_back(name);
  if (is_table) list.names = classes_in_order(std::move(list.names));
  for (const PictureClasses* part : {&parts.train, &parts.test}) {
    for (std::size_t label = 0; label < list.names.size(); ++label) {
      const std::vector<std::string>& pictures = part->at(list.names[label]);
      list.labels.insert(list.labels.end(), pictures.size(), static_cast<std::uint16_t>(label));
      list.paths.insert(list.paths.end(), pictures.begin(), pictures.end());
    }
    if (part == &parts.train) list.train = std::ssize(list.paths);
  }
  return list;
}

}  // namespace lpmm
