// Tests how pictures are cut to squares, as files of publishers and of runs say it.
#include "lpmm/run/beside/picture_frame.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/files/json.h"
#include "lpmm/run/beside/model_files.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

class PictureFrames : public testing::Test {
 protected:
  PictureFrame of_transformers(const std::string& text) const {
    write_text(scratch_ / "preprocessor_config.json", text);
    return read_frame(scratch_.path());
  }
  PictureFrame of_timm(const std::string& text) const {
    write_text(scratch_ / "config.json", text);
    return read_frame(scratch_.path());
  }
  void refused(const std::string& text, const std::string& words) const {
    try {
      of_transformers(text);
      FAIL() << "no error for " << text;
    } catch (const RunError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
  Scratch scratch_;
};

// A frame as transformers cuts it.
PictureFrame theirs(int side, int scale_to, bool squashes = false,
                    Interpolation way = Interpolation::kBilinear) {
  return {side, scale_to, false, way, Edges::kTransformers, squashes};
}
PictureFrame timms(int side, int scale_to, Interpolation way = Interpolation::kBicubic,
                   bool squashes = false) {
  return {side, scale_to, false, way, Edges::kTorchvision, squashes};
}

TEST_F(PictureFrames, AreReadAsLibrariesWriteThem) {
  EXPECT_EQ(read_frame(scratch_.path()), PictureFrame{});
  EXPECT_EQ(of_timm(R"({"architecture": "x"})"), PictureFrame{});
  EXPECT_EQ(of_timm(R"({"pretrained_cfg": {"input_size": [3, 224, 224], "interpolation": "bilinear"}})"),
            timms(224, 256, Interpolation::kBilinear));
  EXPECT_EQ(of_timm(R"({"pretrained_cfg": {"input_size": [3, 224, 224], "interpolation": "lanczos"}})"),
            timms(224, 256, Interpolation::kLanczos));
  EXPECT_EQ(
      of_timm(
          R"({"pretrained_cfg": {"input_size": [3, 64, 64], "crop_mode": "squash", "interpolation": "nearest"}})"),
      timms(64, 73, Interpolation::kNearest, true));
  EXPECT_EQ(of_timm(R"({"pretrained_cfg": {"input_size": [3, 224, 224], "crop_pct": 0.9}})"),
            timms(224, 248));
  EXPECT_EQ(of_transformers(R"({"image_mean": [0.5]})"), timms(224, 248));  // of config.json
  EXPECT_EQ(
      of_transformers(R"({"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}})"),
      theirs(224, 256));
  EXPECT_EQ(of_transformers(R"({"size": {"shortest_edge": 224}, "crop_pct": 0.875})"), theirs(224, 256));
  for (const auto& [number, way] :
       {std::pair{0, Interpolation::kNearest}, std::pair{1, Interpolation::kLanczos},
        std::pair{3, Interpolation::kBicubic}, std::pair{4, Interpolation::kBox},
        std::pair{5, Interpolation::kHamming}, std::pair{9, Interpolation::kBilinear}}) {
    EXPECT_EQ(
        of_transformers(R"({"size": {"shortest_edge": 8}, "resample": )" + std::to_string(number) + "}"),
        theirs(8, 8, false, way));
  }
}

// Height and width are those of the whole picture, and a bare number is both, but in some classes.
TEST_F(PictureFrames, AreSquashedWhereTransformersDoesThat) {
  EXPECT_EQ(of_transformers(R"({"size": {"height": 224, "width": 224}})"), theirs(224, 224, true));
  EXPECT_EQ(of_transformers(R"({"size": {"height": 256, "width": 256}, "crop_size": 224})"),
            theirs(224, 256, true));
  EXPECT_EQ(of_transformers(R"({"size": 384, "crop_size": 224, "do_center_crop": false})"),
            theirs(384, 384, true));
  EXPECT_EQ(
      of_transformers(R"({"size": 256, "crop_size": 224, "image_processor_type": "CLIPImageProcessor"})"),
      theirs(224, 256));
  const std::string convnext = R"("feature_extractor_type": "ConvNextFeatureExtractor"})";
  EXPECT_EQ(of_transformers(R"({"size": 224, )" + convnext), theirs(224, 256));
  EXPECT_EQ(of_transformers(R"({"size": {"shortest_edge": 384}, "crop_pct": 0.9, )" + convnext),
            theirs(384, 384, true));
  of_timm(R"({"model_type": "resnet"})");  // whose class it is
  EXPECT_EQ(of_transformers(R"({"size": 384})"), theirs(384, 384, true));
  EXPECT_EQ(of_transformers(R"({"size": 224})"), theirs(224, 256));
}

