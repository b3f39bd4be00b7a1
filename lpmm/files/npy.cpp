#include "lpmm/files/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "lpmm/base/error.h"
#include "lpmm/files/half.h"

namespace lpmm {
namespace {

static_assert(std::endian::native == std::endian::little, ".npy types here are little-endian");

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::size_t kLongestNpyHeader = 1U << 16;

struct NpyHeader {
  std::string type;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader parse() {
    NpyHeader header;
    int seen = 0;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      const int field = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      if (field == 0 || (seen & field) != 0) fail(fmt::format("has a key '{}' it may not have", key));
      seen |= field;
      if (field == 1) header.type = quoted();
      if (field == 2) header.fortran_order = boolean();
      if (field == 4) header.shape = shape();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    if (at_ != text_.size() || seen != 7) fail("must hold descr, fortran_order and shape, and nothing else");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw RunError(fmt::format("{}: the .npy header {} (byte {} of it)", path_, what, at_));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("lacks a '{}'", c));
  }
  std::string quoted() {
    const char quote = accept('\'') ? '\'' : accept('"') ? '"' : '\0';
    const std::size_t end = quote == '\0' ? std::string_view::npos : text_.find(quote, at_);
    if (end == std::string_view::npos) fail("lacks a quoted text (structured types are not read)");
    std::string word(text_.substr(at_, end - at_));
    at_ = end + 1;
    return word;
  }
  bool boolean() {
    skip_spaces();
    for (const std::string_view word : {"False", "True"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return word == "True";
    }
    fail("lacks True or False");
  }
  std::int64_t number() {
    skip_spaces();
    std::int64_t value = 0;
    const std::size_t first = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        fail("has a dimension that is too large");
      }
    }
    if (at_ == first) fail("lacks a dimension, an integer of at least 0");
    return value;
  }
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> sizes;
    expect('(');
    while (!accept(')')) {
      sizes.push_back(number());
      if (sizes.size() > 32) fail("has more than 32 dimensions");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

}  // namespace

NpyReader::NpyReader(const std::string& path) : file_(path, File::Mode::kRead) {
  const std::uint64_t size = file_.size();
  // Magic, version, then the header's length in 2 (version 1) or 4 bytes (version 2).
  std::array<std::uint8_t, 12> start = {};
  if (size >= start.size()) file_.read(0, std::as_writable_bytes(std::span(start)));
  if (std::memcmp(start.data(), kNpyMagic.data(), kNpyMagic.size()) != 0) {
    throw RunError(fmt::format("{}: is not an .npy file (it does not start with \\x93NUMPY)", path));
  }
  std::uint64_t length = start[8] | std::uint64_t{start[9]} << 8;
  at_ = 10;
  if (start[6] == 2) {
    length |= std::uint64_t{start[10]} << 16 | std::uint64_t{start[11]} << 24;
    at_ = 12;
  } else if (start[6] != 1) {
    throw RunError(
        fmt::format("{}: has .npy version {}.{}; versions 1 and 2 are read", path, start[6], start[7]));
  }
  if (length > kLongestNpyHeader || length > size - at_) {
    throw RunError(
        fmt::format("{}: claims an .npy header of {} bytes; the file has {} left and at most {} are read",
                    path, length, size - at_, kLongestNpyHeader));
  }
  std::string text(length, '\0');
  file_.read(at_, std::as_writable_bytes(std::span(text)));
  at_ += length;
  NpyHeader header = HeaderParser(text, path).parse();
  if (header.type != "<f4" && header.type != "<f2" && header.type != "<f8") {
    throw RunError(fmt::format(
        "{}: holds '{}'; '<f4', '<f2' and '<f8' are read (save it with .astype('<f4'))", path, header.type));
  }
  if (header.fortran_order && header.shape.size() > 1) {
    throw RunError(fmt::format("{}: is in Fortran order; save it with numpy.ascontiguousarray", path));
  }
  element_bytes_ = static_cast<std::size_t>(header.type[2] - '0');
  shape_ = std::move(header.shape);
  elements_ = 1;
  auto bytes = static_cast<std::int64_t>(element_bytes_);
  for (const std::int64_t extent : shape_) {
    if (__builtin_mul_overflow(elements_, extent, &elements_) ||
        __builtin_mul_overflow(bytes, extent, &bytes)) {
      throw RunError(fmt::format("{}: the shape ({}) is too large", path, fmt::join(shape_, ", ")));
    }
  }
  if (size - at_ != static_cast<std::uint64_t>(bytes)) {
    throw RunError(fmt::format("{}: the shape ({}) of '{}' needs {} bytes after the header; the file has {}",
                               path, fmt::join(shape_, ", "), header.type, bytes, size - at_));
  }
}

void NpyReader::read(std::span<float> out) {
  if (element_bytes_ == 4) {
    file_.read(at_, std::as_writable_bytes(out));
  } else {
    raw_.resize(out.size() * element_bytes_);
    file_.read(at_, raw_);
  }
  at_ += out.size() * element_bytes_;
  for (std::size_t i = 0; i < out.size() && element_bytes_ == 2; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, raw_.data() + 2 * i, 2);
    out[i] = half_to_float(half);
  }
  for (std::size_t i = 0; i < out.size() && element_bytes_ == 8; ++i) {
    double value = 0;
    std::memcpy(&value, raw_.data() + 8 * i, 8);
    out[i] = static_cast<float>(value);
  }
}

void write_npy_header(File& file, std::string_view type, std::span<const std::int64_t> shape) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // Data start at a multiple of 64 bytes; the header ends in a newline.
  constexpr std::size_t kStart = 10;
  text.append(63 - (kStart + text.size()) % 64, ' ');
  text.push_back('\n');
  std::string start(kNpyMagic);
  start += {1, 0, static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8)};
  file.write(std::as_bytes(std::span(start)));
  file.write(std::as_bytes(std::span(text)));
}

}  // namespace lpmm
