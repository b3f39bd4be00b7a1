#include "lpmm/data/image_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "lpmm/base/error.h"
#include "lpmm/data/idx.h"
#include "lpmm/data/image_file.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// The kinds of files and folders that a path may lead to.
struct ImageFiles {
  std::string_view what;
  bool (*is_at)(const std::string& path);
  ImageData (*load)(const std::string& path);
};
bool has_cifar_files(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(fs::path(path) / "data_batch_1.bin", error);
}
constexpr ImageFiles kFiles[] = {
    {"a file of `lpmm data pack-images DIR FILE.images`, where DIR holds pictures", is_image_file,
     open_image_file},
    {"a folder of IDX files, as MNIST's", has_idx,
     [](const std::string& path) { return load_idx(path, path); }},
    {"a folder of CIFAR-10's files", has_cifar_files, load_cifar10_files},
};

std::string found_path(const std::string& path) {
  if (path.empty()) {
    throw UsageError(
        fmt::format("data.set = {} needs data.path, of an image file or a folder", kImagesByPath));
  }
  const std::string found = find_data(path);
  return found.empty() ? path : found;
}

ImageData load_images_at(const std::string& given) {
  const std::string path = found_path(given);
  std::string known;
  for (const ImageFiles& files : kFiles) {
    if (files.is_at(path)) return files.load(path);
    known += fmt::format("{}{}", known.empty() ? "" : ", or ", files.what);
  }
  std::error_code error;
  throw RunError(fmt::format("{}: {}; data.path is {}", path,
                             fs::exists(path, error) ? "holds no images that are read" : "is not there",
                             known));
}

const NamedImages& named_set(const std::string& set) {
  for (const NamedImages& images : named_image_sets()) {
    if (images.name == set) return images;
  }
  throw std::logic_error("no image set " + set);
}

ImageSet without_pixels(const ImageSet& of) {
  ImageSet set;
  set.name = of.name;
  set.height = of.height;
  set.width = of.width;
  set.channels = of.channels;
  set.classes = of.classes;
  set.count = of.count;
  return set;
}

}  // namespace

const std::vector<NamedImages>& named_image_sets() {
  static const std::vector<NamedImages> kSets = {
      {"cifar10",
       "cifar-10-batches-bin",
       kImageSide,
       kImageChannels,
       kCifarTrainImages,
       kCifarTestImages,
       [](const std::string&, const std::string&) { return load_cifar10(data_folder()); },
       {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}},
      {"fashion-mnist",
       "fashion-mnist",
       28,
       1,
       60'000,
       10'000,
       load_idx,
       {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
        "Ankle boot"}},
      {"mnist", "mnist", 28, 1, 60'000, 10'000, load_idx, {}},
  };
  return kSets;
}

bool holds_images(const std::string& path) {
  return std::ranges::any_of(kFiles, [&](const ImageFiles& files) { return files.is_at(path); });
}

ImageData describe_images(const std::string& set, const std::string& path) {
  ImageData data;
  if (set == kImagesByPath) {
    const ImageData loaded = load_images_at(path);
    data.train = without_pixels(loaded.train);
    data.test = without_pixels(loaded.test);
    data.train.mapped = loaded.train.mapped;
    data.class_names = loaded.class_names;
    return data;
  }
  const NamedImages& images = named_set(set);
  for (ImageSet* part : {&data.train, &data.test}) {
    part->name = set;
    part->height = part->width = images.side;
    part->channels = images.channels;
    part->count = part == &data.train ? images.train : images.test;
  }
  return data;
}

ImageData load_images(const std::string& set, const std::string& path) {
  if (set == kImagesByPath) return load_images_at(path);
  const NamedImages& images = named_set(set);
  const std::string folder = (fs::path(data_folder()) / images.folder).string();
  ImageData data = images.load(folder, set);
  const ImageData expected = describe_images(set, path);
  const auto same = [](const ImageSet& a, const ImageSet& b) {
    return a.count == b.count && a.values() == b.values() && a.height == b.height && a.classes == b.classes;
  };
  if (!same(data.train, expected.train) || !same(data.test, expected.test)) {
    throw RunError(fmt::format(
        "{}: holds {} + {} images of {} x {} in {} classes, expected {}'s {} + {} of {} x {} in "
        "{}",
        folder, data.train.count, data.test.count, data.train.height, data.train.width, data.train.classes,
        set, images.train, images.test, images.side, images.side, expected.train.classes));
  }
  return data;
}

}  // namespace lpmm
