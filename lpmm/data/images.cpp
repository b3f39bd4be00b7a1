#include "lpmm/data/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernels/noise.h"
#include "lpmm/base/error.h"
#include "lpmm/data/glyphs.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr int kSide = kImageSide;
constexpr int kPlane = kSide * kSide;
constexpr int kRow = kSide * 3;
constexpr int kImage = kPlane * 3;
constexpr int kPad = 4;

constexpr const char* kCifarFolder = "cifar-10-batches-bin";
constexpr std::int64_t kCifarImages = 10000;  // a file
static_assert(kCifarTrainImages == 5 * kCifarImages && kCifarTestImages == kCifarImages);
constexpr std::int64_t kCifarRecord = 1 + kImage;
constexpr const char* kCifarAdvice =
    "`lpmm data get cifar10` downloads it (cifar-10-binary.tar.gz) into the folder that LPMM_DATA names, "
    "else "
    "into ~/.cache/lpmm; or train on the built-in set with --set data.set=drawn.";

// Appends the 10,000 records of one file.
void append_cifar_file(const fs::path& path, ImageSet& set) {
  const std::int64_t expected = kCifarImages * kCifarRecord;
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) {
    throw RunError(fmt::format("{}: {}; expected a CIFAR-10 file of {} bytes. {}", path.string(),
                               error.message(), expected, kCifarAdvice));
  }
  if (size != static_cast<std::uintmax_t>(expected)) {
    throw RunError(fmt::format(
        "{}: {} bytes, expected {} (10,000 records of 3,073 bytes). {} {}", path.string(), size, expected,
        size == 0 ? "The file is empty." : "It is truncated or not a CIFAR-10 file.", kCifarAdvice));
  }
  constexpr std::int64_t kChunk = 100;  // records read at once
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(kChunk * kCifarRecord));
  std::ifstream file(path, std::ios::binary);
  set.pixels.reserve(static_cast<std::size_t>(set.count + kCifarImages) * kImage);
  set.labels.reserve(static_cast<std::size_t>(set.count + kCifarImages));
  for (std::int64_t first = 0; first < kCifarImages; first += kChunk) {
    if (!file.read(reinterpret_cast<char*>(bytes.data()), kChunk * kCifarRecord)) {
      throw RunError(fmt::format("{}: cannot be read: {}. Check its permissions and the disk.", path.string(),
                                 std::strerror(errno)));
    }
    append_cifar_records(bytes, path.string(), first, set);
  }
}

// Factor and offset of every value of a row, so that one plain loop normalises it.
struct Normaliser {
  std::vector<float> factor, offset;
  explicit Normaliser(const ImageData& data, const ImageSet& set) {
    for (std::int64_t i = 0; i < set.row(); ++i) {
      const auto channel = static_cast<std::size_t>(i % set.channels);
      factor.push_back(1.0F / data.deviation[channel]);
      offset.push_back(-data.mean[channel] * factor.back());
    }
  }
  void row(const std::uint8_t* source, float* out) const {
    const std::size_t count = factor.size();
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(source[i]) * factor[i] + offset[i];
  }
  void rows(const std::uint8_t* source, std::int64_t count, float* out) const {
    const std::ptrdiff_t step = std::ssize(factor);
    for (std::int64_t y = 0; y < count; ++y) row(source + y * step, out + y * step);
  }
};

// The window at (dx, dy) of an image padded by 4 on each side; the padding is 0 after normalisation, as in
// He et al. 2016.
class Augmenter {
 public:
  Augmenter(const Normaliser& normaliser, const ImageSet& set)
      : normaliser_(normaliser),
        set_(set),
        mirrored_(static_cast<std::size_t>(set.row())),
        wide_(static_cast<std::size_t>(set.row() + 2 * kPad * set.channels)) {}
  void window(const std::uint8_t* image, int dx, int dy, bool flip, float* out) {
    const std::int64_t size = set_.row();
    for (int y = 0; y < set_.height; ++y, out += size) {
      const int from = y + dy - kPad;
      if (from < 0 || from >= set_.height) {
        std::fill_n(out, size, 0.0F);
        continue;
      }
      const std::uint8_t* row = image + from * size;
      if (flip) row = mirror(row);
      normaliser_.row(row, wide_.data() + std::ptrdiff_t{kPad} * set_.channels);
      std::copy_n(wide_.data() + std::ptrdiff_t{dx} * set_.channels, size, out);
    }
  }

 private:
  const std::uint8_t* mirror(const std::uint8_t* row) {
    const std::ptrdiff_t n = set_.channels;
    for (std::ptrdiff_t x = 0; x < set_.width; ++x) {
      std::copy_n(row + n * (set_.width - 1 - x), n, mirrored_.data() + n * x);
    }
    return mirrored_.data();
  }
  const Normaliser& normaliser_;
  const ImageSet& set_;
  std::vector<std::uint8_t> mirrored_;
  std::vector<float> wide_;
};

