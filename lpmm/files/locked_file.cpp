#include "lpmm/files/locked_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "lpmm/base/error.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

LockedFile lock_of(const std::string& folder, const std::string& work) {
  make_folder(folder);
  return {
      (fs::path(folder) / ".lock").string(), folder,
      fmt::format("{} is at work there already; wait for its end, or name another folder with --out", work)};
}

}  // namespace

LockedFile::LockedFile(const std::string& path, const std::string& name, const std::string& busy)
    : path_(path) {
  std::error_code error;
  do {  // until it is not one whose name the process that held it has just taken away
    const fs::file_type type = fs::symlink_status(path, error).type();
    if (type != fs::file_type::not_found && type != fs::file_type::regular) {
      throw RunError(fmt::format("{}: is no plain file; remove it", path));
    }
    file_.emplace(path, File::Mode::kAppend, name);
    if (!file_->lock()) throw RunError(fmt::format("{}: {}", name, busy));
  } while (!file_->has_name());
}

void LockedFile::remove() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

FolderLock::FolderLock(const std::string& folder, const std::string& work) : file_(lock_of(folder, work)) {}

}  // namespace lpmm
