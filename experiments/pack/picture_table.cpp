#include "experiments/pack/picture_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

#include "experiments/pack/formats.h"
#include "lpmm/base/error.h"
#include "lpmm/data/table.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kFileNames[] = {"file",       "filename", "file_name", "image",
                                           "image_path", "path",     "filepath",  "file_path"};
constexpr std::string_view kLabelNames[] = {"label", "class", "class_name", "category"};
constexpr std::string_view kSplitNames[] = {"split", "set", "subset"};

std::size_t needed_column(const Table& table, std::span<const std::string_view> names) {
  const int place = table.place_of_any(names);
  if (place >= 0) return static_cast<std::size_t>(place);
  throw RunError(fmt::format(
      "{}: has the columns {}, but no column {}; say which to read: data.columns=FILE,LABEL (of `lpmm data "
      "pack-images`: --columns FILE,LABEL)",
      table.path, fmt::join(table.names, ", "), fmt::join(names, " or ")));
}

struct PictureColumns {
  std::size_t file, label;
  int split;  // -1: there is none
};
PictureColumns columns_of(const Table& table, const std::string& asked) {
  if (asked.empty()) {
    return {needed_column(table, kFileNames), needed_column(table, kLabelNames),
            table.place_of_any(kSplitNames)};
  }
  std::vector<std::size_t> places;
  for (const std::string& name : split_columns(asked)) {
    places.push_back(needed_column(table, std::array<std::string_view, 1>{name}));
  }
  if (places.size() != 2 && places.size() != 3) {
    throw UsageError(
        fmt::format("columns {}: a table of pictures has FILE,LABEL or FILE,LABEL,SPLIT", asked));
  }
  return {places[0], places[1], places.size() == 3 ? static_cast<int>(places[2]) : -1};
}

// The parts to train and to test on.
PictureParts chosen_parts(const PictureSource& source, std::map<std::string, PictureClasses> parts,
                          PictureList& list) {
  PictureParts chosen;
  const auto take = [&](std::string_view name, PictureClasses& to) {
    const auto part = parts.extract(std::string(name));
    if (part) to = std::move(part.mapped());
    return !part.empty();
  };
  if (!take("train", chosen.train) && !take("training", chosen.train)) {
    throw RunError(fmt::format(
        "{}: has no row to train on; the column that says it ({}) has train, and one of {} to test on",
        source.path, fmt::join(kSplitNames, " or "), fmt::join(kTestParts, ", ")));
  }
  if (!source.test.empty()) list.tested = fmt::format("those of {}", source.test);
  if (!source.test.empty() && !take(lower_case(source.test), chosen.test)) {
    throw UsageError(fmt::format("{}: no row is of the part {}, to test on", source.path, source.test));
  }
  for (const char* name : kTestParts) {
    if (!chosen.test.empty()) break;
    if (take(name, chosen.test)) list.tested = fmt::format("those of {}", name);
  }
  for (const auto& [name, classes] : parts) list.not_used.push_back(name);
  return chosen;
}

}  // namespace

bool is_picture_table(const std::string& path) {
  return is_table(lower_case(path));
}

PictureParts read_picture_table(const PictureSource& source, PictureList& list) try {
  Table table = read_table(source.path, {.skips_broken = source.skips_others});
  const PictureColumns places = columns_of(table, source.columns);
  std::map<std::string, PictureClasses> parts;                         // by their names
  std::map<std::string, std::pair<std::int64_t, std::string>> before;  // line and label of each file
  table.keep_readable([&](const Table::Row& row) {
    const std::string &name = row.cells[places.file], &of = row.cells[places.label];
    if (name.empty() || of.empty()) table.refuse(row, "has no file or no label");
    if (of.find('\n') != std::string::npos) table.refuse(row, "has a line break in its label");
    const std::string path = (fs::path(source.path).parent_path() / name).lexically_normal().string();
    std::error_code error;
    if (!fs::is_regular_file(path, error)) {
      table.refuse(row, fmt::format("names {}, and there is no file {}", name, path));
    }
    const auto [known, is_new] = before.emplace(path, std::pair(row.line, of));
    if (!is_new) {
      table.refuse(row, fmt::format("names {} again, as {}; line {} has it as {}", name, of,
                                    known->second.first, known->second.second));
    }
    if (const auto format = format_of_file(path); !format.empty() && !is_decoded(format)) {
      list.other_formats.add(path);
    } else {
      const std::string part = places.split < 0 ? "train" : row.cells[static_cast<std::size_t>(places.split)];
      parts[lower_case(part)][of].push_back(path);
    }
  });
  table.broken.tell(source.path, table.rows.size());
  return chosen_parts(source, std::move(parts), list);
} catch (const BrokenRow& row) {
  if (source.skips_others) throw;
  throw RunError(fmt::format("{}; {}", row.what(), kSkipAdvice));
}

}  // namespace lpmm
