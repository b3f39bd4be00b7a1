// Files that must be whole or absent: exact reads and writes, checksums, durable renames.
// Every function throws RunError naming the path and what the system said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lpmm {

// The text of an error without the words that libraries put before it ("filesystem error:",
// "[json.exception...]").
std::string error_text(const std::exception& error);

// The CRC-32 of zlib and of zip files, continued from `crc`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc = 0);
inline std::uint32_t crc32(std::string_view text, std::uint32_t crc = 0) {
  return crc32(std::as_bytes(std::span(text)), crc);
}
// The same with Castagnoli's polynomial, as in RFC 3720.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

// An open file; closed by the destructor.
class File {
 public:
  // kCreate empties an existing file; kNew is an error where there is one.
  enum class Mode { kRead, kCreate, kNew, kAppend };
  // Messages show `name`, where it is not empty, in place of the path.
  File(const std::string& path, Mode mode, const std::string& name = "");
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }  // as messages show it
  std::uint64_t size() const;
  void read(std::uint64_t offset, std::span<std::byte> out) const;  // all of it, or an error
  std::uint32_t checksum(std::uint64_t bytes) const;                // CRC-32 of the first `bytes`
  void write(std::span<const std::byte> bytes);                     // at the end, all of it, or an error
  // Bytes that are there already; not of a kAppend file, nor of a pipe.
  void overwrite(std::uint64_t offset, std::span<const std::byte> bytes);
  void truncate(std::uint64_t size);
  void sync();
  // Locks the file for this process alone, until it is closed; false if another one holds it.
  bool lock();
  // Returns true if the path still leads to this file. Between its opening and its lock another process may
  // have taken the name away.
  bool has_name() const;

 private:
  std::string path_, real_path_;
  int fd_ = -1;
};

// A file that gets its name when it is whole. Until keep() it is written beside it under a name of its own,
// and removed where keep() is not reached; only a process that is killed leaves it. It keeps the mode of the
// file it replaces. Anything but an ordinary file (a device, a pipe, a link that leads nowhere) is written in
// place. Its writer holds a lock on it, so that leftovers can be told from what is being written.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  File& file() { return *file_; }
  bool in_place() const { return temporary_.empty(); }
  void keep();  // durable

 private:
  std::string target_, temporary_;  // empty where the target is written in place
  std::optional<File> file_;
};

// Removes what NewFile left in a folder when its process was killed; what cannot be removed stays.
void remove_leftovers(const std::string& folder);

// Throws RunError where a file that begins so is no model's, but a Git LFS pointer or a GGUF, and says what
// to do.
void refuse_stand_in(const std::string& path, std::string_view begin);

// A Git LFS pointer is refused.
std::string read_text(const std::string& path, std::uint64_t limit);  // an error above `limit` bytes
void write_text(const std::string& path, std::string_view text);      // new or replaced as a whole, durable
std::uint32_t file_crc32(const std::string& path);                    // of all of it
void sync_folder(const std::string& path);
void make_folder(const std::string& path);  // and those above it, durable; no error where it is there
std::int64_t free_space(const std::string& folder);  // bytes an ordinary user may still write

}  // namespace lpmm
