#include "lpmm/data/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "lpmm/base/error.h"
#include "lpmm/files/gz_file.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint32_t kImagesMagic = 0x803, kLabelsMagic = 0x801;  // unsigned bytes, dimensions
constexpr std::int64_t kMostIdxBytes = std::int64_t{1} << 36;
constexpr const char* kTrainImages = "train-images-idx3-ubyte";

std::string find_idx(const std::string& folder, const std::string& name) {
  return find_plain_or_gz((fs::path(folder) / name).string());
}

// A file of this format, which may be compressed.
class IdxFile {
 public:
  IdxFile(const std::string& folder, const std::string& name) : file_(expect(folder, name)) {}

  std::uint32_t number() {
    std::uint8_t bytes[4];
    read(bytes, 4);
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 |
           bytes[3];
  }
  void expect_magic(std::uint32_t magic) {
    const std::uint32_t found = number();
    if (found != magic) {
      refuse(fmt::format("begins with {:#010x}, expected {:#010x}: it is no such file", found, magic));
    }
  }
  std::vector<std::uint8_t> bytes(std::int64_t count) {
    constexpr std::int64_t kPiece = 1 << 24;  // room grows with what is there, not with what is claimed
    std::vector<std::uint8_t> all;
    for (std::int64_t at = 0; at < count; at += kPiece) {
      const std::int64_t n = std::min(kPiece, count - at);
      all.resize(static_cast<std::size_t>(at + n));
      read(all.data() + at, n);
    }
    std::byte more{};
    if (file_.read({&more, 1}) > 0) refuse("is longer than its header says");
    return all;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw RunError(fmt::format("{}: {}", file_.path(), what));
  }

 private:
  static std::string expect(const std::string& folder, const std::string& name) {
    std::string path = find_idx(folder, name);
    if (!path.empty()) return path;
    throw RunError(fmt::format("{}: has no {}, nor {}.gz; `lpmm data get` downloads mnist and fashion-mnist",
                               folder, name, name));
  }
  void read(std::uint8_t* out, std::int64_t count) {
    const auto n = static_cast<std::size_t>(count);
    if (file_.read(std::as_writable_bytes(std::span(out, n))) != n) refuse("is cut off");
  }

  GzFile file_;
};

ImageSet load_split(const std::string& folder, const std::string& name, const std::string& split) {
  ImageSet set;
  set.name = name;
  set.channels = 1;
  IdxFile images(folder, split + "-images-idx3-ubyte"), labels(folder, split + "-labels-idx1-ubyte");
  images.expect_magic(kImagesMagic);
  labels.expect_magic(kLabelsMagic);
  const std::uint32_t count = images.number(), height = images.number(), width = images.number();
  const std::uint32_t labelled = labels.number();
  constexpr std::uint32_t kMost = kMostImageSide;
  if (count < 1 || height < 1 || width < 1 || height > kMost || width > kMost ||
      std::int64_t{count} > kMostIdxBytes / (std::int64_t{height} * width)) {
    images.refuse(fmt::format("claims {} images of {} x {}; sides go to {}, all bytes to {}", count, height,
                              width, kMost, kMostIdxBytes));
  }
  if (labelled != count) labels.refuse(fmt::format("holds {} labels for {} images", labelled, count));
  set.count = count;
  set.height = static_cast<int>(height);
  set.width = static_cast<int>(width);
  set.pixels = images.bytes(set.count * set.values());
  const std::vector<std::uint8_t> bytes = labels.bytes(set.count);
  set.labels.assign(bytes.begin(), bytes.end());
  return set;
}

}  // namespace

bool has_idx(const std::string& folder) {
  return !folder.empty() && !find_idx(folder, kTrainImages).empty();
}

ImageData load_idx(const std::string& folder, const std::string& name) {
  ImageData data;
  data.train = load_split(folder, name, "train");
  data.test = load_split(folder, name, "t10k");
  if (data.test.height != data.train.height || data.test.width != data.train.width) {
    throw RunError(fmt::format("{}: training images are {} x {}, test images {} x {}", folder,
                               data.train.height, data.train.width, data.test.height, data.test.width));
  }
  const int classes = 1 + *std::max_element(data.train.labels.begin(), data.train.labels.end());
  const int tested = *std::max_element(data.test.labels.begin(), data.test.labels.end());
  if (classes < 2 || tested >= classes) {
    throw RunError(
        fmt::format("{}: training labels are 0 to {}, test labels go to {}", folder, classes - 1, tested));
  }
  data.train.classes = data.test.classes = classes;
  PixelSums sums(data.train.channels);
  sums.add(data.train.pixels);
  sums.write(data.mean, data.deviation);
  return data;
}

}  // namespace lpmm
