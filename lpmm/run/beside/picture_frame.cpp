#include "lpmm/run/beside/picture_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"
#include "lpmm/files/json.h"
#include "lpmm/files/toml_table.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/setup.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kLongestFrame = 1 << 26;  // bytes of a file
constexpr const char *kConfigFile = "config.json", *kConvNext = "ConvNext", *kSquash = "squash";
constexpr const char *kOrient = "lpmm_orient", *kAsStored = "as-stored", *kEdges = "lpmm_edges";
constexpr std::string_view kEdgeNames[] = {"rounded", "torchvision", "transformers"};

struct InterpolationRow {
  Interpolation interpolation;
  int number;             // Pillow's and transformers'
  std::string_view name;  // timm's
};
constexpr InterpolationRow kInterpolations[] = {
    {Interpolation::kBilinear, 2, "bilinear"}, {Interpolation::kBicubic, 3, "bicubic"},
    {Interpolation::kNearest, 0, "nearest"},   {Interpolation::kLanczos, 1, "lanczos"},
    {Interpolation::kBox, 4, "box"},           {Interpolation::kHamming, 5, "hamming"}};

// The row that a number or a name means; null: none.
const InterpolationRow* find_interpolation(const Json& said) {
  const auto* at = std::ranges::find_if(
      kInterpolations, [&](const InterpolationRow& row) { return said == row.number || said == row.name; });
  return at == std::end(kInterpolations) ? nullptr : at;
}

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

// The class of transformers that prepares pictures, where a file says it or its library takes it.
std::string processor_of(const Json& said, const std::string& folder) {
  for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
    if (said.contains(key) && said[key].is_string()) return said[key].get<std::string>();
  }
  std::error_code error;
  const std::string config = (fs::path(folder) / kConfigFile).string();
  const Json of = fs::exists(config, error) ? read_json(config, kLongestFrame) : Json();
  return of.is_object() && of.contains("model_type") && of["model_type"] == "resnet" ? kConvNext : "";
}

// Returns true if a size is the shorter side: a bare number is that in these classes only.
bool is_shorter_side(const Json& size, const std::string& processor) {
  constexpr std::string_view kKeepShape[] = {kConvNext, "CLIP",       "Bit",       "Levit",
                                             "LeViT",   "MobileNetV", "MobileViT", "PoolFormer"};
  if (size.is_object()) return size.contains("shortest_edge");
  return std::ranges::any_of(kKeepShape, [&](std::string_view name) { return processor.starts_with(name); });
}

bool crops(const Json& said) {
  return !said.contains("do_center_crop") || said["do_center_crop"] != false;
}

PictureFrame frame_of_transformers(const Json& said, const std::string& processor, const std::string& file) {
  if (!said.is_object()) return {};
  constexpr int kNeverCut = 384;  // ConvNext's pictures of this side or more
  constexpr double kConvNextShare = 0.875;
  const int size = side_said(said, "size", file), crop = crops(said) ? side_said(said, "crop_size", file) : 0;
  PictureFrame frame;
  frame.side = crop > 0 ? crop : size;
  if (frame.side == 0) return {};
  const bool is_convnext = processor.starts_with(kConvNext) && crop == 0;
  frame.squashes = size > 0 && (is_convnext ? size >= kNeverCut : !is_shorter_side(said["size"], processor));
  frame.scale_to = crop > 0 || frame.squashes
                       ? std::max(size, crop)
                       : scaled_by_share(said, size, is_convnext ? kConvNextShare : 1, file);
  frame.as_stored = said.contains(kOrient) && said[kOrient] == kAsStored;
  frame.edges = Edges::kTransformers;
  for (std::size_t i = 0; i < std::size(kEdgeNames); ++i) {
    if (said.contains(kEdges) && said[kEdges] == kEdgeNames[i]) frame.edges = static_cast<Edges>(i);
  }
  if (const auto* row = find_interpolation(said.value("resample", Json())); row != nullptr)
    frame.interpolation = row->interpolation;
  return frame;
}

const Json& timms_settings(const Json& config) {
  return config.contains("pretrained_cfg") ? config["pretrained_cfg"] : config;
}

PictureFrame frame_of_timm(const Json& config, const std::string& file) {
  if (!config.is_object()) return {};
  const Json& said = timms_settings(config);
  if (!said.is_object() || !said.contains("input_size")) return {};
  const Json& size = said["input_size"];
  const bool is_square = size.is_array() && size.size() == 3 && size[1] == size[2];
  if (!is_square) refuse_frame(file, "input_size", size);
  const int side = side_said({{"input_size", size[1]}}, "input_size", file);
  constexpr double kUsualShare = 0.875;  // timm's, as bicubic is
  const auto* row = find_interpolation(said.value("interpolation", Json("bicubic")));
  return {.side = side,
          .scale_to = std::min(kMostImageSide, scaled_by_share(said, side, kUsualShare, file)),
          .interpolation = row == nullptr ? Interpolation::kBilinear : row->interpolation,
          .edges = Edges::kTorchvision,
          .squashes = said.value("crop_mode", Json()) == kSquash};
}

// Pictures that came as squares were cut by nobody: others are cut as the files say.
PictureFrame frame_of_data(const ImageData& data, const PictureFrame& said) {
  const ImageSet& train = data.train;
  if (train.mapped != nullptr && is_image_file(train.name)) return read_image_facts(train.name).frame;
  return {.side = train.height,
          .scale_to = train.height,
          .edges = said.side > 0 ? said.edges : Edges::kTransformers,
          .squashes = said.squashes};
}

}  // namespace

