#include "experiments/pack/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "lpmm/files/files.h"

namespace lpmm {
namespace {

// The bytes at some offset that mark a file's format.
struct Signature {
  std::string_view format;
  std::size_t at;
  std::string_view bytes;
};
constexpr Signature kSignatures[] = {
    {"JPEG", 0, "\xFF\xD8\xFF"},
    {"PNG", 0, "\x89PNG"},
    {"WebP", 8, "WEBP"},
    {"GIF", 0, "GIF8"},
    {"BMP", 6, std::string_view("\0\0\0\0", 4)},  // and begins with BM
    {"TIFF", 0, std::string_view("II*\0", 4)},
    {"TIFF", 0, std::string_view("MM\0*", 4)},
    {"AVIF", 4, "ftypavif"},
    {"HEIC", 4, "ftypheic"},
    {"HEIC", 4, "ftypheix"},
    {"HEIC", 4, "ftypmif1"},
    {"HEIC", 4, "ftypmsf1"},
    {"JPEG XL", 0, "\xFF\x0A"},
    {"JPEG XL", 4, "JXL \r\n"},
};
constexpr std::size_t kLongestSignature = 16;

constexpr std::string_view kJpegEndings[] = {".jpg", ".jpeg", ".jpe", ".jfif"};

}  // namespace

std::string_view picture_format(std::span<const std::uint8_t> begin) {
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  for (const Signature& s : kSignatures) {
    if (text.size() < s.at || !text.substr(s.at).starts_with(s.bytes)) continue;
    if (s.format == "BMP" && !text.starts_with("BM")) continue;
    if (s.format == "WebP" && !text.starts_with("RIFF")) continue;
    return s.format;
  }
  return {};
}

bool is_decoded(std::string_view format) {
  return format == "JPEG" || format == "PNG";
}

std::string conversion_advice(std::string_view format) {
  return fmt::format(
      "is a {} picture, and JPEGs and PNGs are read: convert it, for example with ImageMagick "
      "(mogrify -format png FILE)",
      format);
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string_view format_of_file(const std::string& path) {
  const File file(path, File::Mode::kRead);
  std::array<std::uint8_t, kLongestSignature> bytes{};
  const auto begin = std::span(bytes).first(std::min<std::size_t>(bytes.size(), file.size()));
  file.read(0, std::as_writable_bytes(begin));
  const std::string_view format = picture_format(begin);
  if (!format.empty()) return format;
  const std::string ending = lower_case(std::filesystem::path(path).extension().string());
  const bool is_named_png = ending == ".png", is_named_jpeg = std::ranges::count(kJpegEndings, ending) > 0;
  return is_named_png ? "PNG" : is_named_jpeg ? "JPEG" : "";
}

}  // namespace lpmm
