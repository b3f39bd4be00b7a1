#include "lpmm/data/images.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "kernels/threads/pool.h"
#include "lpmm/base/error.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

constexpr std::int64_t kFileBytes = 30'730'000;

// A folder with CIFAR-10 files of zeros (black images of class 0), removed at the end.
class CifarTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("lpmm_data_test_" + std::to_string(getpid()));
    fs::create_directories(folder_ / "cifar-10-batches-bin");
    for (const char* name : kNames) {
      std::ofstream(path(name)).close();
      fs::resize_file(path(name), kFileBytes);
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path path(const std::string& name) const { return folder_ / "cifar-10-batches-bin" / name; }
  void poke(const std::string& name, std::int64_t at, std::uint8_t value) const {
    std::fstream file(path(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put(static_cast<char>(value));
  }
  void expect_error(const std::vector<std::string>& parts) const {
    try {
      load_cifar10(folder_.string());
      FAIL() << "no error";
    } catch (const RunError& error) {
      for (const std::string& part : parts) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " in " << error.what();
      }
    }
  }

  static constexpr const char* kNames[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};
  fs::path folder_;
};

TEST_F(CifarTest, ReadsLabelsAndTurnsPlanesIntoPixels) {
  // Record 2 of the third file: label 7, at row 5, column 6 red 10, green 20, blue 30.
  const std::int64_t record = 2 * 3073, pixel = 5 * 32 + 6;
  poke("data_batch_3.bin", record, 7);
  for (int c = 0; c < 3; ++c) {
    poke("data_batch_3.bin", record + 1 + c * 1024 + pixel, static_cast<std::uint8_t>(10 * (c + 1)));
  }
  poke("test_batch.bin", 9999 * 3073, 9);
  const ImageData data = load_cifar10(folder_.string());
  EXPECT_EQ(data.train.count, 50000);
  EXPECT_EQ(data.test.count, 10000);
  EXPECT_EQ(data.train.labels[20002], 7);
  EXPECT_EQ(data.test.labels[9999], 9);
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(data.train.pixels[20002 * 3072 + 3 * pixel + c], 10 * (c + 1));
    const double n = 50000.0 * 1024, value = 10.0 * static_cast<double>(c + 1);
    EXPECT_FLOAT_EQ(data.mean[c], static_cast<float>(value / n));
  }
}

TEST_F(CifarTest, MissingFileIsNamed) {
  fs::remove(path("data_batch_1.bin"));
  expect_error({"data_batch_1.bin", "No such file", "30730000", "LPMM_DATA"});
}
TEST_F(CifarTest, TruncatedFileIsNamed) {
  fs::resize_file(path("data_batch_1.bin"), kFileBytes - 1);
  expect_error({"data_batch_1.bin", "30729999 bytes", "30730000", "truncated"});
}
TEST_F(CifarTest, LongFileIsNamed) {
  fs::resize_file(path("data_batch_1.bin"), kFileBytes + 3073);
  expect_error({"data_batch_1.bin", "30733073 bytes"});
}
TEST_F(CifarTest, EmptyFileIsNamed) {
  fs::resize_file(path("data_batch_1.bin"), 0);
  expect_error({"data_batch_1.bin", "0 bytes", "empty"});
}
TEST_F(CifarTest, LabelOutOfRangeIsNamed) {
  poke("data_batch_1.bin", 123 * 3073, 10);
  expect_error({"data_batch_1.bin", "record 123", "label 10", "0 to 9"});
}
TEST_F(CifarTest, FolderInPlaceOfFileIsAnError) {
  fs::remove(path("data_batch_1.bin"));
  fs::create_directory(path("data_batch_1.bin"));
  expect_error({"data_batch_1.bin"});
}

TEST(Cifar10, TheRealFilesHoldWhatIsKnownOfThem) {
  if (!has_cifar10(data_folder())) GTEST_SKIP() << "$LPMM_DATA/cifar-10-batches-bin is not here";
  const ImageData data = load_cifar10(data_folder());
  for (const ImageSet* set : {&data.train, &data.test}) {
    std::array<std::int64_t, 10> labels{};
    for (const std::uint16_t label : set->labels) ++labels[label];
    for (const std::int64_t count : labels) EXPECT_EQ(count, set->count / 10) << set->count;
  }
  // The published means of the training images' colours; files made again from JPEG are 2e-4 off.
  EXPECT_NEAR(data.mean[0] / 255, 0.4914, 5e-4);
  EXPECT_NEAR(data.mean[1] / 255, 0.4822, 5e-4);
  EXPECT_NEAR(data.mean[2] / 255, 0.4465, 5e-4);
}

