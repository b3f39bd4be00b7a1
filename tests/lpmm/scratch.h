// A folder of one test's own, removed when the test ends, and what lies in a folder.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace lpmm {

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "lpmm_test_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// The names in a folder that start with `begin`.
inline std::set<std::string> names_in(const std::string& folder, std::string_view begin = {}) {
  std::set<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    if (std::string name = item.path().filename().string(); name.starts_with(begin)) names.insert(name);
  }
  return names;
}

// Temporary files that a NewFile left there.
inline std::set<std::string> leftovers_in(const std::string& folder) {
  return names_in(folder, ".lpmm-");
}

}  // namespace lpmm
