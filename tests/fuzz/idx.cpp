// IDX files: of the training set two inputs, images and labels, which are those of the test set too.
#include "lpmm/data/idx.h"

#include <algorithm>

#include "tests/fuzz/input.h"

LPMM_FUZZ_TARGET(bytes) {
  static lpmm::fuzz::MemoryFile images, labels;
  static const std::string folder = [] {
    const std::string path = lpmm::fuzz::memory_folder();
    for (const char* split : {"train", "t10k"}) {
      lpmm::fuzz::place(path, std::string(split) + "-images-idx3-ubyte", images);
      lpmm::fuzz::place(path, std::string(split) + "-labels-idx1-ubyte", labels);
    }
    return path;
  }();
  // Headers hold zero bytes: the first 12 bytes are the labels'.
  const std::size_t cut = std::min<std::size_t>(12, bytes.size());
  labels.set(bytes.first(cut));
  images.set(bytes.subspan(cut));
  const lpmm::ImageData data = lpmm::load_idx(folder, "fuzz");
  lpmm::Batch batch;
  data.make_batch({1, 1, 1, true}, 0, 0, 0, batch);
}
