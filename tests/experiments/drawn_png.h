// PNGs of pixels that a test draws.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "lpmm/files/files.h"

namespace lpmm {

// `pixels`: (height, width, channels), with one channel or three. Nothing is compressed.
inline std::string png_bytes(int width, int height, int channels, std::span<const std::uint8_t> pixels) {
  const auto number = [](std::uint32_t x) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(x >> shift);
    return bytes;
  };
  const auto chunk = [&](const std::string& kind_and_data) {
    return number(static_cast<std::uint32_t>(kind_and_data.size() - 4)) + kind_and_data +
           number(crc32(std::as_bytes(std::span(kind_and_data))));
  };
  std::string rows;
  const auto row = static_cast<std::size_t>(width * channels);
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + y * row, row);
  }
  std::uint32_t a = 1, b = 0;  // Adler-32
  for (const char c : rows) {
    a = (a + static_cast<unsigned char>(c)) % 65521;
    b = (b + a) % 65521;
  }
  std::string stream("\x78\x01", 2);
  for (std::size_t at = 0; at < rows.size(); at += 65535) {
    const std::size_t n = std::min<std::size_t>(65535, rows.size() - at);
    stream += static_cast<char>(at + n == rows.size() ? 1 : 0);
    for (const std::size_t x : {n, ~n}) stream += {static_cast<char>(x), static_cast<char>(x >> 8)};
    stream += rows.substr(at, n);
  }
  stream += number(b << 16 | a);
  const std::string header = number(static_cast<std::uint32_t>(width)) +
                             number(static_cast<std::uint32_t>(height)) + std::string("\x08", 1) +
                             static_cast<char>(channels == 3 ? 2 : 0) + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR" + header) + chunk("IDAT" + stream) + chunk("IEND");
}

}  // namespace lpmm
