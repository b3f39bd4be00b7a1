#include "experiments/pack/exif.h"

#include <string_view>

namespace lpmm {
namespace {

constexpr std::string_view kExif("Exif\0\0", 6);

// A number of `bytes` bytes at `at`; 0 beyond the end.
std::uint32_t number_at(std::string_view from, std::size_t at, std::size_t bytes, bool big_end_first) {
  std::uint32_t number = 0;
  if (at > from.size() || bytes > from.size() - at) return 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    number = number << 8 | static_cast<unsigned char>(from[at + (big_end_first ? i : bytes - 1 - i)]);
  }
  return number;
}

// Returns the orientation in a TIFF header and the data after it; 1 if there is none.
int orientation_of(std::string_view tiff) {
  constexpr std::uint32_t kOrientation = 0x0112, kShort = 3, kLong = 4;
  const bool big = tiff.starts_with("MM");
  if (!big && !tiff.starts_with("II")) return 1;
  const std::size_t first = number_at(tiff, 4, 4, big);
  const std::uint32_t entries = number_at(tiff, first, 2, big);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t at = first + 2 + std::size_t{12} * i;
    if (at > tiff.size()) break;
    if (number_at(tiff, at, 2, big) != kOrientation) continue;
    const std::uint32_t type = number_at(tiff, at + 2, 2, big);
    const std::uint32_t value = type == kShort  ? number_at(tiff, at + 8, 2, big)
                                : type == kLong ? number_at(tiff, at + 8, 4, big)
                                                : 0;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// The Exif segment of a JPEG, before its first scan; empty: there is none.
std::string_view exif_of_jpeg(std::string_view file) {
  constexpr std::uint32_t kApp1 = 0xE1, kScan = 0xDA;
  for (std::size_t at = 2; at + 4 <= file.size();) {
    const std::uint32_t marker = number_at(file, at + 1, 1, true);
    if (file[at] != '\xFF' || marker == kScan) break;
    if (marker == 0xFF) {  // fills up
      ++at;
      continue;
    }
    const std::size_t bytes = number_at(file, at + 2, 2, true);
    const std::string_view segment = file.substr(at + 4, bytes < 2 ? 0 : bytes - 2);
    if (marker == kApp1 && segment.starts_with(kExif)) return segment.substr(kExif.size());
    at += 2 + bytes;
  }
  return {};
}

std::string_view exif_of_png(std::string_view file) {
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::size_t bytes = number_at(file, at, 4, true);
    const std::string_view kind = file.substr(at + 4, 4);
    if (kind == "eXIf") return file.substr(at + 8, bytes);
    at += 12 + bytes;
  }
  return {};
}

}  // namespace

int exif_orientation(std::span<const std::uint8_t> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  return orientation_of(text.starts_with("\xFF\xD8") ? exif_of_jpeg(text) : exif_of_png(text));
}

}  // namespace lpmm
