// `lpmm data pack-images`: folders of pictures that become one file.
#include <gtest/gtest.h>

#include <filesystem>

#include "lpmm/data/image_file.h"
#include "tests/experiments/program.h"

namespace lpmm {
namespace {
namespace fs = std::filesystem;

const std::string kPictureFolder = LPMM_SOURCE_DIR "/tests/golden/pictures/";

class PackImages : public ProgramTest {
 protected:
  void SetUp() override {
    for (const char* name : {"train/b", "train/a", "val/a", "val/b"}) {
      fs::create_directories(path("set/") + name);
      fs::copy(kPictureFolder + "stripes.png", path("set/") + name + "/1.png");
    }
    fs::copy(kPictureFolder + "stripes.jpg", path("set/train/b/0.jpeg"));
    write("set/train/b/.hidden", "nothing");
  }
  Outcome pack(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"data",   "pack-images", path("set"), path("out.images"),
                                          "--json", "--overwrite"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_lpmm(arguments);
  }
  void refused(int code, const std::vector<std::string>& words, std::vector<std::string> more = {}) const {
    expect_failure(pack(std::move(more)), code, words);
    EXPECT_FALSE(fs::exists(path("out.images")));
  }
};

TEST_F(PackImages, TrainsFromWhatItWrites) {
  const Outcome packed = pack({"--size", "8", "--threads", "2"});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(packed.json()["train_images"], 3);
  EXPECT_EQ(packed.json()["test_images"], 2);
  EXPECT_EQ(packed.json()["classes"], 2);
  const ImageData data = open_image_file(path("out.images"));
  EXPECT_EQ(read_image_facts(path("out.images")).names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.train.labels, (std::vector<std::uint16_t>{0, 1, 1}));
  EXPECT_EQ(data.train.height, 8);
  EXPECT_NEAR(data.train.image(1)[0], data.train.image(2)[0], 6);  // the JPEG comes first by name
  const std::vector<std::string> settings = {
      "--set", "data.set=images", "--set", "data.path=" + path("out.images"),
      "--set", "train.batch=2",   "--set", "train.steps=2"};
  train("run", settings);
  const Outcome eval = run_lpmm({"eval", path("run"), "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(eval.json()["images"], 2) << eval.out;
}

TEST_F(PackImages, SaysThatItTurnsPictures) {
  fs::copy(kPictureFolder + "turned_6.jpg",
           path("set/train/a/0.jpg"));  // left red, right blue; shown: above, below
  const auto red_at_right = [&](const char* orient) {
    const Outcome packed = pack({"--size", "8", "--orient", orient});
    EXPECT_EQ(packed.code, 0) << packed.err;
    EXPECT_NE(packed.err.find("1 of 6 pictures have an orientation"), std::string::npos) << packed.err;
    return open_image_file(path("out.images")).train.image(0)[3 * 7];
  };
  EXPECT_GT(red_at_right("exif"), 150);
  EXPECT_LT(red_at_right("as-stored"), 50);
  EXPECT_EQ(pack({"--size", "8"}).json()["oriented"], 1);
  fs::remove(path("out.images"));
  refused(2, {"--orient"}, {"--orient", "left"});
}

TEST_F(PackImages, ARunDoesNotGoOnWithOtherPictures) {
  ASSERT_EQ(pack({"--size", "8"}).code, 0);
  const std::vector<std::string> settings = {
      "--set", "data.set=images", "--set", "data.path=" + path("out.images"),
      "--set", "train.batch=2",   "--set", "train.steps=2"};
  train("run", settings);
  std::vector<std::string> longer = {"train", config(), "--out", path("run"), "--quiet", "--resume"};
  longer.insert(longer.end(), settings.begin(), settings.end());
  longer.back() = "train.steps=3";
  fs::copy_file(kPictureFolder + "turned_6.jpg", path("set/val/b/1.png"),
                fs::copy_options::overwrite_existing);
  const auto bytes = fs::file_size(path("out.images"));
  ASSERT_EQ(pack({"--size", "8"}).code, 0);
  ASSERT_EQ(fs::file_size(path("out.images")), bytes);
  expect_failure(run_lpmm(longer), 2, {"was trained on other data", "3 images with the checksum"});
  fs::copy_file(kPictureFolder + "stripes.png", path("set/val/b/1.png"),
                fs::copy_options::overwrite_existing);
  ASSERT_EQ(pack({"--size", "8"}).code, 0);
  EXPECT_EQ(run_lpmm(longer).code, 0);
}

TEST_F(PackImages, WhatIsWrongIsNamedAndNothingWritten) {
  expect_failure(run_lpmm({"data", "pack-images", path("set"), path("out.bin")}), 2, {"ends in .images"});
  refused(2, {"--scale-to 7", "--size 8"}, {"--size", "8", "--scale-to", "7"});
  refused(2, {"--size"}, {"--size", "5000"});
  write("set/train/a/2.png", read_file(kPictureFolder + "stripes.png").substr(0, 60));
  refused(1, {path("set/train/a/2.png"), "is no PNG"});
  write("set/train/a/2.png", "text");
  refused(1, {path("set/train/a/2.png"), "neither"});
  fs::remove(path("set/train/a/2.png"));
  fs::create_directory(path("set/val/c"));
  refused(1, {path("set/val/c"), "no pictures"});
  fs::copy(kPictureFolder + "stripes.png", path("set/val/c/1.png"));
  refused(1, {path("set"), "class c", "test images but no training images"});
  fs::remove_all(path("set/val/c"));
  fs::remove_all(path("set/val/b"));
  refused(1, {path("set"), "class b has training images but no test images"});
  fs::remove_all(path("set/val"));
  refused(1, {path("set"), "class a has 1 pictures", "no folder of test pictures"});
  fs::remove_all(path("set/train"));
  refused(1, {path("set"), "0 classes"});
  fs::remove_all(path("set"));
  refused(1, {path("set"), "cannot be read"});
}

TEST_F(PackImages, ADrawnShareIsTestedOn) {
  fs::remove_all(path("set/val"));
  fs::copy(kPictureFolder + "stripes.png", path("set/train/a/2.png"));
  const Outcome packed = pack({"--size", "8"});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(packed.json()["train_images"], 2);
  EXPECT_EQ(packed.json()["test_images"], 2);
  EXPECT_EQ(packed.json()["test_images_are"], "10 % of each class, drawn");
  const std::string bytes = read_file(path("out.images"));
  ASSERT_EQ(pack({"--size", "8", "--seed", "1", "--validation-share", "0.1"}).code, 0);
  EXPECT_EQ(read_file(path("out.images")), bytes);
  fs::remove(path("out.images"));
  refused(2, {"a share of 1"}, {"--validation-share", "1"});
}

TEST_F(PackImages, BrokenPicturesAreLeftOutWhereThatIsAskedFor) {
  write("set/train/a/2.png", read_file(kPictureFolder + "stripes.png").substr(0, 60));
  write("set/train/a/3.heic", std::string("\0\0\0\x18"
                                          "ftypheic",
                                          12));
  write("set/train/a/notes.txt", "text");
  refused(1, {path("set/train/a/3.heic"), "is a HEIC picture", "mogrify", "--skip-broken"});
  const Outcome packed = pack({"--size", "8", "--skip-broken"});
  ASSERT_EQ(packed.code, 0) << packed.err;
  EXPECT_EQ(packed.json()["train_images"], 3);
  EXPECT_EQ(packed.json()["left_out"], 4);  // with .hidden
  for (const std::string words :
       {"1 pictures do not decode", "1 pictures of other formats", "2 files are no pictures"})
    EXPECT_NE(packed.err.find(words), std::string::npos) << packed.err;
  const std::string bytes = read_file(path("out.images"));
  fs::remove(path("set/train/a/3.heic"));
  fs::remove(path("out.images"));
  write("set/val/b/broken.png", "\x89PNG\r\n\x1a\n");
  refused(1, {path("set/train/a/2.png"), "cut off", "There are 2 such files", "--skip-broken"});
  fs::remove(path("set/val/b/broken.png"));
  for (const char* name : {"2.png", "notes.txt"}) fs::remove(path("set/train/a/") + name);
  ASSERT_EQ(pack({"--size", "8"}).code, 0);
  EXPECT_EQ(read_file(path("out.images")), bytes);
  fs::remove(path("out.images"));
  write("set/val/b/1.png", "text");
  refused(1, {"no test picture of class b decodes", path("set/val/b/1.png")}, {"--skip-broken"});
}

}  // namespace
}  // namespace lpmm
