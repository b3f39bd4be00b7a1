// Image data sets and batches. A batch is a pure integer function of (seed, epoch, index, microbatch), so
// prefetching owns no state and a resumed run sees the same images.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/pool.h"

namespace lpmm {

// A labelled set of `count` images of height x width x 3 bytes, NHWC.
struct ImageSet {
  std::string name;
  int height = 32, width = 32, classes = 10;
  std::int64_t count = 0;
  std::vector<std::uint8_t> pixels;  // (count, height, width, 3)
  std::vector<std::uint8_t> labels;  // (count)
};

struct ImageData {
  ImageSet train, test;
  // Per-channel mean and standard deviation of the training pixels, in units of 0..255.
  float mean[3] = {}, deviation[3] = {};
};

// The folder of data sets: LPMM_DATA where it is set, else ~/.cache/lpmm where that is a folder, else empty.
std::string data_folder();
// cifar-10-batches-bin/{data_batch_1..5,test_batch}.bin below `folder`. Throws RunError naming the file, what
// was expected and what to do: missing, wrong size, label out of range.
ImageData load_cifar10(const std::string& folder);
bool has_cifar10(const std::string& folder);
// The drawn set: glyphs of ten classes with random affine warps, colour, clutter and noise; the same bytes on
// every machine for the same seed. Image i does not depend on the sizes of the sets. A linear model gets 45 %
// of the test set right, ResNet-8 95 % after six epochs of 10,000 images.
ImageData draw_images(std::int64_t train_count, std::int64_t test_count, std::uint64_t seed, Pool& pool);

// One microbatch, ready for the network: normalised fp32 NHWC images and their labels, or sequences of tokens
// and the token after each.
struct Batch {
  std::int64_t count = 0;            // images or sequences
  std::vector<float> images;         // (count, height, width, 3)
  std::vector<std::int32_t> tokens;  // (count, length)
  std::vector<std::int32_t> labels;  // (count) or (count, length)
};

struct BatchPlan {
  std::uint64_t seed = 0;
  int batch = 0;         // images a step
  int microbatches = 1;  // divides batch
  bool augment = false;  // pad 4, crop, flip
};

// Steps in an epoch: full batches only. Throws RunError where the set is smaller than a batch.
std::int64_t steps_per_epoch(const ImageSet& set, int batch);
// Microbatch `microbatch` of step `index` of `epoch`, from the epoch's own permutation.
void make_batch(const ImageData& data, const BatchPlan& plan, std::int64_t epoch, std::int64_t index,
                int microbatch, Batch& out);
// Test images [first, first+count), in order, not augmented.
void make_test_batch(const ImageData& data, std::int64_t first, std::int64_t count, Batch& out);

// Prepares the next microbatches on a thread of its own. next() returns them in order from (epoch, index).
class Prefetcher {
 public:
  Prefetcher(const ImageData& data, BatchPlan plan, std::int64_t epoch, std::int64_t index);
  ~Prefetcher();
  const Batch& next();  // valid until the following call; rethrows what the thread threw

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lpmm
