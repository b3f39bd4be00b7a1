#include "lpmm/files/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw RunError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

// Eight tables, so that eight bytes are taken at once (Kounavis and Berry 2005).
using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;
constexpr CrcTables crc_tables(std::uint32_t polynomial) {
  CrcTables t{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1U) != 0 ? polynomial : 0U);
    t[0][i] = c;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t i = 0; i < 256; ++i) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 255U];
  }
  return t;
}
std::uint32_t crc_by(const CrcTables& t, std::span<const std::byte> bytes, std::uint32_t crc) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::size_t n = bytes.size();
  crc = ~crc;
  for (; n >= 8; n -= 8, p += 8) {
    const std::uint32_t a =
        crc ^ (p[0] | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24);
    crc = t[7][a & 255U] ^ t[6][a >> 8 & 255U] ^ t[5][a >> 16 & 255U] ^ t[4][a >> 24] ^ t[3][p[4]] ^
          t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]];
  }
  for (; n > 0; --n, ++p) crc = (crc >> 8) ^ t[0][(crc ^ *p) & 255U];
  return ~crc;
}

constexpr std::string_view kLeftoverStart = ".lpmm-", kLeftoverEnd = ".tmp";  // of names of temporary files

}  // namespace

std::string error_text(const std::exception& error) {
  if (const auto* e = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    const std::string path = e->path1().string();
    return path.empty() ? e->code().message() : fmt::format("{}: {}", path, e->code().message());
  }
  const std::string text = error.what();
  const std::size_t end = text.starts_with("[json.exception.") ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc) {
  static constexpr CrcTables kTables = crc_tables(0xEDB88320U);
  return crc_by(kTables, bytes, crc);
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  static constexpr CrcTables kTables = crc_tables(0x82F63B78U);
  return crc_by(kTables, bytes, crc);
}

File::File(const std::string& path, Mode mode, const std::string& name)
    : path_(name.empty() ? path : name), real_path_(path) {
  if (path.find('\0') != std::string::npos)  // the system would read the name up to there
    throw RunError(fmt::format("{}: the name of a file has no zero byte", path.c_str()));
  // Without O_NONBLOCK a pipe would keep us waiting for a writer.
  const int flags = mode == Mode::kRead     ? O_RDONLY | O_NONBLOCK
                    : mode == Mode::kCreate ? O_WRONLY | O_CREAT | O_TRUNC
                    : mode == Mode::kNew    ? O_WRONLY | O_CREAT | O_EXCL
                                            : O_RDWR | O_CREAT | O_APPEND;
  fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(path_, mode == Mode::kRead ? "cannot be opened" : "cannot be written");
  struct stat s {};
  if (mode == Mode::kRead && (::fstat(fd_, &s) != 0 || !S_ISREG(s.st_mode))) {
    ::close(fd_);
    throw RunError(fmt::format("{}: is not a file", path_));
  }
}

File::~File() {
  ::close(fd_);
}

std::uint64_t File::size() const {
  struct stat s {};
  if (::fstat(fd_, &s) != 0) fail(path_, "cannot be read");
  return static_cast<std::uint64_t>(s.st_size);
}

void File::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ::ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<::off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "cannot be read");
    if (n == 0)
      throw RunError(fmt::format("{}: ends at byte {}, {} more were expected", path_, offset, out.size()));
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

std::uint32_t File::checksum(std::uint64_t bytes) const {
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min<std::uint64_t>(1 << 20, bytes)));
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < bytes;) {
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes - at));
    read(at, std::span(piece).first(n));
    crc = crc32(std::span(piece).first(n), crc);
    at += n;
  }
  return crc;
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ::ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void File::overwrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ::ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<::off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void File::truncate(std::uint64_t size) {
  if (::ftruncate(fd_, static_cast<::off_t>(size)) != 0) fail(path_, "cannot be cut");
}

void File::sync() {
  // Devices cannot be synced and say EINVAL.
  if (::fsync(fd_) != 0 && errno != EINVAL) fail(path_, "cannot be written");
}

