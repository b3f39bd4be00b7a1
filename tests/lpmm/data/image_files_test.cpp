// Image sets from files: IDX, packed ones, and how a path is told apart.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "lpmm/base/error.h"
#include "lpmm/data/idx.h"
#include "lpmm/data/image_file.h"
#include "lpmm/data/image_sets.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

void expect_file_refused(const std::function<void()>& body, const std::vector<std::string>& parts) {
  try {
    body();
    FAIL() << "no error";
  } catch (const RunError& error) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " in " << error.what();
    }
  }
}

std::string big_endian(std::uint32_t x) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(x >> shift);
  return bytes;
}
std::string idx_images(std::uint32_t count, std::uint32_t height, std::uint32_t width) {
  std::string bytes = big_endian(0x803) + big_endian(count) + big_endian(height) + big_endian(width);
  for (std::uint32_t i = 0; i < count * height * width; ++i) bytes += static_cast<char>(i * 7);
  return bytes;
}
std::string idx_labels(const std::string& labels) {
  return big_endian(0x801) + big_endian(static_cast<std::uint32_t>(labels.size())) + labels;
}
// A gzip file of one block that is stored as it is.
std::string gzipped(const std::string& bytes) {
  const auto little = [](std::uint32_t x, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += static_cast<char>(x >> 8 * i);
    return out;
  };
  const auto size = static_cast<std::uint32_t>(bytes.size());
  return std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x01", 11) + little(size, 2) + little(~size, 2) + bytes +
         little(crc32(std::as_bytes(std::span(bytes))), 4) + little(size, 4);
}

// Four training images and two test images of 3 x 5, in three classes.
class IdxTest : public testing::Test {
 protected:
  void SetUp() override {
    write("train-images-idx3-ubyte", idx_images(4, 3, 5));
    write("train-labels-idx1-ubyte", idx_labels({0, 2, 1, 1}));
    write("t10k-images-idx3-ubyte", idx_images(2, 3, 5));
    write("t10k-labels-idx1-ubyte", idx_labels({2, 0}));
  }
  void write(const std::string& name, const std::string& bytes) const { write_text(scratch_ / name, bytes); }
  ImageData load() const { return load_idx(scratch_.path(), "small"); }
  void refused(const std::vector<std::string>& parts) const {
    expect_file_refused([&] { load(); }, parts);
  }
  Scratch scratch_;
};

