#include "experiments/download/download.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "experiments/download/digest.h"
#include "experiments/download/http.h"
#include "experiments/download/unpack.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// A folder for what is not whole yet. It is removed with what is in it; what a killed process left is removed
// by the next.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& parent) : path_(parent / ".download") {
    make_folder(path_.string());
    lock_.emplace((path_ / kLock).string(), File::Mode::kAppend);
    if (!lock_->lock()) {
      throw RunError(fmt::format("{}: another `lpmm data get` is at work there", parent.string()));
    }
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.path().filename() != kLock) fs::remove_all(entry.path());
    }
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  static constexpr const char* kLock = "lock";
  fs::path path_;
  std::optional<File> lock_;
};

constexpr const char* kAdvice = "remove it, or name another folder with --to";

bool is_free(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() == fs::file_type::not_found;
}

void check_known(const fs::path& path, const DataFile& file) {
  const auto check = [&](const std::string& expected, const std::string& found) {
    if (found != expected) {
      throw RunError(fmt::format("{}: not the known file: expected {}, found {}; {}", path.string(), expected,
                                 found, kAdvice));
    }
  };
  check(fmt::format("{} bytes", file.bytes),
        fmt::format("{} bytes", File(path.string(), File::Mode::kRead).size()));
  check("SHA-256 " + file.sha256, "SHA-256 " + file_sha256(path.string()));
}

// False where nothing is there. What is there and is something else may be somebody's work.
bool is_there(const fs::path& path, const DataFile& file) {
  if (is_free(path)) return false;
  check_known(path, file);
  return true;
}

void check_space(const std::string& folder, const DataSet& set, const std::vector<DataFile>& missing) {
  std::int64_t needed = set.archive ? set.archive->bytes : 0;
  for (const DataFile& file : missing) needed += file.bytes;
  if (const std::int64_t space = free_space(folder); space < needed) {
    throw RunError(fmt::format("{}: the disk has {} left, {} takes {}", folder, format_bytes(space), set.name,
                               format_bytes(needed)));
  }
}

void move(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (!is_free(to) && !fs::is_empty(to, error)) {
    throw RunError(fmt::format("{}: has appeared meanwhile; {}", to.string(), kAdvice));
  }
  fs::rename(from, to, error);
  if (error) throw RunError(fmt::format("{}: cannot be written: {}", to.string(), error.message()));
  sync_folder(to.parent_path().string());
}

}  // namespace

Downloaded download(const DataSet& set, const DownloadOptions& options, Progress& progress) {
  const fs::path root = options.folder, folder = root / set.folder;
  Downloaded result;
  std::vector<DataFile> missing;
  for (const DataFile& file : set.files) {
    const fs::path path = folder / file.name;
    if (is_there(path, file)) {
      progress.say(fmt::format("{}: is there already", path.string()));
      result.present.push_back(path.string());
    } else {
      missing.push_back(file);
    }
  }
  if (missing.empty()) return result;
  std::error_code error;
  if (set.archive && !is_free(folder)) {
    if (!fs::is_directory(fs::symlink_status(folder))) {
      throw RunError(fmt::format("{}: is no folder; {}", folder.string(), kAdvice));
    }
    if (!fs::is_empty(folder, error)) {
      throw RunError(fmt::format("{}: has no {}; {}", folder.string(), missing[0].name, kAdvice));
    }
  }
  // Beside what is to appear, so that it appears by a new name.
  const fs::path place = set.archive ? root : folder;
  make_folder(place.string());
  check_space(place.string(), set, missing);
  const WorkFolder work(place);
  const auto bring = [&](const DataFile& file) {
    const std::string address = (options.mirror.empty() ? set.address : options.mirror) + "/" + file.name;
    try {
      fetch(address, file, (work / file.name).string(), options.patience, progress);
    } catch (const Unreachable& unreachable) {
      throw RunError(fmt::format("{}; {}", unreachable.what(), by_hand(set, folder.string(), missing)));
    }
    result.bytes += file.bytes;
  };
  if (set.archive) {
    bring(*set.archive);
    const fs::path unpacked = work / set.folder;
    make_folder(unpacked.string());
    unpack((work / set.archive->name).string(), set.folder, missing, unpacked.string());
    for (const DataFile& file : missing) check_known(unpacked / file.name, file);
    move(unpacked, folder);
  }
  for (const DataFile& file : missing) {
    const fs::path path = folder / file.name;
    if (!set.archive) {
      bring(file);
      move(work / file.name, path);
    }
    progress.say(fmt::format("{}: {}", path.string(), format_bytes(file.bytes)));
    result.files.push_back(path.string());
  }
  return result;
}

}  // namespace lpmm