bool File::lock() {
  return ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
}

bool File::has_name() const {
  struct stat own {
  }, named{};
  return ::fstat(fd_, &own) == 0 && ::stat(real_path_.c_str(), &named) == 0 && own.st_dev == named.st_dev &&
         own.st_ino == named.st_ino;
}

void refuse_stand_in(const std::string& path, std::string_view begin) {
  if (begin.starts_with("version https://git-lfs")) {
    throw RunError(path + ": is a Git LFS pointer in place of the file: fetch it with `git lfs pull`");
  }
  if (begin.starts_with("GGUF")) {
    throw RunError(path + ": is a GGUF, which `lpmm import` makes a run of: give it the file itself");
  }
}

std::string read_text(const std::string& path, std::uint64_t limit) {
  const File file(path, File::Mode::kRead);
  const std::uint64_t size = file.size();
  if (size > limit) throw RunError(fmt::format("{}: {} bytes, at most {} were expected", path, size, limit));
  std::string text(size, '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  refuse_stand_in(path, text);
  return text;
}

NewFile::NewFile(const std::string& path) : target_(path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  // Renaming onto a link would replace the link.
  if (const fs::path led = fs::canonical(path, error); !error) target_ = led.string();
  if (fs::is_other(status) || (error && fs::is_symlink(fs::symlink_status(path, error)))) {
    file_.emplace(path, File::Mode::kCreate);
    return;
  }
  const fs::path folder = fs::path(target_).parent_path();
  constexpr int kTries = 8;  // then it goes on without a lock
  for (int n = 0; !file_; ++n) {
    temporary_ = (folder / fmt::format("{}{}-{}{}", kLeftoverStart, ::getpid(), n, kLeftoverEnd)).string();
    if (fs::exists(fs::symlink_status(temporary_, error))) continue;
    file_.emplace(temporary_, File::Mode::kNew, path);
    if ((file_->lock() || n >= kTries) && file_->has_name()) continue;
    if (file_->has_name()) ::unlink(temporary_.c_str());  // it is taken for a leftover
    file_.reset();
  }
  if (fs::is_regular_file(status)) fs::permissions(temporary_, status.permissions(), error);
}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void NewFile::keep() {
  file_->sync();
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail(target_, "cannot be written");
  temporary_.clear();
  const std::string folder = std::filesystem::path(target_).parent_path().string();
  sync_folder(folder.empty() ? "." : folder);
}

void remove_leftovers(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    const std::string name = item.path().filename().string();
    if (!name.starts_with(kLeftoverStart) || !name.ends_with(kLeftoverEnd)) continue;
    try {
      File file(item.path().string(), File::Mode::kRead);
      if (file.lock() && file.has_name()) ::unlink(item.path().c_str());
    } catch (const RunError&) {
    }
  }
}

void write_text(const std::string& path, std::string_view text) {
  NewFile out(path);
  out.file().write(std::as_bytes(std::span(text)));
  out.keep();
}

std::uint32_t file_crc32(const std::string& path) {
  const File file(path, File::Mode::kRead);
  return file.checksum(file.size());
}

void sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail(path, "cannot be opened");
  // Some file systems cannot sync a folder and say EINVAL; nothing more can be done there.
  const bool good = ::fsync(fd) == 0 || errno == EINVAL;
  ::close(fd);
  if (!good) fail(path, "cannot be written");
}

void make_folder(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return;
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (!parent.empty() && parent != path) make_folder(parent);
  const int error = ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno;
  if (error != 0 && !std::filesystem::is_directory(path, ignored)) {
    errno = error;  // is_directory() has set another
    fail(path, "cannot be made");
  }
  sync_folder(parent.empty() ? "." : parent);
}

std::int64_t free_space(const std::string& folder) {
  struct statvfs s {};
  if (::statvfs(folder.c_str(), &s) != 0) fail(folder, "cannot be read");
  return static_cast<std::int64_t>(s.f_bavail) * static_cast<std::int64_t>(s.f_frsize);
}

}  // namespace lpmm
