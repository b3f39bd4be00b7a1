#include "experiments/commands/runs/image_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/image_sets.h"
#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/beside/picture_frame.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/stored_weights.h"

namespace lpmm {
namespace {

constexpr int kBatchOfImages = 16;

std::vector<std::string> names_of_classes(const std::string& checkpoint, const RunConfig& config) {
  std::vector<std::string> names = stored_class_names(checkpoint_run(checkpoint));
  const auto classes = static_cast<std::size_t>(config.model.classes);
  if (names.size() == classes) return names;
  names.clear();
  for (const NamedImages& set : named_image_sets()) {
    if (set.name == config.data.set) names.assign(set.class_names.begin(), set.class_names.end());
  }
  if (names.size() == classes) return names;
  names.clear();
  for (std::size_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

// Colours as Pillow's convert("L") makes them grey.
std::uint8_t grey_of(const std::uint8_t* rgb) {
  constexpr std::uint32_t kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 1 << 15;
  return static_cast<std::uint8_t>((kRed * rgb[0] + kGreen * rgb[1] + kBlue * rgb[2] + kHalf) >> 16);
}

}  // namespace

std::vector<double> probabilities_of(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> out;
  double sum = 0;
  for (const float logit : logits) sum += out.emplace_back(std::exp(logit - largest));
  for (double& p : out) p /= sum;
  return out;
}

ImageModel::ImageModel(const std::string& checkpoint, int threads, const std::string& compute,
                       const PictureFrame& asked)
    : config_(evaluated_config(checkpoint, kImageTask, compute_settings(compute))),
      device_(threads),
      checkpoint_(checkpoint),
      files_(model_files_of(checkpoint)) {
  const StoredWeights weights(checkpoint_);
  config_.model.classes = stored_classes(weights, config_.model);
  if (config_.model.classes < 2) {
    throw UsageError(
        fmt::format("{}: tells no classes; fine-tune it for some (lpmm train --init)", checkpoint_));
  }
  take_pixels();
  take_frame(asked);
  names_ = names_of_classes(checkpoint_, config_);
  ImageSet& set = data_.test;
  set.height = set.width = config_.model.height = config_.model.width = frame_.side;
  config_.model.channels = set.channels;
  set.classes = config_.model.classes;
  model_ = make_model(config_.model);
  memory_ = std::make_unique<ModelMemory>(model_->tensors(), config_.policy, config_.optimizer,
                                          config_.train.seed, 1, device_);
  buffers_ = std::make_unique<Buffers>(model_->buffers(), device_);
  load_checkpoint(checkpoint_, config_.model.name, *memory_, *buffers_);
  program_ = model_->build(kBatchOfImages, config_.train.compute, device_);
}

void ImageModel::take_pixels() {
  constexpr float kWhite = 255;
  const auto pixels = files_.empty() ? std::nullopt : read_pixels(files_);
  if (pixels) {
    data_.test.channels = static_cast<int>(pixels->mean.size());
    for (std::size_t c = 0; c < pixels->mean.size(); ++c) {
      data_.mean[c] = static_cast<float>(kWhite * pixels->mean[c]);
      data_.deviation[c] = static_cast<float>(kWhite * pixels->deviation[c]);
    }
    return;
  }
  // A run of an earlier program: its data says it.
  const auto data = load_data(open_data(config_), pool());
  const auto& images = dynamic_cast<const ImageData&>(*data);
  data_.test.channels = images.test.channels;
  std::ranges::copy(images.mean, data_.mean);
  std::ranges::copy(images.deviation, data_.deviation);
}

void ImageModel::take_frame(const PictureFrame& asked) {
  frame_ = frame_of_run(checkpoint_);
  const bool names_data = config_.data.set != kImageTask.by_path || !config_.data.text.path.empty();
  if (frame_.side == 0 && asked.side == 0 && names_data) {
    frame_.side = frame_.scale_to = open_data(config_).config.model.height;
  }
  if (frame_.side == 0 && asked.side == 0) {
    frame_ = kUsualFrame;
    tell(
        fmt::format("no file of {} says how large its pictures are: their shorter side is scaled to {} and "
                    "{} x {} pixels are cut out, as is usual; --scale-to and --size say it otherwise\n",
                    checkpoint_, frame_.scale_to, frame_.side, frame_.side));
  }
  if (asked.side > 0 && asked.side != frame_.side) frame_.side = frame_.scale_to = asked.side;
  if (asked.scale_to > 0) frame_.scale_to = asked.scale_to;
  if (frame_.scale_to < frame_.side) {
    throw UsageError(
        fmt::format("--scale-to {} is less than the {} pixels of a side", frame_.scale_to, frame_.side));
  }
}

std::vector<double> ImageModel::probabilities(std::span<const FramedPicture> pictures) {
  ImageSet& set = data_.test;
  const auto pixels = static_cast<std::size_t>(frame_.side) * static_cast<std::size_t>(frame_.side);
  set.pixels.clear();
  for (const FramedPicture& picture : pictures) {
    if (set.channels != 1) set.pixels.insert(set.pixels.end(), picture.pixels.begin(), picture.pixels.end());
    for (std::size_t i = 0; set.channels == 1 && i < pixels; ++i) {
      set.pixels.push_back(grey_of(picture.pixels.data() + 3 * i));
    }
  }
  set.count = std::ssize(pictures);
  set.labels.assign(pictures.size(), 0);  // only the loss reads the labels
  std::vector<double> out;
  std::vector<float> logits;
  Batch batch;
  for (std::int64_t first = 0; first < set.count; first += kBatchOfImages) {
    const std::int64_t count = std::min<std::int64_t>(kBatchOfImages, set.count - first);
    data_.make_test_batch(first, count, batch);
    program_->evaluate(*memory_, *buffers_, batch, &logits);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const std::vector<double> some =
          probabilities_of(std::span(logits).subspan(i * names_.size(), names_.size()));
      out.insert(out.end(), some.begin(), some.end());
    }
  }
  return out;
}

}  // namespace lpmm