PictureFrame read_frame(const std::string& folder) {
  std::error_code error;
  const std::string own = (fs::path(folder) / kPixelsFile).string(),
                    config = (fs::path(folder) / kConfigFile).string();
  if (fs::exists(own, error)) {
    const Json said = read_json(own, kLongestFrame);
    const PictureFrame frame = frame_of_transformers(said, processor_of(said, folder), own);
    if (frame.side > 0) return frame;
  }
  return fs::exists(config, error) ? frame_of_timm(read_json(config, kLongestFrame), config) : PictureFrame{};
}

PictureFrame frame_of_run(const std::string& checkpoint) {
  const std::string config = config_of_run(checkpoint);
  const std::string path =
      config.empty() ? "" : TomlTable::load(config).table("data").text("path").value_or("");
  if (!path.empty() && is_image_file(path)) {
    const ImageFileFacts facts = read_image_facts(path);
    if (facts.height == facts.width) return facts.frame;
  }
  const std::string files = model_files_of(checkpoint);
  return files.empty() ? PictureFrame{} : read_frame(files);
}

std::vector<std::string> unread_of_frame(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  const std::string own = (fs::path(folder) / kPixelsFile).string(),
                    config = (fs::path(folder) / kConfigFile).string();
  const auto add = [&](const char* file, const char* key, const Json& said, const std::string& here) {
    out.push_back(
        printable(fmt::format("{}: {} is {}, which is not done here: {}", file, key, said.dump(), here)));
  };
  PictureFrame frame;
  try {
    frame = read_frame(folder);
  } catch (const RunError& e) {
    return {fmt::format("{}, without which pictures are refused", e.what())};
  }
  const Json said = fs::exists(own, error) ? read_json(own, kLongestFrame) : Json();
  if (said.is_object()) {
    const Json resizes = said.value("do_resize", Json()), pads = said.value("do_pad", Json()),
               way = said.value("resample", Json());
    if (resizes == false) add(kPixelsFile, "do_resize", resizes, "pictures are scaled");
    if (pads == true) add(kPixelsFile, "do_pad", pads, "pictures have no border");
    if (!way.is_null() && find_interpolation(way) == nullptr)
      add(kPixelsFile, "resample", way, "pictures are scaled bilinear");
    const int size = side_said(said, "size", own);
    if (size > 0 && frame.scale_to > size && crops(said) && said.contains("crop_size"))
      add(kPixelsFile, "crop_size", said["crop_size"], fmt::format("a size of {} gets no border", size));
  }
  const Json timms = fs::exists(config, error) ? read_json(config, kLongestFrame) : Json();
  if (frame.edges != Edges::kTorchvision || !timms.is_object()) return out;
  const Json& settings = timms_settings(timms);
  const Json mode = settings.value("crop_mode", Json()), way = settings.value("interpolation", Json());
  if (!mode.is_null() && mode != "center" && mode != kSquash)
    add(kConfigFile, "crop_mode", mode, "the middle is cut out");
  if (!way.is_null() && find_interpolation(way) == nullptr)
    add(kConfigFile, "interpolation", way, "pictures are scaled bilinear");
  return out;
}

std::string_view interpolation_name(const PictureFrame& frame) {
  return std::ranges::find(kInterpolations, frame.interpolation, &InterpolationRow::interpolation)->name;
}

std::string text_of(const PictureFrame& f) {
  if (f.squashes && f.scale_to == f.side) return fmt::format("the whole scaled to {} x {}", f.side, f.side);
  return fmt::format("{} scaled to {}, {} x {} cut out", f.squashes ? "each side" : "shorter side",
                     f.scale_to, f.side, f.side);
}

void keep_frame(const std::string& folder, const ImageData& data) {
  PictureFrame said;
  bool is_whole = false;
  try {
    said = read_frame(folder);
    is_whole = said.side > 0 && unread_of_frame(folder).empty();
  } catch (const RunError&) {
    said = {};  // an unreadable file is replaced
  }
  const PictureFrame frame = frame_of_data(data, said);
  if (data.train.height != data.train.width || (is_whole && said == frame)) return;
  const std::string file = (fs::path(folder) / kPixelsFile).string();
  std::error_code error;
  Json now = fs::exists(file, error) ? read_json(file, kLongestFrame) : Json::object();
  for (const char* key : {"crop_pct", "do_pad", "pad_size", "feature_extractor_type", kOrient, kEdges})
    now.erase(key);
  // ViT's class of transformers 4 does not crop, and ConvNext's takes sizes otherwise.
  now["image_processor_type"] = "CLIPImageProcessor";
  now["do_resize"] = true;
  now["size"] = frame.squashes ? Json{{"height", frame.scale_to}, {"width", frame.scale_to}}
                               : Json{{"shortest_edge", frame.scale_to}};
  now["resample"] = find_interpolation(interpolation_name(frame))->number;
  now["do_center_crop"] = true;
  now["crop_size"] = {{"height", frame.side}, {"width", frame.side}};
  if (frame.as_stored) now[kOrient] = kAsStored;
  if (frame.edges != Edges::kTransformers) now[kEdges] = kEdgeNames[static_cast<std::size_t>(frame.edges)];
  write_text(file, now.dump(1) + "\n");
}

}  // namespace lpmm
