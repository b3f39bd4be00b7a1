#include "experiments/pack/framed.h"

#include <fmt/format.h>

#include <chrono>

#include "experiments/pack/decode.h"
#include "experiments/pack/exif.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

constexpr std::uint64_t kLargestPicture = std::uint64_t{1} << 28;  // bytes of a file

FramedPicture framed(const std::string& path, const PictureFrame& frame) {
  FramedPicture out;
  try {
    const std::string bytes = read_text(path, kLargestPicture);
    const std::span file(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    DecodedPicture picture = decode_picture(file, path);
    const int orientation = exif_orientation(file);
    out.is_oriented = orientation != 1;
    if (!frame.as_stored) picture = turned(std::move(picture), orientation);
    out.pixels = scaled_square(picture, frame);
  } catch (const RunError& e) {
    out.error = e.what();
  }
  return out;
}

}  // namespace

std::vector<FramedPicture> framed_pictures(std::span<const std::string> paths, const PictureFrame& frame,
                                           Pool& pool) {
  std::vector<FramedPicture> out(paths.size());
  pool.for_each(std::ssize(paths), [&](std::int64_t i, int) {
    const auto at = static_cast<std::size_t>(i);
    out[at] = framed(paths[at], frame);
  });
  return out;
}

ProgressCall pictures_per_second(Progress& progress, const std::string& work) {
  using Clock = std::chrono::steady_clock;
  return [&progress, work, begin = Clock::now()](std::int64_t done, std::int64_t all) {
    if (done == 0 || done == all || !progress.due()) return;
    const double rate =
        static_cast<double>(done) / std::chrono::duration<double>(Clock::now() - begin).count();
    progress.show(fmt::format("{}: {:.0f} %, {:.0f} pictures/s, {} left", work,
                              100.0 * static_cast<double>(done) / static_cast<double>(all), rate,
                              format_time(static_cast<double>(all - done) / rate)));
  };
}

}  // namespace lpmm
