// SHA-256 of downloads, computed by OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace lpmm {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  void add(std::span<const std::byte> bytes);
  std::string hex();  // ends it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string file_sha256(const std::string& path);

}  // namespace lpmm
