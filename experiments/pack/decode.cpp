#include "experiments/pack/decode.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

constexpr std::int64_t kMostSide = 32767, kMostPixels = std::int64_t{1} << 28;
// More than either format makes of a byte.
constexpr std::int64_t kMostPixelsOfByte = 10000;

bool is_too_large(std::int64_t height, std::int64_t width) {
  return height > kMostSide || width > kMostSide || height * width > kMostPixels;
}
bool is_cut_off(std::int64_t height, std::int64_t width, std::size_t bytes) {
  return height * width / kMostPixelsOfByte > static_cast<std::int64_t>(bytes);
}

void check_size(std::int64_t height, std::int64_t width, std::size_t bytes, const std::string& name) {
  if (is_cut_off(height, width, bytes)) {
    throw RunError(fmt::format("{}: {} bytes cannot hold its {} x {} pixels", name, bytes, width, height));
  }
  if (height >= 1 && width >= 1 && !is_too_large(height, width)) return;
  throw RunError(fmt::format("{}: {} x {} pixels; sides go to {}, pixels to {}", name, width, height,
                             kMostSide, kMostPixels));
}

// The library calls this in place of exit(); nothing that has a destructor may be left behind by the jump.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX];
};
// Keeps the first error: those after it follow from it.
void keep_first(j_common_ptr info, JpegErrors& errors) {
  if (errors.text[0] == '\0') info->err->format_message(info, errors.text);
}
void fail_jpeg(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  keep_first(info, *errors);
  std::longjmp(errors->back, 1);
}
void note_warning(j_common_ptr info, int level) {
  if (level >= 0) return;  // no warning, but a trace
  ++info->err->num_warnings;
  keep_first(info, *reinterpret_cast<JpegErrors*>(info->err));
}