TEST_F(IdxTest, IsReadAsItIsAndCompressed) {
  const ImageData plain = load();
  EXPECT_EQ(plain.train.name, "small");
  EXPECT_EQ(plain.train.count, 4);
  EXPECT_EQ(plain.test.count, 2);
  EXPECT_EQ(plain.train.height, 3);
  EXPECT_EQ(plain.train.width, 5);
  EXPECT_EQ(plain.train.channels, 1);
  EXPECT_EQ(plain.train.classes, 3);
  EXPECT_EQ(plain.train.labels, (std::vector<std::uint16_t>{0, 2, 1, 1}));
  EXPECT_EQ(plain.train.image(3)[14], static_cast<std::uint8_t>(59 * 7));
  double sum = 0;
  for (const std::uint8_t p : plain.train.pixels) sum += p;
  EXPECT_FLOAT_EQ(plain.mean[0], static_cast<float>(sum / 60));
  for (const char* name : {"train-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const std::string bytes = read_text(scratch_ / name, 1000);
    fs::remove(scratch_ / name);
    write(std::string(name) + ".gz", gzipped(bytes));
  }
  EXPECT_TRUE(has_idx(scratch_.path()));
  const ImageData packed = load();
  EXPECT_EQ(packed.train.pixels, plain.train.pixels);
  EXPECT_EQ(packed.test.labels, plain.test.labels);
}

// Batches are as large as the images, and augmented ones windows of them.
TEST_F(IdxTest, BatchesHaveTheSetsShape) {
  ImageData data = load();
  data.mean[0] = 0;
  data.deviation[0] = 1;
  Batch batch;
  data.make_test_batch(1, 1, batch);
  ASSERT_EQ(batch.images.size(), 15U);
  EXPECT_EQ(batch.labels, (std::vector<std::int32_t>{0}));
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(batch.images[i], static_cast<float>(data.test.image(1)[i]));
  data.make_batch({1, 4, 1, true}, 0, 0, 0, batch);
  EXPECT_EQ(batch.images.size(), 60U);
}

TEST_F(IdxTest, WhatIsWrongIsNamed) {
  fs::remove(scratch_ / "t10k-images-idx3-ubyte");
  refused({scratch_.path(), "t10k-images-idx3-ubyte", "lpmm data get"});
  write("t10k-images-idx3-ubyte", idx_images(2, 3, 4));
  refused({"3 x 5", "3 x 4"});
  write("t10k-images-idx3-ubyte", idx_images(2, 3, 5).substr(0, 45));
  refused({"t10k-images-idx3-ubyte", "cut off"});
  write("t10k-images-idx3-ubyte", idx_images(2, 3, 5) + "x");
  refused({"t10k-images-idx3-ubyte", "longer"});
  write("t10k-images-idx3-ubyte",
        big_endian(0x803) + big_endian(4'000'000'000U) + big_endian(4096) + big_endian(4096));
  refused({"t10k-images-idx3-ubyte", "4000000000 images of 4096 x 4096"});
  write("t10k-images-idx3-ubyte",
        big_endian(0x803) + big_endian(1'000'000) + big_endian(200) + big_endian(200));
  write("t10k-labels-idx1-ubyte", big_endian(0x801) + big_endian(1'000'000));
  refused({"cut off"});
  write("t10k-images-idx3-ubyte", idx_labels({2, 0}));
  refused({"0x00000801", "0x00000803"});
  write("t10k-images-idx3-ubyte", "");
  refused({"t10k-images-idx3-ubyte", "cut off"});
  write("t10k-images-idx3-ubyte", idx_images(2, 3, 5));
  write("t10k-labels-idx1-ubyte", idx_labels({0, 1, 2}));
  refused({"t10k-labels-idx1-ubyte", "3 labels for 2 images"});
  write("t10k-labels-idx1-ubyte", idx_labels({0, 3}));
  refused({"labels are 0 to 2, test labels go to 3"});
  const std::string packed = gzipped(idx_labels({0, 1}));
  fs::remove(scratch_ / "t10k-labels-idx1-ubyte");
  write("t10k-labels-idx1-ubyte.gz", packed.substr(0, packed.size() - 9));
  refused({"t10k-labels-idx1-ubyte.gz", "cut off"});
  write("t10k-labels-idx1-ubyte.gz", packed.substr(0, packed.size() - 2));
  refused({"t10k-labels-idx1-ubyte.gz", "cut off"});
  std::string damaged = packed;
  damaged[damaged.size() - 6] ^= 1;  // a byte of its checksum
  write("t10k-labels-idx1-ubyte.gz", damaged);
  refused({"t10k-labels-idx1-ubyte.gz", "cannot be read"});
}

// ---- packed
// ------------------------------------------------------------------------------------------------ Three
// training images and one test image of 2 x 2 x 3.
class ImageFileTest : public testing::Test {
 protected:
  static ImageFileFacts facts() {
    ImageFileFacts f;
    f.height = f.width = 2;
    f.channels = 3;
    f.names = {"cat", "dog", "owl"};
    f.train = 3;
    f.test = 1;
    f.frame = {2, 2, false};
    return f;
  }
  void SetUp() override { pack({0, 2, 1, 2}); }
  void pack(const std::vector<std::uint16_t>& labels) const {
    std::vector<std::uint8_t> image(12);
    int i = 0;
    write_image_file(path_, facts(), labels, [&]() -> std::span<const std::uint8_t> {
      for (std::uint8_t& p : image) p = static_cast<std::uint8_t>(10 * i + (&p - image.data()) % 3);
      ++i;
      return image;
    });
  }
  void poke(std::size_t at, char value) const {
    std::string bytes = read_text(path_, 10000);
    bytes[at] = value;
    write_text(path_, bytes);
  }
  void refused(const std::vector<std::string>& parts) const {
    expect_file_refused([&] { open_image_file(path_); }, parts);
    SetUpAgain();
  }
  void SetUpAgain() const { pack({0, 2, 1, 2}); }
  Scratch scratch_;
  std::string path_ = scratch_ / "some.images";
};

TEST_F(ImageFileTest, HoldsWhatWasWritten) {
  const ImageFileFacts read = read_image_facts(path_);
  EXPECT_EQ(read.names, facts().names);
  EXPECT_EQ(read.train, 3);
  EXPECT_EQ(read.test, 1);
  const ImageData data = open_image_file(path_);
  EXPECT_EQ(data.train.labels, (std::vector<std::uint16_t>{0, 2, 1}));
  EXPECT_EQ(data.test.labels, (std::vector<std::uint16_t>{2}));
  EXPECT_EQ(data.train.classes, 3);
  EXPECT_EQ(data.class_names, facts().names);
  EXPECT_TRUE(data.train.pixels.empty());
  EXPECT_EQ(data.train.image(2)[4], 21);
  EXPECT_EQ(data.test.image(0)[11], 32);
  // Statistics of the training images alone: 0, 10 and 20, plus the channel.
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_FLOAT_EQ(data.mean[c], 10 + static_cast<float>(c));
    EXPECT_FLOAT_EQ(data.deviation[c], std::sqrt(200.0F / 3));
  }
}

// A file cut in the usual way has the same bytes as before files said how they were cut.
TEST_F(ImageFileTest, SaysHowItsPicturesWereCut) {
  const std::string usual = read_text(path_, 10000);
  EXPECT_EQ(read_image_facts(path_).frame, (PictureFrame{2, 2, false}));
  EXPECT_EQ(usual.substr(72, 8), std::string(8, '\0'));
  ImageFileFacts f = facts();
  const auto pack_as = [&](const PictureFrame& frame) {
    f.frame = frame;
    const std::vector<std::uint8_t> image(12);
    write_image_file(path_, f, std::vector<std::uint16_t>(4),
                     [&]() -> std::span<const std::uint8_t> { return image; });
    return read_image_facts(path_).frame;
  };
  for (const PictureFrame& frame :
       {PictureFrame{2, 3, true}, PictureFrame{2, 2, true},
        PictureFrame{2, 4, false, Interpolation::kBicubic},
        PictureFrame{2, 3, true, Interpolation::kHamming, Edges::kTorchvision},
        PictureFrame{2, 2, false, Interpolation::kBilinear, Edges::kTransformers, true}})
    EXPECT_EQ(pack_as(frame), frame);
  poke(72, 1);
  refused({"scaled to 1", "damaged"});
  for (const int way : {14, 48, 128}) {  // no interpolation, no edges, no flag
    pack_as({2, 2});
    poke(76, static_cast<char>(way));
    refused({fmt::format("in the way {}", way), "damaged"});
  }
}

TEST_F(ImageFileTest, DamageIsNamed) {
  poke(0, 'x');
  EXPECT_FALSE(is_image_file(path_));
  refused({path_, "does not start with lpmmimg"});
  poke(8, 2);
  refused({"version 2"});
  poke(14, 1);  // the height is 65,538
  refused({"65538 x 2 x 3"});
  poke(24, 4);
  refused({"names 3 classes", "4"});
  poke(32, 4);  // a training image more
  refused({"cut off or damaged"});
  poke(48 + 3, '\x7f');  // the mean is infinite or NaN
  poke(48 + 2, '\xff');
  refused({"a mean of"});
  poke(130, 9);  // the label of an image
  refused({"image 1 has label 9", "0 to 2"});
  write_text(path_, read_text(path_, 10000).substr(0, 100));
  refused({"100 bytes"});
  write_text(path_, "lpmm");
  refused({"4 bytes"});
  fs::remove(path_);
  refused({path_});
}

TEST_F(ImageFileTest, NothingIsLeftOfOneThatFails) {
  fs::remove(path_);
  const std::vector<std::uint16_t> labels(4);
  EXPECT_THROW(write_image_file(path_, facts(), labels,
                                []() -> std::span<const std::uint8_t> { throw RunError("x"); }),
               RunError);
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

// ---- sets
// ----------------------------------------------------------------------------------------------------
TEST_F(ImageFileTest, PathsAreToldApart) {
  const std::string set(kImagesByPath);
  EXPECT_EQ(load_images(set, path_).train.height, 2);
  const ImageData described = describe_images(set, path_);
  EXPECT_EQ(described.train.classes, 3);
  EXPECT_EQ(described.class_names, facts().names);
  EXPECT_EQ(described.test.count, 1);
  expect_file_refused([&] { load_images(set, scratch_.path()); },
                      {scratch_.path(), "pack-images", "IDX", "CIFAR"});
  expect_file_refused([&] { load_images(set, scratch_ / "no"); }, {scratch_ / "no", "not there"});
  EXPECT_THROW(load_images(set, ""), UsageError);
}
TEST_F(IdxTest, PathsAreToldApart) {
  EXPECT_EQ(load_images(std::string(kImagesByPath), scratch_.path()).test.count, 2);
}

// The real files, where they are.
TEST(FashionMnist, TheRealFilesHoldWhatIsKnownOfThem) {
  const std::string folder = (fs::path(data_folder()) / "fashion-mnist").string();
  if (!has_idx(folder)) GTEST_SKIP() << "$LPMM_DATA/fashion-mnist is not here";
  const ImageData data = load_images("fashion-mnist", "");
  std::vector<int> counts(10);
  for (const std::uint16_t label : data.train.labels) ++counts[label];
  EXPECT_EQ(counts, std::vector<int>(10, 6000));
  EXPECT_NEAR(data.mean[0] / 255, 0.2860, 1e-4);
  EXPECT_NEAR(data.deviation[0] / 255, 0.3530, 1e-4);
}

}  // namespace
}  // namespace lpmm
