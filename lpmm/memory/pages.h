// Memory from the system, by whole pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lpmm {

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
