// Files that may be compressed by gzip.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lpmm {

// A file of that name, or that name with .gz; empty where neither is there.
std::string find_plain_or_gz(const std::string& path);
// Returns true if the name ends so, with or without .gz behind it.
bool has_ending(std::string_view path, std::string_view ending);

// Reads either, from the beginning on. Throws RunError naming the file where it cannot be read, is cut off,
// or is damaged.
class GzFile {
 public:
  explicit GzFile(std::string path);
  const std::string& path() const { return path_; }
  // The next bytes; how many there were: fewer at the end.
  std::size_t read(std::span<std::byte> out);

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

// All of it, without a byte order mark. Throws RunError where it is over 1 GB too.
std::string read_plain_or_gz(const std::string& path);

}  // namespace lpmm
