// Files that must be whole or absent: exact reads and writes, checksums, durable renames.
// Every function throws RunError naming the path and what the system said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lpmm {

// CRC-32 (the polynomial of zlib), continued from `crc`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc = 0);

// An open file; closed by the destructor.
class File {
 public:
  enum class Mode { kRead, kCreate, kAppend };  // kCreate empties an existing file
  File(std::string path, Mode mode);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const;
  void read(std::uint64_t offset, std::span<std::byte> out) const;  // all of it, or an error
  void write(std::span<const std::byte> bytes);                     // at the end, all of it, or an error
  void overwrite(std::uint64_t offset, std::span<const std::byte> bytes);
  void truncate(std::uint64_t size);
  void sync();
  bool lock();  // for this process alone; false where another one holds it

 private:
  std::string path_;
  int fd_ = -1;
};

// A file that gets its name when it is whole: written beside it as PATH.tmp, and removed where keep() was not
// reached. A device or a pipe is written as it is.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  File& file() { return file_; }
  void keep();  // durable

 private:
  std::string target_;
  File file_;
  bool kept_ = false;
};

std::string read_text(const std::string& path, std::uint64_t limit);  // an error above `limit` bytes
void write_text(const std::string& path, std::string_view text);      // new or replaced as a whole, durable
std::uint32_t file_crc32(const std::string& path);
void sync_folder(const std::string& path);
void make_folder(const std::string& path);  // and those above it, durable; no error where it is there
std::int64_t free_space(const std::string& folder);  // bytes an ordinary user may still write

}  // namespace lpmm
