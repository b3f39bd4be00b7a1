#include "lpmm/files/gz_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "lpmm/base/error.h"

namespace lpmm {

std::string find_plain_or_gz(const std::string& path) {
  std::error_code error;
  for (const char* ending : {"", ".gz"}) {
    if (std::filesystem::is_regular_file(path + ending, error)) return path + ending;
  }
  return "";
}

bool has_ending(std::string_view path, std::string_view ending) {
  constexpr std::string_view kGz = ".gz";
  if (path.ends_with(kGz)) path.remove_suffix(kGz.size());
  return path.ends_with(ending);
}

GzFile::GzFile(std::string path) : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb")) {
  if (file_ == nullptr) throw RunError(fmt::format("{}: cannot be opened: {}", path_, std::strerror(errno)));
  // The library gives any other file as it is.
  if (path_.ends_with(".gz") && gzdirect(file_.get()) != 0) {
    throw RunError(fmt::format("{}: is no gzip file, as its name says", path_));
  }
}

std::size_t GzFile::read(std::span<std::byte> out) {
  const int got = gzread(file_.get(), out.data(), static_cast<unsigned>(out.size()));
  if (got == static_cast<int>(out.size())) return out.size();
  int error = Z_OK;
  const std::string why = gzerror(file_.get(), &error);
  if (error == Z_BUF_ERROR) throw RunError(fmt::format("{}: is cut off", path_));
  if (got < 0 || error != Z_OK) throw RunError(fmt::format("{}: cannot be read: {}", path_, why));
  return static_cast<std::size_t>(got);
}

std::string read_plain_or_gz(const std::string& path) {
  constexpr std::size_t kLongest = std::size_t{1} << 30;
  GzFile file(path);
  std::string text;
  for (std::string piece(1 << 20, '\0');;) {
    const std::size_t got = file.read(std::as_writable_bytes(std::span(piece)));
    text.append(piece, 0, got);
    if (text.size() > kLongest) throw RunError(fmt::format("{}: is over 1 GB", path));
    if (got < piece.size()) break;
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

}  // namespace lpmm