void resize_batch(Batch& batch, const ImageSet& set, std::int64_t count) {
  batch.count = count;
  batch.step_labels = 0;
  batch.images.resize(static_cast<std::size_t>(count * set.values()));
  batch.labels.resize(static_cast<std::size_t>(count));
}

// Every pixel so many times in both directions.
std::vector<std::uint8_t> enlarged(const std::vector<std::uint8_t>& small, std::int64_t count, int times) {
  std::vector<std::uint8_t> large;
  large.reserve(small.size() * static_cast<std::size_t>(times * times));
  for (std::int64_t line = 0; line < count * kSide; ++line) {
    const auto start = std::ssize(large);
    for (int x = 0; x < kSide; ++x) {
      const auto* pixel = small.data() + line * kRow + std::ptrdiff_t{3} * x;
      for (int i = 0; i < times; ++i) large.insert(large.end(), pixel, pixel + 3);
    }
    const std::vector<std::uint8_t> row(large.begin() + start, large.end());
    for (int i = 1; i < times; ++i) large.insert(large.end(), row.begin(), row.end());
  }
  return large;
}

void measure_pixels(ImageData& data) {
  PixelSums sums(data.train.channels);
  sums.add(data.train.pixels);
  sums.write(data.mean, data.deviation);
}

}  // namespace

void append_cifar_records(std::span<const std::uint8_t> records, const std::string& file, std::int64_t first,
                          ImageSet& set) {
  if (std::ssize(records) % kCifarRecord != 0) {
    throw RunError(fmt::format("{}: record {} is cut off. {}", file,
                               first + std::ssize(records) / kCifarRecord, kCifarAdvice));
  }
  const std::int64_t count = std::ssize(records) / kCifarRecord;
  set.pixels.resize(static_cast<std::size_t>(set.count + count) * kImage);
  set.labels.resize(static_cast<std::size_t>(set.count + count));
  for (std::int64_t i = 0; i < count; ++i, ++set.count) {
    const std::uint8_t* record = records.data() + i * kCifarRecord;
    if (record[0] >= set.classes) {
      throw RunError(fmt::format("{}: record {} has label {}, expected 0 to {}. {}", file, first + i,
                                 record[0], set.classes - 1, kCifarAdvice));
    }
    set.labels[static_cast<std::size_t>(set.count)] = record[0];
    std::uint8_t* pixel = set.pixels.data() + set.count * kImage;
    for (int p = 0; p < kPlane; ++p) {
      for (int c = 0; c < 3; ++c) pixel[3 * p + c] = record[1 + c * kPlane + p];
    }
  }
}

void PixelSums::add(std::span<const std::uint8_t> pixels) {
  for (std::size_t i = 0; i < pixels.size(); i += static_cast<std::size_t>(channels_)) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels_); ++c) {
      const std::uint32_t p = pixels[i + c];
      sum_[c] += p;
      squares_[c] += p * p;
    }
  }
  count_ += pixels.size() / static_cast<std::size_t>(channels_);
}

void PixelSums::write(float* mean, float* deviation) const {
  const double n = std::max(1.0, static_cast<double>(count_));
  for (int c = 0; c < channels_; ++c) {
    const double average = static_cast<double>(sum_[c]) / n;
    const double variance = static_cast<double>(squares_[c]) / n - average * average;
    mean[c] = static_cast<float>(average);
    // A constant channel carries nothing; 1 keeps it finite.
    deviation[c] = variance > 1e-6 ? static_cast<float>(std::sqrt(variance)) : 1.0F;
  }
}

std::string data_folder() {
  if (const char* given = std::getenv("LPMM_DATA"); given != nullptr && *given != '\0') {
    std::string folder = given;
    if (folder.find_first_of("\r\n") != std::string::npos)
      throw UsageError("LPMM_DATA has a line break in it");
    if (folder.starts_with("~")) {
      throw UsageError(fmt::format(
          "LPMM_DATA is {}: shells put a home in place of ~ only outside of quotes; write {}", folder,
          folder == "~" || folder.starts_with("~/") ? "$HOME" + folder.substr(1)
                                                    : "the whole path, or ./" + folder));
    }
    return folder;
  }
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : (fs::path(home) / ".cache" / "lpmm").string();
}

std::string find_data(const std::string& path) {
  std::error_code error;
  if (path.empty() || fs::exists(path, error)) return path;
  if (fs::path(path).is_relative() && !data_folder().empty()) {
    const fs::path below = fs::path(data_folder()) / path;
    if (fs::exists(below, error)) return below.string();
  }
  if (path.starts_with("~/")) {
    throw UsageError(
        fmt::format("{}: shells put your home in place of ~ only where a word begins; write $HOME{}", path,
                    path.substr(1)));
  }
  return "";
}

