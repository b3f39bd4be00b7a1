// Checksums of downloads, computed by OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace lpmm {

// SHA-256, or MD5 where the checksum to compare with has the 32 digits of one.
class Digest {
 public:
  explicit Digest(const std::string& expected);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  void add(std::span<const std::byte> bytes);
  std::string hex();  // ends it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The checksum of a file, of the same kind as `expected`.
std::string file_digest(const std::string& path, const std::string& expected);

}  // namespace lpmm
