#include "lpmm/run/beside/picture_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/files/json.h"
#include "lpmm/run/beside/model_files.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLongestFrame = 1 << 26;  // bytes of a file
constexpr int kBilinear = 2, kBicubic = 3;        // as Pillow and transformers number them
constexpr const char *kOrient = "lpmm_orient", *kAsStored = "as-stored";

[[noreturn]] void refuse_frame(const std::string& file, const char* key, const Json& said) {
  throw RunError(fmt::format("{}: {} is {}, expected the side of a square, from 1 to {}", file, key,
                             said.dump(), kMostImageSide));
}

// The side that a key names: a number, or an object of the shorter side or of height and width; 0: none.
int side_said(const Json& object, const char* key, const std::string& file) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return 0;
  Json side = *found;
  if (found->is_object() && found->contains("shortest_edge")) {
    side = (*found)["shortest_edge"];
  } else if (found->is_object() && found->contains("height") && found->contains("width")) {
    side = (*found)["height"];
    if ((*found)["width"] != side) refuse_frame(file, key, *found);
  }
  const bool is_good = side.is_number_integer() && side >= 1 && side <= kMostImageSide;
  if (!is_good) refuse_frame(file, key, *found);
  return side.get<int>();
}

// The shorter side of which `side` is the share that a key says, or else `usual`.
int scaled_by_share(const Json& object, int side, double usual, const std::string& file) {
  constexpr const char* key = "crop_pct";
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return static_cast<int>(std::floor(side / usual));
  const double share = found->is_number() ? found->get<double>() : NAN;
  const double scaled = std::floor(side / share);
  if (share > 0 && scaled >= side && scaled <= kMostImageSide) return static_cast<int>(scaled);
  throw RunError(
      fmt::format("{}: {} is {}, expected a share of a picture's side, up to 1", file, key, found->dump()));
}

PictureFrame frame_of_transformers(const Json& said, const std::string& file) {
  if (!said.is_object()) return {};
  const bool crops = !said.contains("do_center_crop") || said["do_center_crop"] != false;
  const int size = side_said(said, "size", file), crop = crops ? side_said(said, "crop_size", file) : 0;
  PictureFrame frame;
  frame.side = crop > 0 ? crop : size;
  if (frame.side == 0) return {};
  frame.scale_to = crop > 0 ? std::max(size, crop) : scaled_by_share(said, size, 1, file);
  frame.as_stored = said.contains(kOrient) && said[kOrient] == kAsStored;
  const Json way = said.value("resample", Json(kBilinear));
  if (way == kBicubic) frame.interpolation = Interpolation::kBicubic;
  if (way != kBicubic && way != kBilinear) {
    tell(fmt::format(
        "{}: resample is {}; {} (bilinear) and {} (bicubic) are known, and pictures are scaled bilinear\n",
        file, way.dump(), kBilinear, kBicubic));
  }
  return frame;
}

PictureFrame frame_of_timm(const Json& config, const std::string& file) {
  if (!config.is_object()) return {};
  const Json& said = config.contains("pretrained_cfg") ? config["pretrained_cfg"] : config;
  if (!said.is_object() || !said.contains("input_size")) return {};
  const Json& size = said["input_size"];
  const bool is_square = size.is_array() && size.size() == 3 && size[1] == size[2];
  if (!is_square) refuse_frame(file, "input_size", size);
  const int side = side_said({{"input_size", size[1]}}, "input_size", file);
  constexpr double kUsualShare = 0.875;  // timm's, as bicubic is
  const bool is_bicubic = said.value("interpolation", Json("bicubic")) == "bicubic";
  return {side, std::min(kMostImageSide, scaled_by_share(said, side, kUsualShare, file)), false,
          is_bicubic ? Interpolation::kBicubic : Interpolation::kBilinear};
}

PictureFrame frame_of_data(const ImageData& data) {
  const ImageSet& train = data.train;
  if (train.mapped != nullptr && is_image_file(train.name)) return read_image_facts(train.name).frame;
  return {train.height, train.height, false};
}

}  // namespace

PictureFrame read_frame(const std::string& folder) {
  std::error_code error;
  const std::string own = (fs::path(folder) / kPixelsFile).string(),
                    config = (fs::path(folder) / "config.json").string();
  if (fs::exists(own, error)) {
    const PictureFrame frame = frame_of_transformers(read_json(own, kLongestFrame), own);
    if (frame.side > 0) return frame;
  }
  return fs::exists(config, error) ? frame_of_timm(read_json(config, kLongestFrame), config) : PictureFrame{};
}

void keep_frame(const std::string& folder, const ImageData& data) {
  const PictureFrame frame = frame_of_data(data);
  const auto is_said = [&] {
    try {
      return read_frame(folder) == frame;
    } catch (const RunError&) {
      return false;  // an unreadable file is replaced
    }
  };
  if (data.train.height != data.train.width || is_said()) return;
  const std::string file = (fs::path(folder) / kPixelsFile).string();
  std::error_code error;
  Json said = fs::exists(file, error) ? read_json(file, kLongestFrame) : Json::object();
  said["do_resize"] = true;
  said["size"] = {{"shortest_edge", frame.scale_to}};
  said["resample"] = frame.interpolation == Interpolation::kBicubic ? kBicubic : kBilinear;
  said["do_center_crop"] = true;
  said["crop_size"] = {{"height", frame.side}, {"width", frame.side}};
  said.erase("crop_pct");
  said.erase(kOrient);
  if (frame.as_stored) said[kOrient] = kAsStored;
  write_text(file, said.dump(1) + "\n");
}

}  // namespace lpmm
