// The part that all fuzz targets share. Each target is one LLVMFuzzerTestOneInput: it hands the bytes to one
// reader. A reader may take them or refuse them with RunError or UsageError; any other exception, a
// sanitizer's report, more than 2 GB or a second without an end is a finding.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "lpmm/base/error.h"

namespace lpmm::fuzz {

using Bytes = std::span<const std::uint8_t>;

inline std::string_view text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A property that must hold of what a reader took.
inline void must(bool holds) {
  if (!holds) std::abort();
}

template <class Read>
void read(const Read& body) {
  try {
    body();
  } catch (const RunError&) {
  } catch (const UsageError&) {
  }
}

// A file that lies in memory and has a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    must(fd_ >= 0);
  }
  const std::string& path() const { return path_; }
  void set(Bytes bytes) {
    must(ftruncate(fd_, 0) == 0);
    must(pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }

 private:
  int fd_;
  std::string path_;
};

// A folder of this process alone, in memory; it is left to tests/fuzz/run.sh to remove.
inline std::string memory_folder() {
  const char* base = std::getenv("FUZZ_FOLDER");
  std::string path = std::string(base != nullptr ? base : "/dev/shm") + "/lpmm_fuzz_XXXXXX";
  must(mkdtemp(path.data()) != nullptr);
  return path;
}

// A name in a folder for a file that lies in memory: writing it anew costs no file of the folder.
inline void place(const std::string& folder, const std::string& name, const MemoryFile& file) {
  std::filesystem::create_symlink(file.path(), folder + "/" + name);
}

// The parts before and after the first zero byte: two files out of one input.
struct Two {
  Bytes first, second;
};
inline Two split(Bytes bytes) {
  const std::size_t at = text(bytes).find('\0');
  if (at == std::string_view::npos) return {bytes, {}};
  return {bytes.first(at), bytes.subspan(at + 1)};
}

}  // namespace lpmm::fuzz

#define LPMM_FUZZ_TARGET(bytes)                                                       \
  static void target(lpmm::fuzz::Bytes bytes);                                        \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    lpmm::fuzz::read([&] { target({data, size}); });                                  \
    return 0;                                                                         \
  }                                                                                   \
  static void target(lpmm::fuzz::Bytes bytes)
