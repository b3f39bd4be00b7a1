// One block of memory shared by values whose lives do not meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lpmm {

// A value that lives from time `begin` to time `end`, both included.
struct Lifetime {
  std::int64_t bytes = 0;
  int begin = 0, end = 0;
  std::int64_t offset = 0;  // set by place()
};

// Gives every lifetime an offset, a multiple of 64, so that no two that meet overlap: largest first, each at
// the lowest offset that is free. Returns the bytes of the arena.
std::int64_t place(std::vector<Lifetime>& lifetimes);

// Zeroed pages from the system, returned to it at once.
class Pages {
 public:
  Pages() = default;
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  // Throws RunError where there is no memory: `what` names it, `advice` says what to use instead.
  void allocate(std::int64_t bytes, const std::string& what, const char* advice);
  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace lpmm
