#include "experiments/download/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

void check(int good) {
  if (good != 1) throw RunError("OpenSSL cannot compute a checksum");
}

}  // namespace

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  check(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr));
}

Sha256::~Sha256() = default;

Sha256::Sha256(Sha256&&) noexcept = default;

void Sha256::add(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  check(EVP_DigestFinal_ex(state_->context.get(), bytes.data(), &size));
  std::string text;
  for (const unsigned char byte : std::span(bytes).first(size)) text += fmt::format("{:02x}", byte);
  return text;
}

std::string file_sha256(const std::string& path) {
  const File file(path, File::Mode::kRead);
  Sha256 digest;
  std::vector<std::byte> piece(1 << 20);
  for (std::uint64_t at = 0, size = file.size(); at < size;) {
    InterruptGuard::check();
    const auto part = std::span(piece).first(std::min<std::uint64_t>(piece.size(), size - at));
    file.read(at, part);
    digest.add(part);
    at += part.size();
  }
  return digest.hex();
}

}  // namespace lpmm
