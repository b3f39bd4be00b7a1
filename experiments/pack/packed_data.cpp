#include "experiments/pack/packed_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "experiments/pack/pack_images.h"
#include "experiments/pack/picture_table.h"
#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/text.h"
#include "lpmm/data/image_sets.h"
#include "lpmm/files/files.h"
#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/beside/picture_frame.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

constexpr const char* kPackedFolder = "packed";  // in the data folder

PictureFrame chosen_frame(const RunConfig& config, const std::string& checkpoint) {
  PictureFrame said = checkpoint.empty() ? PictureFrame{} : frame_of_run(checkpoint);
  if (said.side == 0 && !checkpoint.empty() && checkpoint_run(checkpoint).contains(kSource)) {
    said = kUsualFrame;
  }
  const int side = config.data.side;
  if (said.side == 0) return {.side = side, .scale_to = side, .edges = Edges::kTorchvision};
  if (side == kImageSide || side == said.side) return said;
  const auto scaled = std::lround(static_cast<double>(side) * said.scale_to / said.side);
  said.side = side;
  said.scale_to = static_cast<int>(std::min<long>(scaled, kMostImageSide));
  return said;
}

// Two checksums of all that decides what is packed: names, sizes and times of the files.
std::string digest_of(const PackOptions& options, const PictureList& list) {
  const PictureFrame& f = options.frame;
  std::string text =
      fmt::format("{} {} {} {} {} {}\n", f.side, f.scale_to, f.as_stored, static_cast<int>(f.interpolation),
                  options.source.validation_share, options.source.seed);
  text += fmt::format("{} {} to Pillow's pixels\n", static_cast<int>(f.edges), f.squashes);
  std::error_code error;
  const auto add = [&](const fs::path& path) {
    const auto time = fs::last_write_time(path, error).time_since_epoch().count();
    text += fmt::format("{} {}\n", fs::file_size(path, error), time);
  };
  for (const std::string& name : list.names) text += name + "\n";
  for (std::size_t i = 0; i < list.paths.size(); ++i) {
    text +=
        fmt::format("{} {} {}\n", list.labels[i], static_cast<std::int64_t>(i) < list.train, list.paths[i]);
    add(list.paths[i]);
  }
  const auto bytes = std::as_bytes(std::span(text));
  return fmt::format("{:08x}{:08x}", crc32(bytes), crc32c(bytes));
}

// What data.path was packed from, as the run of the checkpoint says. Where the packed file is gone, that is
// named in its place.
void take_source(RunConfig& config, const std::string& checkpoint, Progress& progress) {
  const Json run = checkpoint_run(checkpoint), from = run.value(kPacked, Json::object());
  TextOptions& said = config.data.text;
  if (from.value("file", "") != said.path) return;
  PackedPictures& packed = config.data.packed;
  packed = {said.path, from.value("path", ""), from.value("test_path", ""), from.value("columns", "")};
  if (!find_data(said.path).empty()) return;
  if (find_data(packed.path).empty()) {
    throw RunError(fmt::format("{}: is not there, and neither is {}, whose pictures were packed in it",
                               packed.file, packed.path));
  }
  progress.say(fmt::format("{}: is not there; it is packed again", packed.file));
  said.path = packed.path;
  said.test_path = packed.test_path;
  said.columns = packed.columns;
}

// Where times of pictures changed and the packed bytes did not, the file gets the name that the run of the
// checkpoint knows it by.
void keep_name(RunConfig& config, const std::string& before, const std::string& checkpoint,
               Progress& progress) {
  std::string& packed = config.data.packed.file;
  if (before.empty() || before == packed) return;
  const Json checksum = checkpoint_run(checkpoint).value(Json::json_pointer("/text/crc32"), Json());
  if (checksum != image_file_checksum(packed) || !before.ends_with(kImageFileEnding)) {
    progress.warn(
        fmt::format("{}: names, sizes or times of its pictures have changed since the run packed them",
                    config.data.packed.path));
    return;
  }
  std::error_code error;
  fs::create_hard_link(packed, before, error);
  if (error) fs::rename(packed, before, error);  // where files have one name each
  if (is_image_file(before)) config.data.text.path = packed = before;
}

}  // namespace

void pack_named_pictures(RunConfig& config, const std::string& checkpoint, Progress& progress) {
  const TaskRow& task = task_of(config.model);
  if (config.data.set != task.picture_set || config.data.text.path.empty()) return;
  if (!checkpoint.empty()) take_source(config, checkpoint, progress);
  const std::string path = find_data(config.data.text.path);
  std::error_code error;
  const bool is_pictures = fs::is_directory(path, error) || (!path.empty() && is_picture_table(path));
  if (!is_pictures || holds_images(path)) return;
  if (data_folder().empty()) {
    throw RunError(
        fmt::format("{}: pictures are packed below the folder of data sets, and neither LPMM_DATA nor "
                    "HOME names one; or pack them by `lpmm data pack-images`",
                    path));
  }
  const InterruptGuard guard;
  PackOptions options;
  options.source.path = fs::weakly_canonical(path).string();
  TextOptions& said = config.data.text;
  if (!said.test_path.empty()) {
    const std::string test = find_data(said.test_path);
    options.source.test_path = fs::weakly_canonical(test.empty() ? said.test_path : test).string();
  }
  options.source.columns = said.columns;
  options.source.validation_share = said.validation_share;
  options.source.seed = config.data.draw_seed;
  options.source.skips_others = config.data.conversations.skip_broken;
  options.frame = chosen_frame(config, checkpoint);
  options.threads = config.train.threads;
  PictureList list = list_pictures(options.source);
  const fs::path folder = fs::path(data_folder()) / kPackedFolder;
  const std::string name = file_name(fs::path(options.source.path).filename().string());
  options.output =
      fs::absolute(folder / fmt::format("{}-{}{}", name, digest_of(options, list), kImageFileEnding))
          .string();
  PackedPictures& packed = config.data.packed;
  const std::string before = packed.file;
  packed = {options.output, options.source.path, options.source.test_path, said.columns};
  said.path = options.output;
  said.test_path.clear();  // it is in there
  said.columns.clear();
  if (is_image_file(options.output)) {
    progress.say(fmt::format("{}: packed before, in {}", path, options.output));
  } else {
    make_folder(folder.string());
    const Packed done = pack_images(options, std::move(list), progress);
    for (const std::string& line : remarks(done, options)) progress.warn(line);
    progress.say(fmt::format("{}: {} pictures of {} classes and {} to test on ({}), packed to {}: {}", path,
                             done.train, done.classes, done.test, done.list.tested, options.output,
                             text_of(options.frame)));
  }
  keep_name(config, before, checkpoint, progress);
}

}  // namespace lpmm
