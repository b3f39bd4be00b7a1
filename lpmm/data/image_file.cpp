#include "lpmm/data/image_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

static_assert(std::endian::native == std::endian::little, "image files are little-endian");

constexpr std::string_view kImageMagic = "lpmmimg\n";
constexpr std::uint32_t kImageVersion = 1, kLongestNames = 1 << 24;
constexpr std::uint64_t kMostImages = 1'000'000'000;

constexpr std::uint32_t kStoredFlag = 1, kInterpolationShift = 1, kInterpolationMask = 7, kEdgesShift = 4,
                        kEdgesMask = 3, kSquashFlag = 64;

struct ImageHeader {
  char magic[8] = {};
  std::uint32_t version = kImageVersion, height = 0, width = 0, channels = 0, classes = 0, name_bytes = 0;
  std::uint64_t train = 0, test = 0;
  float mean[kMostImageChannels] = {}, deviation[kMostImageChannels] = {};
  std::uint32_t scale_to = 0, frame_flags = 0;
};
static_assert(sizeof(ImageHeader) == 80);

// The offsets in the file at which labels and pixels start and at which it ends.
struct ImagePlaces {
  std::uint64_t labels, pixels, end;
  explicit ImagePlaces(const ImageHeader& h) {
    const auto aligned = [](std::uint64_t bytes) { return (bytes + 63) / 64 * 64; };
    const std::uint64_t count = h.train + h.test;
    labels = aligned(sizeof(ImageHeader) + h.name_bytes);
    pixels = aligned(labels + 2 * count);
    end = pixels + count * h.height * h.width * h.channels;
  }
};

PictureFrame frame_of(const ImageHeader& h) {
  const std::uint32_t flags = h.frame_flags;
  return {.side = static_cast<int>(h.height),
          .scale_to = static_cast<int>(h.scale_to == 0 ? h.height : h.scale_to),
          .as_stored = (flags & kStoredFlag) != 0,
          .interpolation = static_cast<Interpolation>(flags >> kInterpolationShift & kInterpolationMask),
          .edges = static_cast<Edges>(flags >> kEdgesShift & kEdgesMask),
          .squashes = (flags & kSquashFlag) != 0};
}

std::uint32_t flags_of(const PictureFrame& frame) {
  return (frame.as_stored ? kStoredFlag : 0) |
         static_cast<std::uint32_t>(frame.interpolation) << kInterpolationShift |
         static_cast<std::uint32_t>(frame.edges) << kEdgesShift | (frame.squashes ? kSquashFlag : 0);
}

[[noreturn]] void refuse_images(const std::string& path, const std::string& what) {
  throw RunError(fmt::format("{}: {}", path, what));
}

// Reads the header of a file and checks it against the file's length.
ImageHeader read_image_header(const std::string& path, const File& file) {
  ImageHeader h;
  const std::uint64_t bytes = file.size();
  if (bytes < sizeof h) {
    refuse_images(path,
                  fmt::format("is no image file: {} bytes, at least {} were expected", bytes, sizeof h));
  }
  file.read(0, std::as_writable_bytes(std::span(&h, 1)));
  if (std::string_view(h.magic, sizeof h.magic) != kImageMagic) {
    refuse_images(path, "is no image file: it does not start with lpmmimg");
  }
  if (h.version != kImageVersion) {
    refuse_images(path, fmt::format("is an image file of version {}; version {} is read: pack it again",
                                    h.version, kImageVersion));
  }
  const bool sizes = h.height >= 1 && h.height <= kMostImageSide && h.width >= 1 &&
                     h.width <= kMostImageSide && (h.channels == 1 || h.channels == kMostImageChannels) &&
                     h.classes >= 2 && h.classes <= kMostImageClasses;
  if (!sizes || h.name_bytes > kLongestNames || h.train < 1 || h.test < 1 || h.train > kMostImages ||
      h.test > kMostImages) {
    refuse_images(
        path,
        fmt::format("claims {} + {} images of {} x {} x {} in {} classes, named in {} bytes: the file is "
                    "damaged",
                    h.train, h.test, h.height, h.width, h.channels, h.classes, h.name_bytes));
  }
  if (ImagePlaces(h).end != bytes) {
    refuse_images(path, fmt::format("has {} bytes where its header says {}: it is cut off or damaged", bytes,
                                    ImagePlaces(h).end));
  }
  const bool is_framed =
      h.scale_to == 0 || (h.scale_to >= std::min(h.height, h.width) && h.scale_to <= kMostImageSide);
  const PictureFrame frame = frame_of(h);
  const bool is_known = frame.interpolation <= Interpolation::kHamming && frame.edges <= Edges::kTransformers;
  if (!is_framed || !is_known || flags_of(frame) != h.frame_flags) {
    refuse_images(path, fmt::format("claims pictures scaled to {} in the way {}: the file is damaged",
                                    h.scale_to, h.frame_flags));
  }
  for (std::size_t c = 0; c < h.channels; ++c) {
    if (!std::isfinite(h.mean[c]) || !std::isfinite(h.deviation[c]) || h.deviation[c] <= 0) {
      refuse_images(path, fmt::format("claims a mean of {} and a deviation of {}: the file is damaged",
                                      h.mean[c], h.deviation[c]));
    }
  }
  return h;
}

