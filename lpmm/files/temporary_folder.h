// A folder for a while.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lpmm {

// A new folder below TMPDIR, else /tmp, removed again with all that is in it. `purpose` is in its name.
// Throws RunError where there is no place for it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string_view purpose);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string string() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace lpmm
