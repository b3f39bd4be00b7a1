// Image data sets.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/threads/pool.h"
#include "lpmm/data/batch.h"

namespace lpmm {

inline constexpr int kImageSide = 32, kImageChannels = 3, kImageClasses = 10;  // of CIFAR-10 and drawn sets
inline constexpr std::int64_t kCifarTrainImages = 50'000, kCifarTestImages = 10'000;
inline constexpr int kMostImageSide = 4096, kMostImageChannels = 3, kMostImageClasses = 1 << 16;

// A labelled set of `count` images of bytes, NHWC. Pixels lie in memory of their own or in a mapped file.
struct ImageSet {
  std::string name;
  int height = kImageSide, width = kImageSide, channels = kImageChannels, classes = kImageClasses;
  std::int64_t count = 0;
  std::vector<std::uint8_t> pixels;            // (count, height, width, channels)
  std::vector<std::uint16_t> labels;           // (count)
  std::shared_ptr<const std::uint8_t> mapped;  // in place of pixels

  std::int64_t row() const { return std::int64_t{1} * width * channels; }  // bytes of a line
  std::int64_t values() const { return height * row(); }                   // of an image
  const std::uint8_t* image(std::int64_t i) const {
    return (mapped != nullptr ? mapped.get() : pixels.data()) + i * values();
  }
};

// Normalised; augmented ones are padded by 4, cropped and flipped.
struct ImageData : DataSource {
  ImageSet train, test;
  // Per-channel mean and standard deviation of the training pixels, in units of 0..255.
  float mean[kMostImageChannels] = {}, deviation[kMostImageChannels] = {};
  std::vector<std::string> class_names;  // in their order, printable; empty: the files name none

  const std::string& name() const override { return train.name; }
  const char* unit() const override { return "images"; }
  std::int64_t train_examples() const override { return train.count; }
  std::int64_t test_examples() const override { return test.count; }
  std::int64_t labels() const override { return 1; }
  void make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                  Batch& out) const override;
  void make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const override;
};

// The folder of data sets, there or not: LPMM_DATA where it is set, else ~/.cache/lpmm; empty without HOME.
// Throws UsageError where LPMM_DATA begins with ~ or has a line break.
std::string data_folder();
// A path as it is, else below data_folder(); empty where it is in neither place.
std::string find_data(const std::string& path);
// cifar-10-batches-bin/{data_batch_1..5,test_batch}.bin below `folder`. Throws RunError naming the file, what
// was expected and what to do: missing, wrong size, label out of range.
ImageData load_cifar10(const std::string& folder);
// The same of the folder that holds the files themselves.
ImageData load_cifar10_files(const std::string& folder);
// Appends records of such a file to `set`: a label byte, then 32x32 bytes of red, green and blue each.
// `first` is the place of the first one in `file`, for messages. Throws RunError for a label out of range or
// half a record.
void append_cifar_records(std::span<const std::uint8_t> records, const std::string& file, std::int64_t first,
                          ImageSet& set);
bool has_cifar10(const std::string& folder);
// The drawn set: glyphs of ten classes with random affine warps, colour, clutter and noise; the same bytes on
// every machine for the same seed. Image i does not depend on the sizes of the sets. A linear model gets 51 %
// of the test set right at best (experiments/results/linear), ResNet-8 95 % after six epochs of 10,000
// images. Larger ones, of a side that is a multiple of 32, have every pixel several times.
ImageData draw_images(std::int64_t train_count, std::int64_t test_count, std::uint64_t seed, Pool& pool,
                      int side = kImageSide);
// Throws UsageError where no such set can be drawn.
void check_drawn(std::int64_t train_count, std::int64_t test_count, int side);

// Sums of training pixels, from which mean and deviation come: integers, so that their order does not matter.
class PixelSums {
 public:
  explicit PixelSums(int channels) : channels_(channels) {}
  void add(std::span<const std::uint8_t> pixels);   // whole pixels
  void write(float* mean, float* deviation) const;  // of each channel; 1 for that of a constant one

 private:
  int channels_;
  std::uint64_t count_ = 0, sum_[kMostImageChannels] = {}, squares_[kMostImageChannels] = {};
};

}  // namespace lpmm
