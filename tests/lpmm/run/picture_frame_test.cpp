// Tests how pictures are cut to squares, as files of publishers and of runs say it.
#include "lpmm/run/beside/picture_frame.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "lpmm/files/json.h"
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

TEST_F(PictureFrames, AreReadAsLibrariesWriteThem) {
  EXPECT_EQ(read_frame(scratch_.path()), PictureFrame{});
  EXPECT_EQ(of_timm(R"({"architecture": "x"})"), PictureFrame{});
  EXPECT_EQ(of_timm(R"({"pretrained_cfg": {"input_size": [3, 224, 224], "interpolation": "bilinear"}})"),
            (PictureFrame{224, 256, false}));
  EXPECT_EQ(of_timm(R"({"pretrained_cfg": {"input_size": [3, 224, 224], "crop_pct": 0.9}})"),
            (PictureFrame{224, 248, false, Interpolation::kBicubic}));
  EXPECT_EQ(of_transformers(R"({"image_mean": [0.5]})"),
            (PictureFrame{224, 248, false, Interpolation::kBicubic}));  // timm's
  EXPECT_EQ(
      of_transformers(R"({"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}})"),
      (PictureFrame{224, 256, false}));
  EXPECT_EQ(of_transformers(R"({"size": {"height": 224, "width": 224}, "resample": 3})"),
            (PictureFrame{224, 224, false, Interpolation::kBicubic}));
  EXPECT_EQ(of_transformers(R"({"size": 384, "crop_size": 224, "do_center_crop": false})"),
            (PictureFrame{384, 384, false}));
  EXPECT_EQ(of_transformers(R"({"size": {"shortest_edge": 224}, "crop_pct": 0.875})"),
            (PictureFrame{224, 256, false}));
  refused(R"({"size": {"height": 224, "width": 240}})", "size is {\"height\":224,\"width\":240}, expected");
  refused(R"({"size": {"longest_edge": 224}})", "the side of a square");
  refused(R"({"size": -1})", "from 1 to 4096");
  refused(R"({"crop_size": 1e9})", "from 1 to 4096");
  refused(R"({"size": 18446744073709551615})", "from 1 to 4096");
  refused(R"({"size": 224, "crop_pct": 0})", "crop_pct is 0, expected");
  refused(R"({"size": 224, "crop_pct": "x"})", "crop_pct is \"x\", expected");
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
    EXPECT_EQ(read_frame(scratch_.path()), (PictureFrame{8, 8, false}));
    EXPECT_EQ(read_json(file, 1000)["more"], Json({1}));
  }
}

}  // namespace
}  // namespace lpmm
