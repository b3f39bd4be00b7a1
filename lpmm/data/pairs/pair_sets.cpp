#include "lpmm/data/pairs/pair_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "lpmm/base/error.h"
#include "lpmm/data/images.h"
#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/data/utf8.h"
#include "lpmm/files/gz_file.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kEnds = " \r\t";

// NAME.LANGUAGE in a folder, a sentence a line.
PairSet::Side read_side(const fs::path& folder, std::string_view name, const std::string& language) {
  const std::string file = fmt::format("{}.{}", name, language);
  PairSet::Side side;
  side.path = find_plain_or_gz((folder / file).string());
  if (side.path.empty()) {
    throw RunError(fmt::format("{}: has no {}, nor {}.gz; data.source and data.target name the languages",
                               folder.string(), file, file));
  }
  const std::string text = read_plain_or_gz(side.path);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    const auto refuse = [&](const std::string& why) {
      throw RunError(fmt::format("{}: line {} {}", side.path, side.lines.size() + 1, why));
    };
    line.remove_prefix(std::min(line.find_first_not_of(kEnds), line.size()));
    line = line.substr(0, line.find_last_not_of(kEnds) + 1);
    if (line.empty()) refuse("is empty: leave it out on both sides");
    try {
      check_utf8(line, 0, line.size());
    } catch (const UsageError& e) {
      refuse(fmt::format("is no text: {}", e.what()));
    }
    side.lines.emplace_back(line);
    at = end + 1;
  }
  if (side.lines.empty()) throw RunError(fmt::format("{}: holds no sentence", side.path));
  return side;
}

PairSet::Part read_part(const fs::path& folder, std::string_view name, const std::string& source,
                        const std::string& target) {
  PairSet::Part part{read_side(folder, name, source), read_side(folder, name, target)};
  if (part.source.lines.size() != part.target.lines.size()) {
    throw RunError(fmt::format("{} has {} lines, {} has {}: line by line they are to say the same",
                               part.source.path, part.source.lines.size(), part.target.path,
                               part.target.lines.size()));
  }
  return part;
}

}  // namespace

std::int64_t PairSet::bytes() const {
  std::size_t all = 0;
  for (const Side* side : {&train.source, &train.target, &test.source, &test.target}) {
    for (const std::string& line : side->lines) all += sizeof(std::string) + line.capacity();
  }
  return static_cast<std::int64_t>(all);
}

const std::vector<NamedPairs>& named_pair_sets() {
  static const std::vector<NamedPairs> kSets = {{"multi30k", "multi30k", "train", "val", "test_2016_flickr"}};
  return kSets;
}

PairSet load_pairs(const std::string& set, const std::string& path, const std::string& source,
                   const std::string& target, std::string_view test_file, bool trains) {
  NamedPairs names{kPairsByPath, "", "train", kDevelopmentFile, kTestFile};
  for (const NamedPairs& known : named_pair_sets()) {
    if (known.name == set) names = known;
  }
  for (const std::string& language : {source, target}) {
    if (language.empty() || language.find('/') != std::string::npos) {
      throw UsageError("data.source and data.target are ends of files' names, as en and de");
    }
  }
  if (source == target) {
    throw UsageError(fmt::format("data.source and data.target are both {}", source));
  }
  if (path.empty() && names.folder.empty()) {
    throw UsageError("data.set = pairs: data.path names the folder of train.SOURCE, train.TARGET and dev...");
  }
  const std::string where = path.empty() ? std::string(names.folder) : path;
  std::error_code error;
  const fs::path folder = find_data(where);
  if (!fs::is_directory(folder, error)) {
    throw RunError(fmt::format(
        "{}: there is no such folder of pairs, neither here nor in the folder that LPMM_DATA names", where));
  }
  PairSet out;
  out.name = path.empty() ? set : path;
  if (trains) out.train = read_part(folder, names.train, source, target);
  std::string_view test = test_file == kTestFile ? names.test : names.dev;
  if (test == kDevelopmentFile) {  // own pairs: whichever of its names is there
    for (const std::string_view name : kDevelopmentNames) {
      const std::string file = (folder / name).string() + "." + source;
      if (!find_plain_or_gz(file).empty()) test = name;
    }
  }
  out.test = read_part(folder, test, source, target);
  return out;
}

}  // namespace lpmm
