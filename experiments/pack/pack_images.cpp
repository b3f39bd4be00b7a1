#include "experiments/pack/pack_images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "experiments/pack/framed.h"
#include "kernels/threads/pool.h"
#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"

namespace lpmm {
namespace fs = std::filesystem;
namespace {

// Decodes pictures ahead, some at once, and gives them in order.
class Decoder {
 public:
  Decoder(const std::vector<std::string>& paths, const PictureFrame& frame, Pool& pool, ProgressCall progress)
      : paths_(paths), frame_(frame), pool_(pool), progress_(std::move(progress)) {}
  const FramedPicture& next() {
    if (at_ % kPicturesAtOnce == 0) decode_some();
    return decoded_[static_cast<std::size_t>(at_++ % kPicturesAtOnce)];
  }

 private:
  void decode_some() {
    InterruptGuard::check();
    const std::int64_t n = std::min(kPicturesAtOnce, std::ssize(paths_) - at_);
    decoded_ = framed_pictures(
        std::span(paths_).subspan(static_cast<std::size_t>(at_), static_cast<std::size_t>(n)), frame_, pool_);
    progress_(at_ + n, std::ssize(paths_));
  }
  const std::vector<std::string>& paths_;
  const PictureFrame frame_;
  Pool& pool_;
  ProgressCall progress_;
  std::int64_t at_ = 0;
  std::vector<FramedPicture> decoded_;
};

void check_pack_options(const PackOptions& options) {
  if (!options.output.ends_with(kImageFileEnding)) {
    throw UsageError(
        fmt::format("{}: the name of an image file ends in {}", options.output, kImageFileEnding));
  }
  if (options.frame.scale_to < options.frame.side) {
    throw UsageError(
        fmt::format("--scale-to {} is less than --size {}", options.frame.scale_to, options.frame.side));
  }
}

// Throws for a picture that does not decode, with how many of the others do not.
[[noreturn]] void refuse_broken(const std::string& first, std::int64_t others, Decoder& decoder) {
  std::int64_t broken = 1;
  for (; others > 0; --others) broken += decoder.next().error.empty() ? 0 : 1;
  throw RunError(fmt::format("{}. There are {} such files; remove them, or {}", first, broken, kSkipAdvice));
}

// Takes pictures out that do not decode; all are looked at for that.
void leave_out_broken(Packed& packed, const PackOptions& options, Pool& pool, Progress& progress) {
  PictureList& list = packed.list;
  Decoder decoder(list.paths, options.frame, pool,
                  pictures_per_second(progress, "looking for broken pictures"));
  std::vector<std::string> paths;
  std::vector<std::uint16_t> labels;
  std::vector<std::int64_t> train(list.names.size()), test(list.names.size());
  const std::int64_t trained = list.train;
  list.train = 0;
  for (std::size_t i = 0; i < list.paths.size(); ++i) {
    const bool is_train = static_cast<std::int64_t>(i) < trained;
    if (const FramedPicture& picture = decoder.next(); !picture.error.empty()) {
      packed.broken.add(picture.error);
      continue;
    }
    paths.push_back(list.paths[i]);
    labels.push_back(list.labels[i]);
    ++(is_train ? train : test)[list.labels[i]];
    if (is_train) ++list.train;
  }
  for (std::size_t c = 0; c < list.names.size(); ++c) {
    if (train[c] > 0 && test[c] > 0) continue;
    throw RunError(fmt::format("{}: no {} picture of class {} decodes; the first of {}: {}",
                               options.source.path, train[c] > 0 ? "test" : "training", list.names[c],
                               packed.broken.count, packed.broken.first));
  }
  list.paths = std::move(paths);
  list.labels = std::move(labels);
}

}  // namespace

Packed pack_images(const PackOptions& given, PictureList listed, Progress& progress) {
  PackOptions options = given;
  PictureFrame& frame = options.frame;
  if (frame.scale_to == 0) frame.scale_to = frame.side;
  check_pack_options(options);
  Pool pool(options.threads);
  Packed packed;
  packed.list = std::move(listed);
  const PictureList& list = packed.list;
  if (options.source.skips_others) leave_out_broken(packed, options, pool, progress);
  ImageFileFacts facts;
  facts.height = facts.width = frame.side;
  facts.channels = kMostImageChannels;
  facts.frame = frame;
  facts.names = list.names;
  facts.train = list.train;
  facts.test = std::ssize(list.paths) - list.train;
  Decoder decoder(list.paths, frame, pool, pictures_per_second(progress, "packing"));
  std::int64_t others = std::ssize(list.paths);
  write_image_file(options.output, facts, list.labels, [&]() -> std::span<const std::uint8_t> {
    const FramedPicture& picture = decoder.next();
    --others;
    if (!picture.error.empty()) refuse_broken(std::string(picture.error), others, decoder);
    if (picture.is_oriented) ++packed.oriented;
    return picture.pixels;
  });
  packed.train = facts.train;
  packed.test = facts.test;
  packed.classes = static_cast<int>(facts.names.size());
  packed.bytes = static_cast<std::int64_t>(fs::file_size(options.output));
  return packed;
}

std::vector<std::string> remarks(const Packed& packed, const PackOptions& options) {
  std::vector<std::string> lines;
  const PictureList& list = packed.list;
  if (list.no_pictures.count > 0) {
    lines.push_back(fmt::format("{} files are no pictures and were left out, the first is {}",
                                list.no_pictures.count, list.no_pictures.first));
  }
  if (list.other_formats.count > 0) {
    lines.push_back(
        fmt::format("{} pictures of other formats than JPEG and PNG were left out, the first is {}",
                    list.other_formats.count, list.other_formats.first));
  }
  if (packed.broken.count > 0) {
    lines.push_back(fmt::format("{} pictures do not decode and were left out, the first is {}",
                                packed.broken.count, packed.broken.first));
  }
  if (packed.oriented > 0) {
    lines.push_back(fmt::format(
        "{} of {} pictures have an orientation in their Exif data: they {}", packed.oriented,
        packed.train + packed.test,
        options.frame.as_stored
            ? "stay as they are stored; --orient exif turns them as they are shown"
            : "were turned as they are shown; --orient as-stored leaves them, as torchvision does"));
  }
  if (!list.not_used.empty()) {
    lines.push_back(
        fmt::format("not used: {}; the test pictures are {}", fmt::join(list.not_used, ", "), list.tested));
  }
  return lines;
}

}  // namespace lpmm