TEST_F(PictureFrames, SettingsThatAreNotDoneAreNamed) {
  const auto unread = [&](const std::string& text, const std::string& config) {
    of_timm(config);
    write_text(scratch_ / "preprocessor_config.json", text);
    std::string all;
    for (const std::string& one : unread_of_frame(scratch_.path())) all += one + "\n";
    return all;
  };
  const std::string timm = R"({"pretrained_cfg": {"input_size": [3, 8, 8], "crop_mode": )";
  EXPECT_EQ(unread(R"({"size": 8, "do_resize": true, "do_pad": false, "resample": 1})", "{}"), "");
  EXPECT_EQ(unread("{}", timm + R"("squash"}})") + unread("{}", timm + R"("center"}})"), "");
  for (const auto& [said, words] :
       {std::pair{R"("do_resize": false)", "do_resize is false"},
        std::pair{R"("do_pad": true)", "do_pad is true"}, std::pair{R"("resample": 9)", "resample is 9"},
        std::pair{R"("crop_size": 16)", "crop_size is 16"}}) {
    const std::string told = unread(fmt::format(R"({{"size": 8, {}}})", said), "{}");
    EXPECT_NE(told.find(words), std::string::npos) << told;
    EXPECT_EQ(std::ranges::count(told, '\n'), 1) << told;
  }
  EXPECT_NE(unread("{}", timm + R"("border"}})").find("crop_mode is \"border\""), std::string::npos);
  EXPECT_NE(unread("{}", timm + R"("center", "interpolation": "x"}})").find("interpolation is \"x\""),
            std::string::npos);
  EXPECT_NE(unread(R"({"size": {"height": 8, "width": 9}})", "{}").find("are refused"), std::string::npos);
}

// What lies there is of a run that an earlier lpmm trained: its file of pictures says how they were cut.
TEST_F(PictureFrames, OfARunAreThoseOfItsPictures) {
  const std::string checkpoint = scratch_ / "checkpoints/step_00000001", file = scratch_ / "p.images";
  std::filesystem::create_directories(scratch_ / kModelFiles);
  write_text(scratch_ / "model_files/preprocessor_config.json", R"({"size": {"height": 2, "width": 2}})");
  EXPECT_EQ(frame_of_run(checkpoint), theirs(2, 2, true));
  write_text(scratch_ / "config.toml", fmt::format("[data]\npath = \"{}\"\n", file));
  EXPECT_EQ(frame_of_run(checkpoint), theirs(2, 2, true));
  ImageFileFacts facts;
  facts.height = facts.width = 2;
  facts.channels = 3;
  facts.names = {"a", "b"};
  facts.train = facts.test = 1;
  facts.frame = {2, 3};
  const std::vector<std::uint8_t> image(12);
  write_image_file(file, facts, std::vector<std::uint16_t>(2),
                   [&]() -> std::span<const std::uint8_t> { return image; });
  EXPECT_EQ(frame_of_run(checkpoint), (PictureFrame{2, 3}));
  // A run that begins with that file writes it down where the model's files say otherwise.
  keep_frame(scratch_ / kModelFiles, open_image_file(file));
  EXPECT_EQ(read_frame(scratch_ / kModelFiles), (PictureFrame{2, 3}));
  facts.frame = {2, 3, true, Interpolation::kBox, Edges::kTorchvision, true};
  write_image_file(file, facts, std::vector<std::uint16_t>(2),
                   [&]() -> std::span<const std::uint8_t> { return image; });
  keep_frame(scratch_ / kModelFiles, open_image_file(file));
  EXPECT_EQ(read_frame(scratch_ / kModelFiles), facts.frame);
}

TEST_F(PictureFrames, ThatAreNoSquaresAreRefused) {
  refused(R"({"size": {"height": 224, "width": 240}})", "size is {\"height\":224,\"width\":240}, expected");
  refused(R"({"size": {"longest_edge": 224}})", "the side of a square");
  refused(R"({"size": -1})", "from 1 to 4096");
  refused(R"({"crop_size": 1e9})", "from 1 to 4096");
  refused(R"({"size": 18446744073709551615})", "from 1 to 4096");
  refused(R"({"size": {"shortest_edge": 224}, "crop_pct": 0})", "crop_pct is 0, expected");
  refused(R"({"size": {"shortest_edge": 224}, "crop_pct": "x"})", "crop_pct is \"x\", expected");
}

TEST_F(PictureFrames, OfDataAreWrittenWhereFilesSayOtherwise) {
  const std::string file = scratch_ / "preprocessor_config.json";
  ImageData data;  // pictures of 32 x 32
  const std::string same = R"({"size": 32, "more": [1]})";
  write_text(file, same);
  keep_frame(scratch_.path(), data);
  EXPECT_EQ(read_text(file, 1000), same);
  data.train.height = data.train.width = 8;
  for (const char* other :
       {R"({"size": 32, "crop_pct": 0.5, "more": [1]})", R"({"size": [], "more": [1]})"}) {
    write_text(file, other);
    keep_frame(scratch_.path(), data);
    const PictureFrame frame = read_frame(scratch_.path());
    EXPECT_EQ(std::pair(frame.side, frame.scale_to), std::pair(8, 8));
    EXPECT_EQ(read_json(file, 1000)["more"], Json({1}));
  }
}

}  // namespace
}  // namespace lpmm
