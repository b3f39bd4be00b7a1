// The image sets that a run may name, and how those that it gives a path of are told apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lpmm/data/images.h"

namespace lpmm {

// A public set: its files lie in `folder` below data_folder(), and hold so many images of side x side.
struct NamedImages {
  std::string_view name, folder;
  int side, channels;
  std::int64_t train, test;
  ImageData (*load)(const std::string& folder, const std::string& name);
  std::vector<std::string_view> class_names;  // in order, as its publisher says them; empty: numbers
};
const std::vector<NamedImages>& named_image_sets();

inline constexpr std::string_view kImagesByPath = "images";  // the set that data.path names

// Returns true if `path` leads to a file or a folder that load_images() reads.
bool holds_images(const std::string& path);

// Counts, sides, channels, classes and their names of a set, without its pixels; of one with a name, before
// its files are there. `set` is a name or kImagesByPath. `path` then leads, from here or from data_folder(),
// to an image file (image_file.h), or to a folder of IDX or CIFAR-10 files. Throws RunError naming what is
// there, and what the loaders throw.
ImageData describe_images(const std::string& set, const std::string& path);
ImageData load_images(const std::string& set, const std::string& path);

}  // namespace lpmm