bool has_cifar10(const std::string& folder) {
  std::error_code error;
  return !folder.empty() && fs::is_directory(fs::path(folder) / kCifarFolder, error);
}

ImageData load_cifar10(const std::string& folder) {
  if (folder.empty()) {
    throw RunError(fmt::format("no data folder: neither LPMM_DATA nor HOME is set. {}", kCifarAdvice));
  }
  return load_cifar10_files((fs::path(folder) / kCifarFolder).string());
}

ImageData load_cifar10_files(const std::string& folder) {
  const fs::path base = folder;
  ImageData data;
  data.train.name = data.test.name = "cifar10";
  // Room for all files at once: growing would hold the images twice.
  data.train.pixels.reserve(static_cast<std::size_t>(5 * kCifarImages) * kImage);
  for (int i = 1; i <= 5; ++i) append_cifar_file(base / fmt::format("data_batch_{}.bin", i), data.train);
  append_cifar_file(base / "test_batch.bin", data.test);
  measure_pixels(data);
  return data;
}

void check_drawn(std::int64_t train_count, std::int64_t test_count, int side) {
  constexpr std::int64_t kMost = 10'000'000;
  if (train_count < 1 || test_count < 1 || train_count > kMost || test_count > kMost) {
    throw UsageError(fmt::format("a drawn set of {} training and {} test images: each must be 1 to {}",
                                 train_count, test_count, kMost));
  }
  if (side < kSide || side > kMostImageSide || side % kSide != 0) {
    throw UsageError(fmt::format("drawn images of {0} x {0} pixels: the side is a multiple of {1}, up to {2}",
                                 side, kSide, kMostImageSide));
  }
}

ImageData draw_images(std::int64_t train_count, std::int64_t test_count, std::uint64_t seed, Pool& pool,
                      int side) {
  check_drawn(train_count, test_count, side);
  ImageData data;
  constexpr std::int64_t kChunk = 64;
  std::uint32_t split = 0;
  for (ImageSet* set : {&data.train, &data.test}) {
    set->name = "drawn";
    set->count = split == 0 ? train_count : test_count;
    set->pixels.resize(static_cast<std::size_t>(set->count) * kImage);
    set->labels.resize(static_cast<std::size_t>(set->count));
    pool.for_each((set->count + kChunk - 1) / kChunk, [&](std::int64_t chunk, int) {
      const std::int64_t end = std::min(set->count, (chunk + 1) * kChunk);
      for (std::int64_t i = chunk * kChunk; i < end; ++i) {
        const int label = static_cast<int>(i % set->classes);
        set->labels[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(label);
        draw_glyph(seed, split, static_cast<std::uint32_t>(i), label,
                   set->pixels.data() + static_cast<std::size_t>(i) * kImage);
      }
    });
    if (side > kSide) set->pixels = enlarged(set->pixels, set->count, side / kSide);
    set->height = set->width = side;
    ++split;
  }
  measure_pixels(data);
  return data;
}

void ImageData::make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                           Batch& out) const {
  const std::int64_t count = plan.examples();
  const std::int64_t first = index * plan.batch + microbatch * count;
  const Normaliser normaliser(*this, train);
  Augmenter augmenter(normaliser, train);
  const Noise noise{plan.seed, 0, static_cast<std::uint32_t>(epoch),
                    static_cast<std::uint32_t>(Stream::kAugment)};
  resize_batch(out, train, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t image =
        drawn_order(plan.seed, epoch, train.count, std::min(first + i, train.count - 1));
    const std::uint8_t* pixels = train.image(image);
    float* to = out.images.data() + i * train.values();
    out.labels[static_cast<std::size_t>(i)] = train.labels[static_cast<std::size_t>(image)];
    if (!plan.augment) {
      normaliser.rows(pixels, train.height, to);
      continue;
    }
    const PhiloxWords draws = noise_words(noise, static_cast<std::uint32_t>(first + i));
    const auto offset = [&](int w) {
      return static_cast<int>(std::uint64_t{draws.x[w]} * (2 * kPad + 1) >> 32);
    };
    augmenter.window(pixels, offset(0), offset(1), (draws.x[2] >> 31) != 0, to);
  }
  out.step_labels = plan.step_labels(train.count, index);
  out.labels.resize(static_cast<std::size_t>(plan.counted(train.count, index, microbatch)));
}

void ImageData::make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const {
  const Normaliser normaliser(*this, test);
  resize_batch(out, test, count);
  normaliser.rows(test.image(first), count * test.height, out.images.data());
  for (std::int64_t i = 0; i < count; ++i) {
    out.labels[static_cast<std::size_t>(i)] = test.labels[static_cast<std::size_t>(first + i)];
  }
}

}  // namespace lpmm
