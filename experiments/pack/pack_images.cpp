#include "experiments/pack/pack_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <vector>

#include "experiments/pack/decode.h"
#include "experiments/pack/exif.h"
#include "kernels/threads/pool.h"
#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/data/image_file.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLargestPicture = std::uint64_t{1} << 28;  // bytes of a file

using Classes = std::map<std::string, std::vector<std::string>>;  // names, paths of pictures

// What lies in a folder, by name.
std::vector<fs::path> listed(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> all;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!at->path().filename().string().starts_with('.')) all.push_back(at->path());
  }
  if (error) throw RunError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  std::sort(all.begin(), all.end());
  return all;
}

Classes classes_of(const fs::path& folder) {
  Classes classes;
  for (const fs::path& path : listed(folder)) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      throw RunError(fmt::format("{}: is no folder of a class", path.string()));
    }
    const std::string name = path.filename().string();
    if (name.find('\n') != std::string::npos) {
      throw RunError(fmt::format("{}: a class has a line break in its name", path.string()));
    }
    std::vector<std::string>& pictures = classes[name];
    for (const fs::path& picture : listed(path)) pictures.push_back(picture.string());
    if (pictures.empty()) throw RunError(fmt::format("{}: holds no pictures", path.string()));
  }
  if (classes.size() < 2 || classes.size() > static_cast<std::size_t>(kMostImageClasses)) {
    throw RunError(fmt::format("{}: holds {} folders of classes, 2 to {} are read", folder.string(),
                               classes.size(), kMostImageClasses));
  }
  return classes;
}

fs::path test_folder(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"test", "val"}) {
    if (fs::is_directory(folder / name, error)) return folder / name;
  }
  throw RunError(fmt::format("{}: has no folder test, nor val", folder.string()));
}

void expect_same_classes(const Classes& train, const Classes& test, const fs::path& folder) {
  const auto check = [&](const Classes& some, const Classes& others, const char* with, const char* without) {
    for (const auto& [name, pictures] : some) {
      if (others.contains(name)) continue;
      throw RunError(
          fmt::format("{}: class {} has {} images but no {} images", folder.string(), name, with, without));
    }
  };
  check(train, test, "training", "test");
  check(test, train, "test", "training");
}

// Decodes pictures ahead, some at once, and gives them in order.
class Decoder {
 public:
  Decoder(std::vector<std::string> paths, const PackOptions& options, const ProgressCall& progress)
      : paths_(std::move(paths)), options_(options), progress_(progress), pool_(options.threads) {}
  std::span<const std::uint8_t> next() {
    if (at_ % kAtOnce == 0) decode_some();
    return decoded_[static_cast<std::size_t>(at_++ % kAtOnce)];
  }
  std::int64_t oriented() const { return oriented_; }

 private:
  static constexpr std::int64_t kAtOnce = 64;
  void decode_some() {
    InterruptGuard::check();
    const std::int64_t n = std::min(kAtOnce, std::ssize(paths_) - at_);
    decoded_.resize(static_cast<std::size_t>(n));
    pool_.for_each(n, [&](std::int64_t i, int) {
      const std::string& path = paths_[static_cast<std::size_t>(at_ + i)];
      const std::string bytes = read_text(path, kLargestPicture);
      const std::span file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      DecodedPicture picture = decode_picture(file, path);
      const int orientation = exif_orientation(file);
      if (orientation != 1) ++oriented_;
      if (!options_.as_stored) picture = turned(std::move(picture), orientation);
      decoded_[static_cast<std::size_t>(i)] = scaled_square(picture, options_.scale_to, options_.side);
    });
    if (progress_) progress_(at_ + n, std::ssize(paths_));
  }
  std::vector<std::string> paths_;
  PackOptions options_;
  const ProgressCall& progress_;
  Pool pool_;
  std::int64_t at_ = 0;
  std::atomic<std::int64_t> oriented_ = 0;
  std::vector<std::vector<std::uint8_t>> decoded_;
};

}  // namespace

Packed pack_images(const PackOptions& given, const ProgressCall& progress) {
  PackOptions options = given;
  if (options.scale_to == 0) options.scale_to = options.side;
  if (!options.output.ends_with(kImageFileEnding)) {
    throw UsageError(
        fmt::format("{}: the name of an image file ends in {}", options.output, kImageFileEnding));
  }
  if (options.scale_to < options.side) {
    throw UsageError(fmt::format("--scale-to {} is less than --size {}", options.scale_to, options.side));
  }
  const fs::path folder = options.folder;
  const Classes train = classes_of(folder / "train"), test = classes_of(test_folder(folder));
  expect_same_classes(train, test, folder);
  ImageFileFacts facts;
  facts.height = facts.width = options.side;
  facts.channels = kMostImageChannels;
  std::vector<std::uint16_t> labels;
  std::vector<std::string> paths;
  for (const Classes* split : {&train, &test}) {
    std::uint16_t label = 0;
    for (const auto& [name, pictures] : *split) {
      if (split == &train) facts.names.push_back(name);
      (split == &train ? facts.train : facts.test) += std::ssize(pictures);
      labels.insert(labels.end(), pictures.size(), label++);
      paths.insert(paths.end(), pictures.begin(), pictures.end());
    }
  }
  Decoder decoder(std::move(paths), options, progress);
  write_image_file(options.output, facts, labels, [&] { return decoder.next(); });
  const auto bytes = static_cast<std::int64_t>(fs::file_size(options.output));
  return {facts.train, facts.test, bytes, static_cast<int>(facts.names.size()), decoder.oriented()};
}

}  // namespace lpmm
