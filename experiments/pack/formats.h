// Recognises pictures by the first bytes of their files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lpmm {

// "JPEG" and "PNG", which are decoded; "WebP", "GIF", "BMP", "TIFF", "HEIC", "AVIF", "JPEG XL", which are
// not; empty: no picture.
std::string_view picture_format(std::span<const std::uint8_t> begin);
bool is_decoded(std::string_view format);

// Says what to do with a picture that is not decoded: "is a WebP picture, ...".
std::string conversion_advice(std::string_view format);

// Replaces ASCII's capital letters: names of parts, of classes and endings compare in any case.
std::string lower_case(std::string text);

// picture_format() of a file. One whose first bytes say nothing is what the end of its name says: a picture
// that is damaged, or none. Throws RunError for a file that cannot be read.
std::string_view format_of_file(const std::string& path);

}  // namespace lpmm