TEST(DataFolder, IsTheVariableThenTheCache) {
  const fs::path home = fs::temp_directory_path() / ("lpmm_home_" + std::to_string(getpid()));
  const std::string old_home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  const char* variable = std::getenv("LPMM_DATA");
  const std::string old_data = variable != nullptr ? variable : "";
  fs::create_directories(home);
  setenv("HOME", home.c_str(), 1);
  unsetenv("LPMM_DATA");
  EXPECT_EQ(data_folder(), (home / ".cache" / "lpmm").string());
  EXPECT_FALSE(has_cifar10(data_folder()));
  EXPECT_THROW(load_cifar10(data_folder()), RunError);
  unsetenv("HOME");
  EXPECT_EQ(data_folder(), "");
  EXPECT_FALSE(has_cifar10(data_folder()));
  EXPECT_THROW(load_cifar10(data_folder()), RunError);
  setenv("LPMM_DATA", "/somewhere", 1);
  EXPECT_EQ(data_folder(), "/somewhere");
  setenv("HOME", old_home.c_str(), 1);
  if (variable != nullptr) {
    setenv("LPMM_DATA", old_data.c_str(), 1);
  } else {
    unsetenv("LPMM_DATA");
  }
  fs::remove_all(home);
}

// A set whose image i has label i % 10 and pixel (y, x) = (x, y, i % 256), each value plus one; mean 0 and
// deviation 1, so that batches hold these numbers and the padding stays 0.
ImageData numbered(std::int64_t count) {
  ImageData data;
  data.train.name = "numbered";
  for (float& d : data.deviation) d = 1;
  data.train.count = count;
  for (std::int64_t i = 0; i < count; ++i) {
    data.train.labels.push_back(static_cast<std::uint16_t>(i % 10));
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 32; ++x) {
        for (const std::int64_t v : {std::int64_t{x}, std::int64_t{y}, i % 255}) {
          data.train.pixels.push_back(static_cast<std::uint8_t>(v + 1));
        }
      }
    }
  }
  data.test = data.train;
  return data;
}
int image_of(const Batch& batch, std::int64_t i) {
  return static_cast<int>(batch.images[static_cast<std::size_t>(i * 3072 + (16 * 32 + 16) * 3 + 2)]) - 1;
}
std::vector<int> order(const ImageData& data, std::uint64_t seed, std::int64_t epoch, int batch) {
  std::vector<int> images;
  Batch out;
  for (std::int64_t index = 0; index < steps_per_epoch(data, batch); ++index) {
    data.make_batch({seed, batch, 1, false}, epoch, index, 0, out);
    for (std::int64_t i = 0; i < out.count; ++i) {
      images.push_back(image_of(out, i));
      EXPECT_EQ(out.labels[static_cast<std::size_t>(i)], images.back() % 10);
    }
  }
  return images;
}

TEST(Batches, AnEpochHoldsEveryImageOnceInAnOrderOfItsOwn) {
  const ImageData data = numbered(250);
  std::set<std::vector<int>> orders;
  for (const std::uint64_t seed : {1, 2}) {
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      const std::vector<int> images = order(data, seed, epoch, 10);
      EXPECT_EQ(std::set<int>(images.begin(), images.end()).size(), 250U);
      orders.insert(images);
    }
  }
  EXPECT_EQ(orders.size(), 8U);
}

// Every image is as likely at every place: chi-square over image x place of 20 images in 4000 epochs,
// 361 degrees of freedom; 1e-6 of true permutations exceed 500.
TEST(Batches, OrderIsUniform) {
  const ImageData data = numbered(20);
  std::vector<int> counts(400);
  for (std::int64_t epoch = 0; epoch < 4000; ++epoch) {
    const std::vector<int> images = order(data, 3, epoch, 20);
    for (std::size_t place = 0; place < 20; ++place) {
      ++counts[place * 20 + static_cast<std::size_t>(images[place])];
    }
  }
  double chi_square = 0;
  for (const int c : counts) chi_square += (c - 200.0) * (c - 200.0) / 200.0;
  EXPECT_LT(chi_square, 500);
  EXPECT_GT(chi_square, 240);
}

TEST(Batches, MicrobatchesTogetherAreTheBatch) {
  const ImageData data = numbered(64);
  Batch whole, part;
  data.make_batch({5, 32, 1, true}, 7, 1, 0, whole);
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  for (int microbatch = 0; microbatch < 4; ++microbatch) {
    data.make_batch({5, 32, 4, true}, 7, 1, microbatch, part);
    EXPECT_EQ(part.count, 8);
    images.insert(images.end(), part.images.begin(), part.images.end());
    labels.insert(labels.end(), part.labels.begin(), part.labels.end());
  }
  EXPECT_EQ(images, whole.images);
  EXPECT_EQ(labels, whole.labels);
}

