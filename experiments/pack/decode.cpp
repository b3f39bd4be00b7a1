#include "experiments/pack/decode.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <numbers>
#include <numeric>

#include <jpeglib.h>

#include "experiments/pack/formats.h"
#include "lpmm/base/error.h"

namespace lpmm {
namespace {

constexpr std::int64_t kMostSide = 32767, kMostPixels = std::int64_t{1} << 28;
// More than a byte of a PNG makes; of all scans of a JPEG; of one scan, where 64 pixels take a bit at least.
constexpr std::int64_t kMostOfByte = 10000, kMostOfJpegByte = 1000;
constexpr int kMostScans = 100;

bool is_too_large(std::int64_t height, std::int64_t width) {
  return height > kMostSide || width > kMostSide || height * width > kMostPixels;
}
bool is_cut_off(std::int64_t pixels, std::size_t bytes, std::int64_t most_of_byte) {
  return pixels / most_of_byte > static_cast<std::int64_t>(bytes);
}

void check_size(std::int64_t height, std::int64_t width, std::size_t bytes, const std::string& name) {
  if (is_cut_off(height * width, bytes, kMostOfByte)) {
    throw RunError(fmt::format("{}: {} bytes cannot hold its {} x {} pixels", name, bytes, width, height));
  }
  if (height >= 1 && width >= 1 && !is_too_large(height, width)) return;
  throw RunError(fmt::format("{}: {} x {} pixels; sides go to {}, pixels to {}", name, width, height,
                             kMostSide, kMostPixels));
}

// ---- JPEG ------------------------------------------------------------------------------------------------
// The library calls this in place of exit(); nothing that has a destructor may be left behind by the jump.
struct JpegErrors {
  jpeg_error_mgr manager;
  jpeg_progress_mgr progress;
  std::jmp_buf back;
  std::size_t bytes;
  char text[JMSG_LENGTH_MAX];
};
JpegErrors& errors_of(j_common_ptr info) {
  return *reinterpret_cast<JpegErrors*>(info->err);
}
void fail_jpeg(j_common_ptr info) {
  JpegErrors& errors = errors_of(info);
  info->err->format_message(info, errors.text);
  std::longjmp(errors.back, 1);
}
// The first warning ends it: what follows would be made up.
void fail_at_warning(j_common_ptr info, int level) {
  if (level < 0) fail_jpeg(info);  // no warning, but a trace
}
// A scan of some bytes may change all pixels, and a file may hold any number of scans.
void limit_scans(j_common_ptr info) {
  const auto& image = *reinterpret_cast<j_decompress_ptr>(info);
  JpegErrors& errors = errors_of(info);
  const std::int64_t pixels = std::int64_t{image.image_height} * image.image_width;
  const int scans = image.input_scan_number;
  if (scans <= kMostScans && !is_cut_off(pixels * scans, errors.bytes, kMostOfByte)) return;
  std::strncpy(errors.text, "too many scans, save it again", sizeof errors.text - 1);
  std::longjmp(errors.back, 1);
}

// False, with errors.text, where the library gave up. Memory of `picture` is the caller's, made by `grow`.
bool read_jpeg(std::span<const std::uint8_t> file, DecodedPicture& picture, JpegErrors& errors,
               void (*grow)(DecodedPicture&, const jpeg_decompress_struct&, JpegErrors&)) {
  jpeg_decompress_struct info;
  std::memset(&info, 0, sizeof info);
  info.err = jpeg_std_error(&errors.manager);
  errors.bytes = file.size();
  errors.manager.error_exit = fail_jpeg;
  errors.manager.emit_message = fail_at_warning;
  errors.progress.progress_monitor = limit_scans;
  if (setjmp(errors.back) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  info.progress = &errors.progress;
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
  jpeg_destroy_decompress(&info);
  return true;
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
    const bool is_cut = is_cut_off(std::int64_t{p.height} * p.width, e.bytes, kMostOfJpegByte);
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

// ---- PNG -------------------------------------------------------------------------------------------------
struct PngReader {
  explicit PngReader(std::span<const std::uint8_t> file) : rest(file) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, [](png_structp, png_const_charp) {});
    if (png != nullptr) info = png_create_info_struct(png);
    if (info == nullptr) throw std::bad_alloc();
  }
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // Jumps back to the reader instead of calling exit(), as for JPEGs.
  [[noreturn]] static void fail(png_structp png, png_const_charp why) {
    auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(reader.text, why, sizeof reader.text - 1);
    std::longjmp(reader.back, 1);
  }
  static void read(png_structp png, png_bytep to, std::size_t bytes) {
    auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (bytes > reader.rest.size()) png_error(png, "it is cut off");
    std::memcpy(to, reader.rest.data(), bytes);
    reader.rest = reader.rest.subspan(bytes);
  }

  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::uint8_t> rest;
  std::jmp_buf back = {};
  char text[128] = {};
};

bool read_png_header(PngReader& reader) {
  if (setjmp(reader.back) != 0) return false;
  png_set_read_fn(reader.png, &reader, PngReader::read);
  // Colours are taken as they are stored: no gamma, no profile.
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(reader.png, reader.info);
  return true;
}

// Into rows of 3 bytes a pixel, or of two where grey has 16 bits.
bool read_png_rows(PngReader& reader, DecodedPicture& picture, bool is_wide_grey) {
  if (setjmp(reader.back) != 0) return false;
  if (!is_wide_grey) {
    png_set_expand(reader.png);
    png_set_strip_16(reader.png);
    png_set_gray_to_rgb(reader.png);
  }
  png_set_strip_alpha(reader.png);
  const int passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  const std::size_t row = std::size_t{3} * static_cast<std::size_t>(picture.width);
  if (png_get_rowbytes(reader.png, reader.info) > row) png_error(reader.png, "its rows are too long");
  for (int pass = 0; pass < passes; ++pass) {
    for (std::size_t y = 0; y < static_cast<std::size_t>(picture.height); ++y) {
      png_read_row(reader.png, picture.pixels.data() + y * row, nullptr);
    }
  }
  png_read_end(reader.png, nullptr);
  return true;
}

// Two bytes a pixel become three, from the last on; what is above 255 becomes white.
void narrow_grey(DecodedPicture& picture) {
  const std::ptrdiff_t width = picture.width;
  for (std::ptrdiff_t y = 0; y < picture.height; ++y) {
    std::uint8_t* row = picture.pixels.data() + y * 3 * width;
    for (std::ptrdiff_t x = width - 1; x >= 0; --x) {
      const std::uint8_t grey = row[2 * x] > 0 ? 255 : row[2 * x + 1];
      std::fill_n(row + 3 * x, 3, grey);
    }
  }
}

DecodedPicture decode_png(std::span<const std::uint8_t> file, const std::string& name) {
  PngReader reader(file);
  const auto check = [&](bool done) {
    if (!done) throw RunError(fmt::format("{}: is no PNG that can be read: {}", name, reader.text));
  };
  check(read_png_header(reader));
  const std::int64_t height = png_get_image_height(reader.png, reader.info);
  const std::int64_t width = png_get_image_width(reader.png, reader.info);
  check_size(height, width, file.size(), name);
  DecodedPicture picture{static_cast<int>(height), static_cast<int>(width), {}};
  picture.pixels.resize(static_cast<std::size_t>(3 * height * width));
  const bool is_wide_grey = png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_GRAY &&
                            png_get_bit_depth(reader.png, reader.info) == 16;
  check(read_png_rows(reader, picture, is_wide_grey));
  if (is_wide_grey) narrow_grey(picture);
  return picture;
}

// ---- sizes -----------------------------------------------------------------------------------------------
// Keys 1981, of a = -1/2.
double cubic(double x) {
  constexpr double kA = -0.5;
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

// Weights of a source place that lies `x` scaled places from the middle, as Pillow has them, and how far from
// it the last one lies.
struct Filter {
  double reach;
  double (*weight)(double x);
};
double over_angle(double x) {
  return x == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
}
double hamming(double x) {
  return std::abs(x) < 1 ? over_angle(x) * (0.54F + 0.46F * std::cos(std::numbers::pi * x)) : 0;
}
double lanczos(double x) {
  return x >= -3 && x < 3 ? over_angle(x) * over_angle(x / 3) : 0;
}
Filter filter_of(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kBilinear:
      return {1, [](double x) { return std::max(0.0, 1 - std::abs(x)); }};
    case Interpolation::kBicubic:
      return {2, [](double x) { return cubic(std::abs(x)); }};
    case Interpolation::kLanczos:
      return {3, lanczos};
    case Interpolation::kHamming:
      return {1, hamming};
    case Interpolation::kNearest:  // shares_of() takes one place
    case Interpolation::kBox:
      break;
  }
  return {0.5, [](double x) { return x > -0.5 && x <= 0.5 ? 1.0 : 0.0; }};
}

// The source places that one place of the result is made of: the first of them, and weights that add up to 1,
// in units of 2^-22. shares_of() returns one for each of `out` places from `first` on, of `scaled` in all.
constexpr int kWeightBits = 22;
struct SourceShare {
  std::ptrdiff_t first;
  std::vector<std::int32_t> weights;
};
std::vector<SourceShare> shares_of(int size, int scaled, int first, int out, Interpolation interpolation) {
  const Filter filter = filter_of(interpolation);
  const double ratio = static_cast<double>(size) / scaled, unit = std::max(ratio, 1.0),
               reach = filter.reach * unit;
  std::vector<SourceShare> all;
  std::vector<double> weights;
  for (int i = first; i < first + out; ++i) {
    const double middle = (i + 0.5) * ratio;
    if (interpolation == Interpolation::kNearest) {
      all.push_back({static_cast<std::ptrdiff_t>(middle), {1 << kWeightBits}});
      continue;
    }
    const int low = std::max(0, static_cast<int>(middle - reach + 0.5));
    const int high = std::min(size, static_cast<int>(middle + reach + 0.5));
    weights.clear();
    for (int at = low; at < high; ++at) weights.push_back(filter.weight((at - middle + 0.5) * (1 / unit)));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    SourceShare& share = all.emplace_back();
    share.first = low;
    for (const double w : weights)
      share.weights.push_back(static_cast<std::int32_t>(std::lround(w / sum * (1 << kWeightBits))));
  }
  return all;
}

// The values at `from`, `apart` bytes from one another, with these weights.
std::uint8_t mixed(const SourceShare& share, const std::uint8_t* from, std::ptrdiff_t apart) {
  std::int64_t sum = 1 << (kWeightBits - 1);
  for (const std::int32_t weight : share.weights) {
    sum += std::int64_t{weight} * *from;
    from += apart;
  }
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> kWeightBits, 0, 255));
}

