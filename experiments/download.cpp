#include "experiments/download.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "experiments/digest.h"
#include "experiments/http.h"
#include "experiments/unpack.h"
#include "lpmm/error.h"
#include "lpmm/files.h"
#include "lpmm/text.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// A new folder that is removed with what is left in it.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& parent) {
    std::string name = (parent / ".download_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw RunError(fmt::format("{}: cannot be written: {}", parent.string(), std::strerror(errno)));
    }
    path_ = name;
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

constexpr const char* kAdvice = "remove it, or name another folder with --to";

// False where nothing is there. What is there and is something else may be somebody's work.
bool is_there(const fs::path& path, const DataFile& file) {
  std::error_code error;
  if (!fs::exists(path, error)) return false;
  const auto refuse = [&](const auto& expected, const auto& found) {
    throw RunError(fmt::format("{}: not the known file: expected {}, found {}; {}", path.string(), expected,
                               found, kAdvice));
  };
  const auto bytes = static_cast<std::int64_t>(File(path.string(), File::Mode::kRead).size());
  if (bytes != file.bytes) refuse(fmt::format("{} bytes", file.bytes), bytes);
  const std::string sha256 = file_sha256(path.string());
  if (sha256 != file.sha256) refuse("SHA-256 " + file.sha256, sha256);
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

// What to do without the network.
std::string by_hand(const DataSet& set, const fs::path& folder, const std::vector<DataFile>& missing) {
  std::vector<std::string_view> names;
  for (const DataFile& file : missing) names.push_back(file.name);
  return fmt::format("by hand: put {} into {}{}", join(names), folder.string(),
                     set.archive ? fmt::format(" ({} holds them)", set.archive->name) : "");
}

void move(const fs::path& from, const fs::path& to) {
  std::error_code error;
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
  if (set.archive && fs::exists(folder, error) && !fs::is_empty(folder, error)) {
    throw RunError(fmt::format("{}: has no {}; {}", folder.string(), missing[0].name, kAdvice));
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
      throw RunError(fmt::format("{}; {}", unreachable.what(), by_hand(set, folder, missing)));
    }
    result.bytes += file.bytes;
  };
  if (set.archive) {
    bring(*set.archive);
    const fs::path unpacked = work / set.folder;
    make_folder(unpacked.string());
    unpack((work / set.archive->name).string(), set.folder, missing, unpacked.string());
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
