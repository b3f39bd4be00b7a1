// A file mapped into memory to be read: as large as it may be, no more of it is resident than what was used
// since it was forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lpmm {

// Any number of threads may read one. It may be replaced meanwhile, but not cut.
class MappedFile {
 public:
  // Throws RunError naming it where it is no ordinary file, or cannot be opened or mapped.
  explicit MappedFile(const std::string& path);
  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {map_.get(), map_.get_deleter().bytes}; }
  // Gives the memory of what lies there, and of what is near, back; whoever reads it later gets it from the
  // disk or its cache.
  void forget(const void* first, std::size_t bytes) const;

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(const std::byte* map) const;
  };
  std::string path_;
  std::unique_ptr<const std::byte, Unmap> map_;
};

}  // namespace lpmm