// False, with errors.text, where the library gave up. Memory of `picture` is the caller's, made by `grow`.
bool read_jpeg(std::span<const std::uint8_t> file, DecodedPicture& picture, JpegErrors& errors,
               void (*grow)(DecodedPicture&, const jpeg_decompress_struct&, JpegErrors&)) {
  jpeg_decompress_struct info;
  std::memset(&info, 0, sizeof info);
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = fail_jpeg;
  errors.manager.emit_message = note_warning;
  if (setjmp(errors.back) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  info.dct_method = JDCT_ISLOW;
  grow(picture, info, errors);
  if (errors.text[0] != '\0') {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = picture.pixels.data() + std::size_t{3} * info.output_scanline * info.output_width;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  const long warnings = errors.manager.num_warnings;
  jpeg_destroy_decompress(&info);
  return warnings == 0;
}

DecodedPicture decode_jpeg(std::span<const std::uint8_t> file, const std::string& name) {
  DecodedPicture picture;
  JpegErrors errors{};
  const auto grow = [](DecodedPicture& p, const jpeg_decompress_struct& info, JpegErrors& e) {
    if (info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK) {
      std::strncpy(e.text, "it is in CMYK, save it as RGB", sizeof e.text - 1);
      return;
    }
    p.height = static_cast<int>(info.image_height);
    p.width = static_cast<int>(info.image_width);
    const bool is_cut = is_cut_off(p.height, p.width, info.src->bytes_in_buffer);
    if (is_cut || is_too_large(p.height, p.width)) {
      std::strncpy(e.text, is_cut ? "too few bytes for its size" : "too large", sizeof e.text - 1);
      return;
    }
    p.pixels.resize(std::size_t{3} * info.image_height * info.image_width);
  };
  if (!read_jpeg(file, picture, errors, grow)) {
    throw RunError(fmt::format("{}: is no JPEG that can be read: {}", name, errors.text));
  }
  check_size(picture.height, picture.width, file.size(), name);
  return picture;
}

DecodedPicture decode_png(std::span<const std::uint8_t> file, const std::string& name) {
  struct Image {
    png_image image{};
    ~Image() { png_image_free(&image); }
  } of;
  of.image.version = PNG_IMAGE_VERSION;
  const auto check = [&](int done) {
    if (done == 0 || PNG_IMAGE_FAILED(of.image) || of.image.warning_or_error != 0) {
      throw RunError(fmt::format("{}: is no PNG that can be read: {}", name, of.image.message));
    }
  };
  check(png_image_begin_read_from_memory(&of.image, file.data(), file.size()));
  check_size(of.image.height, of.image.width, file.size(), name);
  of.image.format = PNG_FORMAT_RGB;
  DecodedPicture picture{static_cast<int>(of.image.height), static_cast<int>(of.image.width), {}};
  picture.pixels.resize(PNG_IMAGE_SIZE(of.image));
  const png_color black{0, 0, 0};
  check(png_image_finish_read(&of.image, &black, picture.pixels.data(), 0, nullptr));
  return picture;
}

// For each of `out` places from `first` on, of `scaled` in all: what it takes from `size` places in a row, as
// the first of them and weights that add up to 1.
struct SourceShare {
  std::ptrdiff_t first;
  std::vector<double> weights;
};
std::vector<SourceShare> shares_of(int size, int scaled, int first, int out) {
  const double ratio = static_cast<double>(size) / scaled, reach = std::max(ratio, 1.0);
  std::vector<SourceShare> all;
  for (int i = first; i < first + out; ++i) {
    const double middle = (i + 0.5) * ratio;
    const auto low = static_cast<int>(std::max(0.0, std::floor(middle - reach)));
    const auto high = static_cast<int>(std::min<double>(size, std::ceil(middle + reach)));
    SourceShare share{low, {}};
    double sum = 0;
    for (int at = low; at < high; ++at) {
      share.weights.push_back(std::max(0.0, 1 - std::abs(at + 0.5 - middle) / reach));
      sum += share.weights.back();
    }
    for (double& w : share.weights) w /= sum;
    all.push_back(std::move(share));
  }
  return all;
}

}  // namespace

DecodedPicture decode_picture(std::span<const std::uint8_t> file, const std::string& name) {
  constexpr std::uint8_t kJpeg[] = {0xFF, 0xD8, 0xFF}, kPng[] = {0x89, 'P', 'N', 'G'};
  const auto begins_with = [&](std::span<const std::uint8_t> magic) {
    return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
  };
  if (begins_with(kJpeg)) return decode_jpeg(file, name);
  if (begins_with(kPng)) return decode_png(file, name);
  throw RunError(fmt::format("{}: is neither a JPEG nor a PNG", name));
}

std::vector<std::uint8_t> scaled_square(const DecodedPicture& p, int scale_to, int side) {
  const double factor = static_cast<double>(scale_to) / std::min(p.height, p.width);
  const auto scaled = [&](int size) { return std::max(side, static_cast<int>(std::lround(size * factor))); };
  const int height = scaled(p.height), width = scaled(p.width);
  const std::vector<SourceShare> across = shares_of(p.width, width, (width - side) / 2, side);
  const std::vector<SourceShare> down = shares_of(p.height, height, (height - side) / 2, side);
  const std::ptrdiff_t first = down.front().first;
  const std::ptrdiff_t lines = down.back().first + std::ssize(down.back().weights) - first;
  std::vector<double> narrow(static_cast<std::size_t>(lines * side * 3));
  for (std::ptrdiff_t y = 0, to = 0; y < lines; ++y) {
    const std::uint8_t* row = p.pixels.data() + (first + y) * p.width * 3;
    for (const SourceShare& share : across) {
      for (int c = 0; c < 3; ++c, ++to) {
        const std::uint8_t* from = row + 3 * share.first + c;
        for (std::size_t i = 0; i < share.weights.size(); ++i) {
          narrow[static_cast<std::size_t>(to)] += share.weights[i] * from[3 * i];
        }
      }
    }
  }
  std::vector<std::uint8_t> out;
  for (const SourceShare& share : down) {
    for (std::ptrdiff_t i = 0; i < std::ptrdiff_t{3} * side; ++i) {
      double sum = 0;
      for (std::ptrdiff_t k = 0; k < std::ssize(share.weights); ++k) {
        sum += share.weights[static_cast<std::size_t>(k)] *
               narrow[static_cast<std::size_t>((share.first - first + k) * side * 3 + i)];
      }
      out.push_back(static_cast<std::uint8_t>(std::clamp(std::lround(sum), 0L, 255L)));
    }
  }
  return out;
}

}  // namespace lpmm
