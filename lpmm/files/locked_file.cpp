#include "lpmm/files/locked_file.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

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
  open(name, [&] { throw RunError(fmt::format("{}: {}", name, busy)); });
}

LockedFile::LockedFile(const std::string& path, const std::string& name, const std::function<void()>& is_held)
    : path_(path) {
  bool was_told = false;
  open(name, [&] {
    if (!std::exchange(was_told, true)) is_held();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
}

void LockedFile::open(const std::string& name, const std::function<void()>& is_held) {
  std::error_code error;
  do {
    const fs::file_type type = fs::symlink_status(path_, error).type();
    if (type != fs::file_type::not_found && type != fs::file_type::regular) {
      throw RunError(fmt::format("{}: is no plain file; remove it", path_));
    }
    file_.emplace(path_, File::Mode::kAppend, name);
    while (!file_->lock()) is_held();
  } while (!file_->has_name());
}

void LockedFile::remove() {
  std::error_code ignored;
  fs::remove(path_, ignored);
}

FolderLock::FolderLock(const std::string& folder, const std::string& work) : file_(lock_of(folder, work)) {}

}  // namespace lpmm
