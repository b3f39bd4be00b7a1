#include "experiments/plots/palette.h"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

constexpr std::size_t kMost = 256;

using Colour = std::uint32_t;  // 0xRRGGBB

int distance(Colour a, Colour b) {  // in the channel that differs most
  int most = 0;
  for (const int shift : {0, 8, 16}) {
    most =
        std::max(most, std::abs(static_cast<int>(a >> shift & 0xFF) - static_cast<int>(b >> shift & 0xFF)));
  }
  return most;
}

std::size_t nearest(const std::vector<Colour>& palette, Colour colour) {
  const auto closer = [&](Colour a, Colour b) { return distance(a, colour) < distance(b, colour); };
  return static_cast<std::size_t>(std::min_element(palette.begin(), palette.end(), closer) - palette.begin());
}

// The most frequent colours that lie apart from each other, as far as needed to have few.
std::vector<Colour> palette_of(const std::map<Colour, std::int64_t>& counts) {
  std::vector<std::pair<Colour, std::int64_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (int apart = 0;; apart += 4) {
    std::vector<Colour> palette;
    for (const auto& [colour, count] : order) {
      if (!palette.empty() && distance(palette[nearest(palette, colour)], colour) <= apart && apart > 0)
        continue;
      palette.push_back(colour);
      if (palette.size() > kMost) break;
    }
    if (palette.size() <= kMost) return palette;
  }
}

[[noreturn]] void fail(png_image& image) {
  const std::string why = image.message;
  png_image_free(&image);
  throw RunError(fmt::format("the picture is no PNG: {}", why));
}

}  // namespace

std::string palette_png(const std::string& png) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, png.data(), png.size()) == 0) fail(image);
  image.format = PNG_FORMAT_RGB;
  std::vector<png_byte> pixels(PNG_IMAGE_SIZE(image));
  const png_color white = {255, 255, 255};
  if (png_image_finish_read(&image, &white, pixels.data(), 0, nullptr) == 0) fail(image);
  std::map<Colour, std::int64_t> counts;
  const auto colour_at = [&](std::size_t i) {
    return static_cast<Colour>(pixels[3 * i] << 16 | pixels[3 * i + 1] << 8 | pixels[3 * i + 2]);
  };
  const std::size_t size = pixels.size() / 3;
  for (std::size_t i = 0; i < size; ++i) ++counts[colour_at(i)];
  const std::vector<Colour> palette = palette_of(counts);
  std::map<Colour, png_byte> places;
  for (const auto& [colour, count] : counts) places[colour] = static_cast<png_byte>(nearest(palette, colour));
  std::vector<png_byte> indices(size), colours;
  for (std::size_t i = 0; i < size; ++i) indices[i] = places[colour_at(i)];
  for (const Colour colour : palette) {
    for (const int shift : {16, 8, 0}) colours.push_back(static_cast<png_byte>(colour >> shift & 0xFF));
  }
  image.format = PNG_FORMAT_RGB_COLORMAP;
  image.colormap_entries = static_cast<png_uint_32>(palette.size());
  png_alloc_size_t bytes = 0;
  if (png_image_write_to_memory(&image, nullptr, &bytes, 0, indices.data(), 0, colours.data()) == 0)
    fail(image);
  std::string out(bytes, '\0');
  if (png_image_write_to_memory(&image, out.data(), &bytes, 0, indices.data(), 0, colours.data()) == 0)
    fail(image);
  out.resize(bytes);
  return out;
}

}  // namespace lpmm
