// Parallel text: files of two languages whose lines say the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lpmm {

struct PairSet {
  std::string name = {};
  struct Side {
    std::string path;  // for messages
    std::vector<std::string> lines;
  };
  struct Part {
    Side source, target;  // as many lines each
  };
  Part train, test;
  std::int64_t bytes() const;
};

// A public set. Its files lie in `folder` below data_folder(), each as it is or as .gz: NAME.LANGUAGE.
struct NamedPairs {
  std::string_view name, folder;
  std::string_view train, dev, test;
};
const std::vector<NamedPairs>& named_pair_sets();
// The set that data.path names: train.LANGUAGE, dev.LANGUAGE and, where it is tested on that, test.LANGUAGE.
inline constexpr std::string_view kPairsByPath = "pairs";

// `path` leads to the folder of the set, from here or from data_folder(); empty: the named set's own.
// `test_file`: dev or test. `trains`: else what is trained on is not read. Throws RunError naming file and
// line: files that are missing, of unequal counts of lines, empty lines, what is not UTF-8.
PairSet load_pairs(const std::string& set, const std::string& path, const std::string& source,
                   const std::string& target, std::string_view test_file, bool trains = true);

}  // namespace lpmm
