// Image files: a training and a test set of images of one size, made once from folders of pictures. Little-
// endian:
//   byte   0  "lpmmimg\n"
//   byte   8  u32 version, 1
//   byte  12  u32 height, width, channels, classes
//   byte  28  u32 bytes of the names
//   byte  32  u64 training images, test images
//   byte  48  f32 mean of each channel (3), deviation (3), of the training pixels, in units of 0..255
//   byte  72  u32 what the shorter side of a picture was scaled to before the middle was cut out, 0: the
//   height;
//             u32 sum of 1: pictures lie as they were stored, not turned as their Exif data say; 2 times
//             the interpolation; 16 times the edges; 64: squashed
//   byte  80  the names of the classes, a line each; zeros up to the next multiple of 64
//             u16 labels, of training and then of test images; zeros up to the next multiple of 64
//             pixels, NHWC, in the same order, to the end
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lpmm/data/images.h"

namespace lpmm {

// The ways to scale a picture as Pillow has them; all but kNearest antialiased. Files hold these numbers.
enum class Interpolation : std::uint8_t { kBilinear, kBicubic, kNearest, kLanczos, kBox, kHamming };
// Whose way it is to round the longer side of a scaled picture, and the place where its middle begins:
// torchvision and timm cut the side off and take the even one of two middles, transformers takes the first.
// lpmm rounded the side and took the first before it followed them.
enum class Edges : std::uint8_t { kRounded, kTorchvision, kTransformers };

// The way in which pictures become squares: the shorter side is scaled to `scale_to`, and side x side pixels
// in the middle stay.
struct PictureFrame {
  int side = 0, scale_to = 0;  // 0: nobody says it
  bool as_stored = false;      // pictures are not turned as their Exif data say
  Interpolation interpolation = Interpolation::kBilinear;
  Edges edges = Edges::kRounded;
  bool squashes = false;  // both sides are scaled to `scale_to`
  bool operator==(const PictureFrame&) const = default;
};

// The facts in the header of an image file.
struct ImageFileFacts {
  int height = 0, width = 0, channels = 0;
  std::vector<std::string> names;  // of classes
  std::int64_t train = 0, test = 0;
  PictureFrame frame;  // its side is the height
  float mean[kMostImageChannels] = {}, deviation[kMostImageChannels] = {};
  std::int64_t values() const { return std::int64_t{1} * height * width * channels; }
};

inline constexpr std::string_view kImageFileEnding = ".images";
bool is_image_file(const std::string& path);  // by its first bytes

// Checks the header against the length of the file. Throws RunError naming the file and what was expected.
ImageFileFacts read_image_facts(const std::string& path);
// Tells files of the same sizes apart: a CRC-32 of the header, whose means and deviations are of all training
// pixels, of the labels, and of up to 64 MB of pixels that are spread over the file.
std::uint32_t image_file_checksum(const std::string& path);
// Its images, mapped into memory: the file may be replaced meanwhile, but not cut. Labels are checked.
ImageData open_image_file(const std::string& path);
// A new file, or one that is replaced as a whole; nothing is left where something is thrown. `next` gives the
// pixels of the next image, training ones first; `labels` are in that order. Mean and deviation are measured
// here, those of `facts` are not read.
void write_image_file(const std::string& path, const ImageFileFacts& facts,
                      std::span<const std::uint16_t> labels,
                      const std::function<std::span<const std::uint8_t>()>& next);

}  // namespace lpmm