int scaled_side(int size, int shorter, const PictureFrame& frame) {
  if (frame.squashes) return frame.scale_to;
  if (frame.edges != Edges::kRounded) return static_cast<int>(std::int64_t{frame.scale_to} * size / shorter);
  const double factor = static_cast<double>(frame.scale_to) / shorter;
  return std::max(frame.side, static_cast<int>(std::lround(size * factor)));
}

}  // namespace

DecodedPicture decode_picture(std::span<const std::uint8_t> file, const std::string& name) {
  const std::string_view format = picture_format(file);
  if (format == "JPEG") return decode_jpeg(file, name);
  if (format == "PNG") return decode_png(file, name);
  throw RunError(fmt::format("{}: {}", name,
                             format.empty() ? "is neither a JPEG nor a PNG" : conversion_advice(format)));
}

DecodedPicture turned(DecodedPicture p, int orientation) {
  if (orientation == 1) return p;
  const bool swaps = orientation >= 5,
             from_right = orientation % 4 == 3 || orientation == 2 || orientation == 8;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  DecodedPicture out{swaps ? p.width : p.height, swaps ? p.height : p.width, {}};
  out.pixels.reserve(p.pixels.size());
  for (std::ptrdiff_t y = 0; y < out.height; ++y) {
    for (std::ptrdiff_t x = 0; x < out.width; ++x) {
      const std::ptrdiff_t column = swaps ? y : x, line = swaps ? x : y;
      const std::ptrdiff_t at =
          (from_below ? p.height - 1 - line : line) * p.width + (from_right ? p.width - 1 - column : column);
      out.pixels.insert(out.pixels.end(), p.pixels.begin() + 3 * at, p.pixels.begin() + 3 * at + 3);
    }
  }
  return out;
}