std::vector<std::string> read_class_names(const std::string& path, const File& file, const ImageHeader& h) {
  std::string text(h.name_bytes, '\0');
  file.read(sizeof h, std::as_writable_bytes(std::span(text)));
  std::vector<std::string> names;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    names.push_back(text.substr(at, end - at));
  }
  if (names.size() != h.classes) {
    refuse_images(path, fmt::format("names {} classes where its header says {}", names.size(), h.classes));
  }
  return names;
}

struct UnmapImages {
  std::size_t bytes;
  void operator()(const std::uint8_t* map) const { ::munmap(const_cast<std::uint8_t*>(map), bytes); }
};

std::shared_ptr<const std::uint8_t> map_file(const std::string& path, std::size_t bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) refuse_images(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat s {};
  const bool same =
      ::fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && static_cast<std::size_t>(s.st_size) == bytes;
  void* map = same ? ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  const std::string why = same ? std::strerror(errno) : "it has changed";
  ::close(fd);
  if (map == MAP_FAILED) refuse_images(path, fmt::format("cannot be mapped: {}", why));
  return {static_cast<const std::uint8_t*>(map), UnmapImages{bytes}};
}

void pad_with_zeros(File& file, std::uint64_t from, std::uint64_t to) {
  const std::vector<std::byte> zeros(to - from);
  file.write(zeros);
}

}  // namespace

bool is_image_file(const std::string& path) {
  try {
    const File file(path, File::Mode::kRead);
    char magic[8] = {};
    if (file.size() < sizeof magic) return false;
    file.read(0, std::as_writable_bytes(std::span(magic)));
    return std::string_view(magic, sizeof magic) == kImageMagic;
  } catch (const RunError&) {
    return false;  // a folder, or nothing
  }
}

ImageFileFacts read_image_facts(const std::string& path) {
  const File file(path, File::Mode::kRead);
  const ImageHeader h = read_image_header(path, file);
  ImageFileFacts facts;
  facts.height = static_cast<int>(h.height);
  facts.width = static_cast<int>(h.width);
  facts.channels = static_cast<int>(h.channels);
  facts.names = read_class_names(path, file, h);
  facts.train = static_cast<std::int64_t>(h.train);
  facts.test = static_cast<std::int64_t>(h.test);
  facts.frame = frame_of(h);
  std::copy_n(h.mean, kMostImageChannels, facts.mean);
  std::copy_n(h.deviation, kMostImageChannels, facts.deviation);
  return facts;
}