TEST(Batches, AugmentationIsEveryWindowOfThePaddedImageMirroredOrNot) {
  const ImageData data = numbered(200);
  std::set<int> seen;
  Batch batch;
  for (std::int64_t epoch = 0; epoch < 10; ++epoch) {
    data.make_batch({1, 200, 1, true}, epoch, 0, 0, batch);
    for (std::int64_t i = 0; i < batch.count; ++i) {
      const float* image = batch.images.data() + i * 3072;
      const auto value = [&](int y, int x, int c) { return static_cast<int>(image[(y * 32 + x) * 3 + c]); };
      const bool flip = value(16, 17, 0) < value(16, 16, 0);
      const int dx = value(16, 16, 0) - 1 - 16, dy = value(16, 16, 1) - 1 - 16;
      const int shift_x = flip ? 31 - (value(16, 16, 0) - 1) - 16 : dx;
      ASSERT_LE(std::abs(shift_x), 4);
      ASSERT_LE(std::abs(dy), 4);
      seen.insert(((shift_x + 4) * 9 + dy + 4) * 2 + (flip ? 1 : 0));
      for (int y = 0; y < 32; ++y) {
        for (int x = 0; x < 32; ++x) {
          const int from_x = x + shift_x, from_y = y + dy;
          const bool inside = from_x >= 0 && from_x < 32 && from_y >= 0 && from_y < 32;
          ASSERT_EQ(value(y, x, 0), inside ? (flip ? 31 - from_x : from_x) + 1 : 0);
          ASSERT_EQ(value(y, x, 1), inside ? from_y + 1 : 0);
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 162U);
}

TEST(Batches, PixelsAreNormalised) {
  ImageData data = numbered(10);
  for (int c = 0; c < 3; ++c) {
    data.mean[c] = static_cast<float>(4 + c);
    data.deviation[c] = static_cast<float>(2 << c);
  }
  Batch batch;
  data.make_test_batch(3, 5, batch);
  ASSERT_EQ(batch.count, 5);
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(batch.labels[static_cast<std::size_t>(i)], 3 + i);
    const float* pixel = batch.images.data() + i * 3072 + (9 * 32 + 30) * 3;
    EXPECT_FLOAT_EQ(pixel[0], (31.0F - 4) / 2);
    EXPECT_FLOAT_EQ(pixel[1], (10.0F - 5) / 4);
    EXPECT_FLOAT_EQ(pixel[2], (static_cast<float>(i) + 4 - 6) / 8);
  }
}

TEST(Batches, ATooLargeBatchIsAnError) {
  EXPECT_EQ(steps_per_epoch(numbered(10), 4), 2);
  EXPECT_THROW(steps_per_epoch(numbered(10), 11), RunError);
}

TEST(PrefetchThread, GivesTheSameBatchesAcrossEpochs) {
  const ImageData data = numbered(40);
  const BatchPlan plan{9, 16, 2, true};  // two steps an epoch
  Prefetcher prefetcher(data, plan, 3, 1);
  Batch expected;
  for (int microbatch = 0; microbatch < 16; ++microbatch) {
    const std::int64_t step = 3 * 2 + 1 + microbatch / 2;
    data.make_batch(plan, step / 2, step % 2, microbatch % 2, expected);
    const Batch& batch = prefetcher.next();
    ASSERT_EQ(batch.labels, expected.labels);
    ASSERT_EQ(batch.images, expected.images);
  }
}

TEST(PrefetchThread, CarriesItsThreadsErrorOver) {
  const ImageData data = numbered(10);
  Prefetcher prefetcher(data, {1, 16, 1, false}, 0, 0);
  EXPECT_THROW(prefetcher.next(), RunError);
  EXPECT_THROW(prefetcher.next(), RunError);
}

TEST(Drawn, BytesAreFixed) {
  Pool pool(3);
  const ImageData data = draw_images(200, 50, 1, pool);
  const auto hash = [](const std::vector<std::uint8_t>& bytes) {  // FNV-1a
    std::uint64_t h = 0xCBF29CE484222325U;
    for (const std::uint8_t b : bytes) h = (h ^ b) * 0x100000001B3U;
    return h;
  };
  EXPECT_EQ(hash(data.train.pixels), 13509650352172533546U);
  EXPECT_EQ(hash(data.test.pixels), 14122410856457764911U);
}

TEST(Drawn, AnImageDependsOnlyOnSeedSplitAndIndex) {
  Pool one(1), three(3);
  const ImageData small = draw_images(70, 70, 4, one), large = draw_images(300, 130, 4, three);
  EXPECT_TRUE(std::equal(small.train.pixels.begin(), small.train.pixels.end(), large.train.pixels.begin()));
  EXPECT_TRUE(std::equal(small.test.pixels.begin(), small.test.pixels.end(), large.test.pixels.begin()));
  EXPECT_NE(small.train.pixels, small.test.pixels);
  EXPECT_NE(small.train.pixels, draw_images(70, 70, 5, one).train.pixels);
  for (std::size_t i = 0; i < 300; ++i) EXPECT_EQ(large.train.labels[i], i % 10);
}

TEST(Drawn, SizesOutOfRangeAreRefused) {
  Pool pool(1);
  EXPECT_THROW(draw_images(0, 10, 1, pool), UsageError);
  EXPECT_THROW(draw_images(10, 1'000'000'000'000, 1, pool), UsageError);
}

}  // namespace
}  // namespace lpmm
