#include "experiments/download/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "experiments/download/digest.h"
#include "experiments/download/http.h"
#include "experiments/download/unpack.h"
#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/files/files.h"
#include "lpmm/files/locked_file.h"
#include "lpmm/run/run_folder.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kAdvice = "remove it, or name another folder with --to";

bool is_free(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() == fs::file_type::not_found;
}

// The part of a file that has arrived. Its name contains the file's checksum, so that a download that broke
// off can be resumed. It is removed again if it is of no use for that.
class PartialFile {
 public:
  PartialFile(const fs::path& folder, const DataFile& file)
      : path_(path_of(folder, file)),
        file_(path_.string(), (folder / file.name).string(), "another `lpmm data get` is at work there") {}
  ~PartialFile() {
    std::error_code ignored;
    if (!kept_ || fs::file_size(path_, ignored) == 0) file_.remove();
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  static fs::path path_of(const fs::path& folder, const DataFile& file) {
    return folder / fmt::format(".{}.{}.part", file.name, file.sha256.substr(0, 16));
  }
  const fs::path& path() const { return path_; }
  File& file() { return file_.file(); }
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  LockedFile file_;
  bool kept_ = false;
};

// A new folder in `place` for the files of an archive. It goes again with those files, and with nothing else;
// what a killed process left is cleared away by the next, which holds the lock of the archive's PartialFile.
class UnpackFolder {
 public:
  UnpackFolder(const fs::path& place, const DataSet& set)
      : set_(set), leaf_(fs::path(set.folder).filename()) {
    const std::string start = fmt::format(".{}.unpacking.", leaf_.string());
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(place, error)) {
      if (entry.path().filename().string().starts_with(start)) clear(entry.path());
    }
    std::string name = (place / (start + "XXXXXX")).string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw RunError(fmt::format("{}: cannot be made: {}", name, std::strerror(errno)));
    }
    path_ = name;
    make_folder(files().string());
  }
  ~UnpackFolder() { clear(path_); }
  UnpackFolder(const UnpackFolder&) = delete;
  UnpackFolder& operator=(const UnpackFolder&) = delete;
  fs::path files() const { return path_ / leaf_; }  // with the mode of other folders

 private:
  void clear(const fs::path& folder) const {
    std::error_code ignored;
    const fs::path inner = folder / leaf_;
    const auto is_folder = [&](const fs::path& path) {  // and no link to one
      return fs::is_directory(fs::symlink_status(path, ignored));
    };
    if (!is_folder(folder)) return;
    if (is_folder(inner)) {
      for (const DataFile& file : set_.files) fs::remove(inner / file.name, ignored);
      fs::remove(inner, ignored);
    }
    fs::remove(folder, ignored);  // this does nothing if files are left in it
  }
  const DataSet& set_;
  const fs::path leaf_;  // the name of the set's folder, also within the archive
  fs::path path_;
};

std::int64_t size_of(const fs::path& path) {
  return static_cast<std::int64_t>(File(path.string(), File::Mode::kRead).size());
}

void check_known(const fs::path& path, const DataFile& file) {
  const auto check = [&](const std::string& expected, const std::string& found) {
    if (found != expected) {
      throw RunError(fmt::format("{}: not the known file: expected {}, found {}; {}", path.string(), expected,
                                 found, kAdvice));
    }
  };
  const std::int64_t bytes = size_of(path);
  const bool is_vouched_for = file.sha256.empty();
  if (is_vouched_for && bytes > 0 && bytes <= file.bytes) return;
  check(fmt::format("{}{} bytes", is_vouched_for ? "1 to " : "", file.bytes), fmt::format("{} bytes", bytes));
  check("SHA-256 " + file.sha256, "SHA-256 " + file_sha256(path.string()));
}

// Returns false if nothing is there. Throws if it is something else, which may be somebody's work. Files
// without a checksum may also be there compressed, as the program reads both.
bool is_there(const fs::path& path, const DataFile& file) {
  if (is_free(path)) return file.sha256.empty() && !is_free(path.string() + ".gz");
  check_known(path, file);
  return true;
}