std::vector<std::uint8_t> scaled_square(const DecodedPicture& p, const PictureFrame& frame) {
  const int side = frame.side;
  const auto shares = [&](int size) {
    const int scaled = scaled_side(size, std::min(p.height, p.width), frame);
    const double middle = (scaled - side) / 2.0;
    const double first = frame.edges == Edges::kTorchvision ? std::nearbyint(middle) : std::floor(middle);
    return shares_of(size, scaled, static_cast<int>(first), side, frame.interpolation);
  };
  const std::vector<SourceShare> across = shares(p.width), down = shares(p.height);
  const std::ptrdiff_t first = down.front().first, line = std::ptrdiff_t{3} * side;
  const std::ptrdiff_t lines = down.back().first + std::ssize(down.back().weights) - first;
  std::vector<std::uint8_t> narrow, out;
  for (std::ptrdiff_t y = first; y < first + lines; ++y) {
    for (const SourceShare& share : across) {
      for (int c = 0; c < 3; ++c)
        narrow.push_back(mixed(share, p.pixels.data() + 3 * (y * p.width + share.first) + c, 3));
    }
  }
  for (const SourceShare& share : down) {
    for (std::ptrdiff_t i = 0; i < line; ++i)
      out.push_back(mixed(share, narrow.data() + (share.first - first) * line + i, line));
  }
  return out;
}

}  // namespace lpmm
