#include "lpmm/files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lpmm/base/error.h"

namespace lpmm {

void MappedFile::Unmap::operator()(const std::byte* map) const {
  ::munmap(const_cast<std::byte*>(map), bytes);
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const auto failed = [&](const char* what) {
    return RunError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
  };
  // Without O_NONBLOCK a pipe would keep us waiting for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) throw failed("cannot be opened");
  struct stat s {};
  const bool regular = ::fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
  const auto bytes = static_cast<std::size_t>(s.st_size);
  void* const map = regular && bytes > 0 ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  const RunError why = failed("cannot be mapped");
  ::close(fd);
  if (!regular) throw RunError(fmt::format("{}: is not a file", path));
  if (bytes > 0 && map == MAP_FAILED) throw why;
  if (bytes > 0) map_ = {static_cast<const std::byte*>(map), Unmap{bytes}};
}

// Linux maps what it has around a page as well, up to 2 MiB that begin at a multiple of that.
void MappedFile::forget(const void* first, std::size_t bytes) const {
  constexpr std::uintptr_t kRun = 1 << 21;
  if (bytes == 0 || map_ == nullptr) return;
  const auto start = reinterpret_cast<std::uintptr_t>(map_.get()),
             at = reinterpret_cast<std::uintptr_t>(first);
  const std::uintptr_t begin = std::max(start, at / kRun * kRun),
                       end =
                           std::min(start + map_.get_deleter().bytes, (at + bytes + kRun - 1) / kRun * kRun);
  auto* const run = const_cast<std::byte*>(map_.get()) + (begin - start);
  ::madvise(run, end - begin, MADV_DONTNEED);  // at worst it stays
}

}  // namespace lpmm