void check_space(const fs::path& place, const DataSet& set, const std::vector<DataFile>& missing) {
  std::int64_t needed = 0;
  constexpr std::int64_t kUnpacked = 8;  // times an archive, at most, for what is not known
  for (const DataFile& file : missing) {
    needed += set.archive && file.sha256.empty() ? std::min(file.bytes, kUnpacked * set.archive->bytes)
                                                 : file.bytes;
  }
  std::vector<DataFile> to_come = missing;
  if (set.archive) {
    needed += set.archive->bytes;
    to_come = {*set.archive};
  }
  for (const DataFile& file : to_come) {
    std::error_code none;
    const std::uintmax_t there = fs::file_size(PartialFile::path_of(place, file), none);
    if (!none) needed -= std::min(file.bytes, static_cast<std::int64_t>(there));
  }
  if (const std::int64_t space = free_space(place.string()); space < needed) {
    throw RunError(fmt::format("{}: the disk has {} left, {} takes {}; make room for {} more", place.string(),
                               format_bytes(space), set.name, format_bytes(needed),
                               format_bytes(needed - space)));
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

// One set's way from its address to its folder.
class Transfer {
 public:
  Transfer(const DataSet& set, const DownloadOptions& options, Progress& progress)
      : set_(set), options_(options), progress_(progress), folder_(fs::path(options.folder) / set.folder) {}

  Downloaded run() {
    find_missing();
    if (missing_.empty()) return result_;
    if (set_.archive) check_folder_is_free();
    // Beside what is to appear, so that it appears by a new name.
    const fs::path place = set_.archive ? folder_.parent_path() : folder_;
    const MadeFolder made(place);  // removed again where nothing comes into it
    check_space(place, set_, missing_);
    if (set_.archive) {
      PartialFile part(place, *set_.archive);
      fetch_to(part, *set_.archive);
      unpack_all(part, place);
    }
    for (const DataFile& file : missing_) {
      const fs::path path = folder_ / file.name;
      if (!set_.archive) {
        PartialFile part(place, file);
        fetch_to(part, file);
        move(part.path(), path);
      }
      progress_.say(fmt::format("{}: {}", path.string(), format_bytes(size_of(path))));
      result_.files.push_back(path.string());
    }
    return result_;
  }

 private:
  void find_missing() {
    for (const DataFile& file : set_.files) {
      const fs::path path = folder_ / file.name;
      if (is_there(path, file)) {
        progress_.say(fmt::format("{}: is there already", path.string()));
        result_.present.push_back(path.string());
      } else {
        missing_.push_back(file);
      }
    }
  }
  void check_folder_is_free() const {
    if (is_free(folder_)) return;
    if (!fs::is_directory(fs::symlink_status(folder_))) {
      throw RunError(fmt::format("{}: is no folder; {}", folder_.string(), kAdvice));
    }
    std::error_code error;
    if (!fs::is_empty(folder_, error)) {
      throw RunError(fmt::format("{}: has no {}; {}", folder_.string(), missing_[0].name, kAdvice));
    }
  }
  void fetch_to(PartialFile& part, const DataFile& file) {
    const std::string address = (options_.mirror.empty() ? set_.address : options_.mirror) + "/" + file.name;
    try {
      result_.bytes += fetch(address, file, part.path().string(), part.file(), options_.patience, progress_);
    } catch (const Interrupted&) {
      part.keep();
      throw;
    } catch (const Unreachable& unreachable) {
      part.keep();
      throw RunError(fmt::format("{}; {}", unreachable.what(), by_hand(set_, folder_.string(), missing_)));
    }
  }
  void unpack_all(PartialFile& part, const fs::path& place) {
    const UnpackFolder unpacked(place, set_);
    try {
      unpack(part.path().string(), set_.archive->name, folder_.filename().string(), missing_,
             unpacked.files().string());
      for (const DataFile& file : missing_) check_known(unpacked.files() / file.name, file);
    } catch (const Interrupted&) {
      part.keep();
      throw;
    }
    move(unpacked.files(), folder_);
  }

  const DataSet& set_;
  const DownloadOptions& options_;
  Progress& progress_;
  const fs::path folder_;
  std::vector<DataFile> missing_;
  Downloaded result_;
};

}  // namespace

Downloaded download(const DataSet& set, const DownloadOptions& options, Progress& progress) {
  return Transfer(set, options, progress).run();
}

}  // namespace lpmm
