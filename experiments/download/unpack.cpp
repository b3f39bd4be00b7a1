#include "experiments/download/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

class ArchiveReader {
 public:
  ArchiveReader(const std::string& path, const std::string& name)
      : name_(name), handle_(archive_read_new(), archive_read_free) {
    if (handle_ == nullptr) fail("libarchive does not start");
    check(archive_read_support_filter_gzip(handle_.get()));
    check(archive_read_support_format_tar(handle_.get()));
    check(archive_read_support_format_zip(handle_.get()));
    check(archive_read_open_filename(handle_.get(), path.c_str(), 1 << 16));
  }
  // The next file's path; empty at the end.
  std::string next() {
    archive_entry* entry = nullptr;
    do {
      InterruptGuard::check();
      const int code = archive_read_next_header(handle_.get(), &entry);
      if (code == ARCHIVE_EOF) return "";
      check(code);
    } while (!is_file(entry));
    return fs::path(archive_entry_pathname(entry)).lexically_normal().string();
  }
  void write(const DataFile& file, const std::string& path) {
    File out(path, File::Mode::kCreate);
    std::vector<std::byte> piece(1 << 20);
    std::int64_t bytes = 0;
    for (;;) {
      InterruptGuard::check();
      const la_ssize_t n = archive_read_data(handle_.get(), piece.data(), piece.size());
      if (n < 0) fail_reading();
      bytes += n;
      if (n == 0 || bytes > file.bytes) break;
      out.write(std::span(piece).first(static_cast<std::size_t>(n)));
    }
    if (file.sha256.empty() ? bytes > file.bytes : bytes != file.bytes) {
      fail(fmt::format("{}: expected {}{} bytes, found {}", file.name, file.sha256.empty() ? "at most " : "",
                       file.bytes, bytes > file.bytes ? "more" : fmt::format("{}", bytes)));
    }
    out.sync();
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw RunError(fmt::format("{}: {}", name_, what));
  }

 private:
  void check(int code) const {
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) fail_reading();
  }
  [[noreturn]] void fail_reading() const {
    const char* why = archive_error_string(handle_.get());
    fail(why != nullptr ? why : "cannot be read");
  }
  // False for a folder. Nothing else belongs into a data set.
  bool is_file(archive_entry* entry) const {
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr) fail("holds a name that cannot be read");
    const fs::path path(name);
    const auto type = archive_entry_filetype(entry);
    const bool inside = path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end();
    if (!inside || (type != AE_IFREG && type != AE_IFDIR)) {  // a hard link has no type
      fail(fmt::format("holds {}, which is not a plain file inside it", name));
    }
    return type == AE_IFREG;
  }

  std::string name_;
  std::unique_ptr<archive, decltype(&archive_read_free)> handle_;
};

}  // namespace

void unpack(const std::string& archive, const std::string& name, const std::string& folder,
            const std::vector<DataFile>& files, const std::string& to) {
  ArchiveReader reader(archive, name);
  std::vector<DataFile> missing = files;
  for (std::string path = reader.next(); !path.empty(); path = reader.next()) {
    const auto file = std::find_if(missing.begin(), missing.end(), [&](const DataFile& f) {
      return path == (fs::path(folder) / f.name).string();
    });
    if (file == missing.end()) continue;
    reader.write(*file, (fs::path(to) / file->name).string());
    missing.erase(file);
  }
  if (!missing.empty()) reader.fail(fmt::format("lacks {}/{}", folder, missing[0].name));
  sync_folder(to);
}

}  // namespace lpmm