std::uint32_t image_file_checksum(const std::string& path) {
  constexpr std::uint64_t kPieces = 1024, kPiece = 1 << 16;
  const File file(path, File::Mode::kRead);
  const ImagePlaces places(read_image_header(path, file));
  std::uint32_t crc = file.checksum(places.pixels);
  std::vector<std::byte> piece(kPiece);
  const std::uint64_t apart = std::max(kPiece, (places.end - places.pixels) / kPieces);
  for (std::uint64_t at = places.pixels; at < places.end; at += apart) {
    const auto now = std::span(piece).first(std::min(kPiece, places.end - at));
    file.read(at, now);
    crc = crc32(now, crc);
  }
  return crc;
}

ImageData open_image_file(const std::string& path) {
  const File file(path, File::Mode::kRead);
  const ImageHeader h = read_image_header(path, file);
  const ImagePlaces places(h);
  const auto map = map_file(path, places.end);
  ImageData data;
  for (const std::string& name : read_class_names(path, file, h)) data.class_names.push_back(printable(name));
  std::copy_n(h.mean, kMostImageChannels, data.mean);
  std::copy_n(h.deviation, kMostImageChannels, data.deviation);
  std::uint64_t first = 0;
  for (ImageSet* set : {&data.train, &data.test}) {
    set->name = path;
    set->height = static_cast<int>(h.height);
    set->width = static_cast<int>(h.width);
    set->channels = static_cast<int>(h.channels);
    set->classes = static_cast<int>(h.classes);
    set->count = static_cast<std::int64_t>(set == &data.train ? h.train : h.test);
    set->labels.resize(static_cast<std::size_t>(set->count));
    std::memcpy(set->labels.data(), map.get() + places.labels + 2 * first, 2 * set->labels.size());
    for (std::size_t i = 0; i < set->labels.size(); ++i) {
      if (set->labels[i] < h.classes) continue;
      refuse_images(path, fmt::format("image {} has label {}, expected 0 to {}: the file is damaged",
                                      first + i, set->labels[i], h.classes - 1));
    }
    set->mapped = {map, map.get() + places.pixels + first * static_cast<std::uint64_t>(set->values())};
    first += set->labels.size();
  }
  return data;
}

void write_image_file(const std::string& path, const ImageFileFacts& facts,
                      std::span<const std::uint16_t> labels,
                      const std::function<std::span<const std::uint8_t>()>& next) {
  ImageHeader h;
  std::copy(kImageMagic.begin(), kImageMagic.end(), h.magic);
  h.height = static_cast<std::uint32_t>(facts.height);
  h.width = static_cast<std::uint32_t>(facts.width);
  h.channels = static_cast<std::uint32_t>(facts.channels);
  h.classes = static_cast<std::uint32_t>(facts.names.size());
  h.train = static_cast<std::uint64_t>(facts.train);
  h.test = static_cast<std::uint64_t>(facts.test);
  // Files that say what is usual have the bytes that earlier programs wrote.
  const bool is_usual = facts.frame.scale_to == facts.height;
  h.scale_to = is_usual ? 0 : static_cast<std::uint32_t>(facts.frame.scale_to);
  h.frame_flags = flags_of(facts.frame);
  std::string names;
  for (const std::string& name : facts.names) names += name + "\n";
  h.name_bytes = static_cast<std::uint32_t>(names.size());
  const ImagePlaces places(h);
  remove_leftovers(std::filesystem::path(path).parent_path().string());
  NewFile out(path);
  if (out.in_place())
    throw UsageError(fmt::format("{}: images can only be written to an ordinary file", path));
  out.file().write(std::as_bytes(std::span(&h, 1)));
  out.file().write(std::as_bytes(std::span(names)));
  pad_with_zeros(out.file(), sizeof h + names.size(), places.labels);
  out.file().write(std::as_bytes(labels));
  pad_with_zeros(out.file(), places.labels + 2 * labels.size(), places.pixels);
  PixelSums sums(facts.channels);
  for (std::int64_t i = 0; i < facts.train + facts.test; ++i) {
    const std::span<const std::uint8_t> pixels = next();
    if (i < facts.train) sums.add(pixels);
    out.file().write(std::as_bytes(pixels));
  }
  sums.write(h.mean, h.deviation);
  out.file().overwrite(0, std::as_bytes(std::span(&h, 1)));
  out.keep();
}

}  // namespace lpmm
