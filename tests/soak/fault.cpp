// Preloaded into a program (LD_PRELOAD): counts its calls that change a file below a folder, and kills the
// program in the n-th of them, or lets that one fail.
//   FAULT_FOLDER  the folder, an absolute path without links
//   FAULT_AT      n, from 1; 0: only count
//   FAULT_KIND    KILL (a write gets half its bytes to the file first), or ENOSPC, EIO, EROFS: errno of the
//   call FAULT_COUNT   a file outside the folder that gets their number, where it is not 0, when the program
//   ends
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Fault {
  std::string folder = setting("FAULT_FOLDER"), kind = setting("FAULT_KIND"),
              count_file = setting("FAULT_COUNT");
  long at = std::atol(setting("FAULT_AT"));
  std::atomic<long> calls{0};

  ~Fault() {
    if (count_file.empty() || calls == 0) return;
    if (FILE* file = std::fopen(count_file.c_str(), "w")) {
      std::fprintf(file, "%ld\n", calls.load());
      std::fclose(file);
    }
  }
  bool below(std::string_view path) const {
    return !folder.empty() && path.starts_with(folder) &&
           (path.size() == folder.size() || path[folder.size()] == '/');
  }
  // Counts this call, and returns true if it is the one to fail.
  bool hits() { return ++calls == at; }
};

Fault& fault() {
  static Fault one;
  return one;
}

[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// errno of the call that fails; ends the program where it is not to fail but to die.
int fail() {
  const std::string& kind = fault().kind;
  if (kind == "KILL") die();
  errno = kind == "ENOSPC" ? ENOSPC : kind == "EROFS" ? EROFS : EIO;
  return -1;
}

std::string path_of(int fd) {
  std::array<char, 4096> path{};
  const std::string link = fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = readlink(link.c_str(), path.data(), path.size());
  return {path.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

std::string absolute(int folder, const char* path) {
  return path[0] == '/' ? std::string(path) : path_of(folder) + "/" + path;
}

bool hits(int fd) {
  return fault().below(path_of(fd)) && fault().hits();
}
bool hits(int folder, const char* path) {
  return fault().below(absolute(folder, path)) && fault().hits();
}

// The function that this library stands before.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool opens_to_write(int flags) {
  return (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) != 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (opens_to_write(flags) && hits(AT_FDCWD, path)) return fail();
  static auto* const real = next<int(const char*, int, ...)>("open");
  return real(path, flags, mode);
}

ssize_t write(int fd, const void* bytes, std::size_t size) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t)>("write");
  if (hits(fd)) {
    if (fault().kind == "KILL" && real(fd, bytes, size / 2) >= 0) die();
    return fail();
  }
  return real(fd, bytes, size);
}

ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t at) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  if (hits(fd)) {
    if (fault().kind == "KILL" && real(fd, bytes, size / 2, at) >= 0) die();
    return fail();
  }
  return real(fd, bytes, size, at);
}

int ftruncate(int fd, off_t size) {
  static auto* const real = next<int(int, off_t)>("ftruncate");
  return hits(fd) ? fail() : real(fd, size);
}

int fsync(int fd) {
  static auto* const real = next<int(int)>("fsync");
  return hits(fd) ? fail() : real(fd);
}

int rename(const char* from, const char* to) {
  static auto* const real = next<int(const char*, const char*)>("rename");
  return hits(AT_FDCWD, to) ? fail() : real(from, to);
}

int unlink(const char* path) {
  static auto* const real = next<int(const char*)>("unlink");
  return hits(AT_FDCWD, path) ? fail() : real(path);
}

int unlinkat(int folder, const char* path, int flags) {
  static auto* const real = next<int(int, const char*, int)>("unlinkat");
  return hits(folder, path) ? fail() : real(folder, path, flags);
}

int remove(const char* path) {
  static auto* const real = next<int(const char*)>("remove");
  return hits(AT_FDCWD, path) ? fail() : real(path);
}

int rmdir(const char* path) {
  static auto* const real = next<int(const char*)>("rmdir");
  return hits(AT_FDCWD, path) ? fail() : real(path);
}

int mkdir(const char* path, mode_t mode) {
  static auto* const real = next<int(const char*, mode_t)>("mkdir");
  return hits(AT_FDCWD, path) ? fail() : real(path, mode);
}

int fchmod(int fd, mode_t mode) {
  static auto* const real = next<int(int, mode_t)>("fchmod");
  return hits(fd) ? fail() : real(fd, mode);
}
}
