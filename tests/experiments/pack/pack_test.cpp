// Pictures that are decoded and scaled.
#include <gtest/gtest.h>

#include "experiments/pack/decode.h"
#include "experiments/pack/exif.h"
#include "lpmm/base/error.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

const std::string kPictures = LPMM_SOURCE_DIR "/tests/golden/pictures/";

std::string picture_bytes(const std::string& name) {
  return read_text(kPictures + name, 1 << 20);
}
DecodedPicture decoded_picture(const std::string& bytes, const std::string& name = "picture") {
  return decode_picture({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, name);
}
void expect_picture_refused(const std::string& bytes, const std::string& part) {
  try {
    decoded_picture(bytes, "some/picture");
    FAIL() << "no error";
  } catch (const RunError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("some/picture: ")) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

// 24 x 16: a third of it red (200), green (160), blue (240). A JPEG rounds.
TEST(Pictures, JpegAndPngAreDecoded) {
  const DecodedPicture exact = decoded_picture(picture_bytes("stripes.png")),
                       rough = decoded_picture(picture_bytes("stripes.jpg"));
  for (const DecodedPicture* p : {&exact, &rough}) {
    ASSERT_EQ(p->height, 16);
    ASSERT_EQ(p->width, 24);
    ASSERT_EQ(p->pixels.size(), 16U * 24 * 3);
    for (std::size_t i = 0; i < p->pixels.size(); ++i) {
      const std::size_t third = i / 3 % 24 / 8;
      const int want = i % 3 != third ? 0 : third == 0 ? 200 : third == 1 ? 160 : 240;
      EXPECT_NEAR(p->pixels[i], want, p == &exact ? 0 : 6) << i;
    }
  }
}

// The expected values are those of Pillow's convert("RGB").
TEST(Pictures, ColoursOfPngsAreThoseOfPillow) {
  const std::pair<const char*, std::vector<std::uint8_t>> pictures[] = {
      {"rgb_16.png", {80, 1, 255, 0, 255, 128}},
      {"grey_16.png", {0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255}},
      {"grey_alpha_16.png", {80, 80, 80, 255, 255, 255}},
      {"rgba_16.png", {80, 1, 128, 255, 0, 16}},
      {"palette_clear.png", {200, 10, 20, 1, 2, 3, 90, 180, 30, 255, 255, 0}},
      {"grey_1.png", {0, 0, 0, 255, 255, 255}},
      {"grey_2.png", {0, 0, 0, 85, 85, 85, 170, 170, 170, 255, 255, 255}},
      {"grey_4_clear.png", {51, 51, 51, 170, 170, 170}},
      {"rgb_key_gamma.png", {200, 100, 50, 1, 2, 3}},
      {"rgba.png", {200, 100, 50, 9, 8, 7}},
      {"interlaced.png", {0,   100, 200, 10,  101, 200, 20,  102, 200, 1,   100, 199, 11, 101,
                          199, 21,  102, 199, 2,   100, 198, 12,  101, 198, 22,  102, 198}}};
  for (const auto& [name, pixels] : pictures)
    EXPECT_EQ(decoded_picture(picture_bytes(name)).pixels, pixels) << name;
  // 4 x 6 of grey 20 row + 5 column, of which the right half is clear.
  const DecodedPicture p = decoded_picture(picture_bytes("grey_alpha.png"));
  for (std::size_t i = 0; i < p.pixels.size(); ++i)
    EXPECT_EQ(p.pixels[i], 20 * (i / 12) + 5 * (i / 3 % 4)) << i;
}

// 3 x 2 of red 0, 10... 50, as Pillow's exif_transpose turns it.
TEST(Pictures, AreTurnedAsTheirExifDataSay) {
  DecodedPicture stored{2, 3, {}};
  for (const std::uint8_t red : std::initializer_list<std::uint8_t>{0, 10, 20, 30, 40, 50})
    stored.pixels.insert(stored.pixels.end(), {red, 0, 0});
  const std::vector<int> reds[] = {{0, 10, 20, 30, 40, 50}, {20, 10, 0, 50, 40, 30}, {50, 40, 30, 20, 10, 0},
                                   {30, 40, 50, 0, 10, 20}, {0, 30, 10, 40, 20, 50}, {30, 0, 40, 10, 50, 20},
                                   {50, 20, 40, 10, 30, 0}, {20, 50, 10, 40, 0, 30}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const DecodedPicture p = turned(stored, orientation);
    EXPECT_EQ(p.width, orientation < 5 ? 3 : 2);
    EXPECT_EQ(p.height, orientation < 5 ? 2 : 3);
    std::vector<int> red;
    for (std::size_t i = 0; i < p.pixels.size(); i += 3) red.push_back(p.pixels[i]);
    EXPECT_EQ(red, reds[orientation - 1]) << orientation;
  }
  const auto said = [](const std::string& bytes) {
    return exif_orientation({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  };
  EXPECT_EQ(said(picture_bytes("stripes.jpg")), 1);
  EXPECT_EQ(said(picture_bytes("stripes.png")), 1);
  for (const char* name : {"turned_6.jpg", "turned_6.png"}) {
    const std::string whole = picture_bytes(name);
    EXPECT_EQ(said(whole), 6) << name;
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      const int cut = said(whole.substr(0, bytes));
      EXPECT_TRUE(cut == 1 || cut == 6) << bytes;
    }
  }
}

// An attack: each scan costs the time of all pixels.
TEST(Pictures, JpegsOfManyScansAreRefused) {
  std::string jpeg = picture_bytes("scans.jpg");
  EXPECT_EQ(decoded_picture(jpeg).pixels, std::vector<std::uint8_t>(8 * 8 * 3, 128));
  const std::size_t last = jpeg.rfind("\xFF\xDA");
  const std::string scan = jpeg.substr(last, jpeg.size() - 2 - last);
  for (int i = 0; i < 150; ++i) jpeg.insert(last, scan);
  expect_picture_refused(jpeg, "too many scans");
}

TEST(Pictures, WhatIsNotOneIsNamed) {
  for (const char* name : {"stripes.jpg", "stripes.png"}) {
    const std::string whole = picture_bytes(name);
    expect_picture_refused(whole.substr(0, whole.size() - 20), "can be read");
    expect_picture_refused(whole.substr(0, 30), "can be read");
    std::string damaged = whole;
    damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 0x55);
    if (std::string(name) == "stripes.png") expect_picture_refused(damaged, "can be read");
  }
  const std::string jpeg = picture_bytes("stripes.jpg");
  expect_picture_refused(jpeg.substr(0, jpeg.size() - 20), "can be read: Premature end of JPEG file");
  expect_picture_refused(jpeg.substr(0, 30), "can be read: Premature end of JPEG file");
  expect_picture_refused(picture_bytes("cmyk.jpg"), "is no JPEG that can be read: it is in CMYK");
  expect_picture_refused("GIF89a", "is a GIF picture, and JPEGs and PNGs are read: convert it");
  expect_picture_refused("text", "is neither a JPEG nor a PNG");
  expect_picture_refused("", "is neither a JPEG nor a PNG");
  std::string huge = picture_bytes("stripes.jpg");
  const std::size_t frame = huge.find("\xFF\xC0");  // then length, precision, height, width
  huge.replace(frame + 5, 4, "\xFF\xFF\xFF\xFF");
  expect_picture_refused(huge, "");
  huge.replace(frame + 5, 4, "\x3F\xFF\x3F\xFF");  // 804 MB of pixels
  expect_picture_refused(huge, "too few bytes for its size");
}

// Twice as small: every pixel is a mean of its neighbourhood. Twice as large: the colours stay.
TEST(Pictures, SquaresAreScaledAndCutFromTheMiddle) {
  const DecodedPicture stripes = decoded_picture(picture_bytes("stripes.png"));
  const std::vector<std::uint8_t> same = scaled_square(stripes, {16, 16});
  for (std::size_t i = 0; i < same.size(); ++i) {
    EXPECT_EQ(same[i], stripes.pixels[i / 48 * 72 + i % 48 + 12]) << i;  // four columns are cut off
  }
  const std::vector<std::uint8_t> small = scaled_square(stripes, {4, 8});
  ASSERT_EQ(small.size(), 48U);
  for (std::size_t y = 0; y < 4; ++y) EXPECT_EQ(small[12 * y + 3 + 1], 160);  // green in the middle
  const std::vector<std::uint8_t> large = scaled_square(stripes, {8, 32});
  EXPECT_EQ(std::vector<std::uint8_t>(large.begin(), large.begin() + 3),
            (std::vector<std::uint8_t>{0, 160, 0}));
  DecodedPicture flat{3, 7, std::vector<std::uint8_t>(63, 77)};
  EXPECT_EQ(scaled_square(flat, {90, 100}), std::vector<std::uint8_t>(90 * 90 * 3, 77));
  EXPECT_EQ(scaled_square(flat, {1, 1}), std::vector<std::uint8_t>(3, 77));
}

DecodedPicture drawn_picture() {
  DecodedPicture drawn{12, 15, {}};
  for (int y = 0; y < 12; ++y) {
    for (int x = 0; x < 15; ++x) {
      for (const int c : {x * 37 + y * 91, x * x * 5 + y * y * 3, 255 * ((x / 3 + y / 4) % 2)})
        drawn.pixels.push_back(static_cast<std::uint8_t>(c % 256));
    }
  }
  return drawn;
}

// The expected values are Pillow's resize(..., BICUBIC).
TEST(Pictures, AreScaledBicubicAsPillowDoesIt) {
  const DecodedPicture drawn = drawn_picture();
  const auto expect_lines = [&](int scale_to, int side, const std::vector<int>& first,
                                const std::vector<int>& last) {
    const auto square = scaled_square(drawn, {side, scale_to, false, Interpolation::kBicubic});
    const std::size_t line = first.size();
    ASSERT_EQ(square.size(), line * static_cast<std::size_t>(side));
    for (std::size_t i = 0; i < line; ++i) {
      EXPECT_EQ(square[i], first[i]) << scale_to << " " << i;
      EXPECT_EQ(square[square.size() - line + i], last[i]) << scale_to << " " << i;
    }
  };
  expect_lines(7, 6, {114, 21, 51, 169, 69, 255, 131, 150, 155, 73, 197, 0, 102, 125, 155, 169, 187, 255},
               {137, 102, 44, 156, 66, 255, 137, 133, 157, 94, 150, 0, 106, 105, 157, 125, 140, 255});
  expect_lines(20, 9, {184, 130, 255, 211, 163, 227, 245, 209, 28,  165, 131, 0,   41, 8,
                       0,   55,  43,  0,   78,  108, 28,  71,  172, 227, 83,  112, 255},
               {74, 42,  159, 108, 35, 149, 152, 82, 106, 189, 131, 96,  201, 162,
                96, 112, 113, 96,  62, 69,  106, 87, 60,  149, 117, 104, 159});
}

// 71 x 100 pixels, each of which says where it is.
TEST(Pictures, AreCutAtTheEdgesThatTheirLibraryTakes) {
  DecodedPicture places{100, 71, {}};
  for (int y = 0; y < 100; ++y) {
    for (int x = 0; x < 71; ++x)
      for (const int c : {x, y, 0}) places.pixels.push_back(static_cast<std::uint8_t>(c));
  }
  const auto first = [&](const PictureFrame& frame) {
    const auto square = scaled_square(places, frame);
    return std::pair<int, int>(square[0], square[1]);
  };
  PictureFrame frame{.side = 64, .scale_to = 71, .interpolation = Interpolation::kNearest};
  EXPECT_EQ(first(frame), std::pair(3, 18));
  frame.edges = Edges::kTransformers;
  EXPECT_EQ(first(frame), std::pair(3, 18));
  frame.edges = Edges::kTorchvision;  // of 3.5 it takes 4
  EXPECT_EQ(first(frame), std::pair(4, 18));
  frame.side = 66;  // of 2.5 it takes 2
  EXPECT_EQ(first(frame), std::pair(2, 17));
  // 35 to 49.3, and 36 to 50.7: the longer side is cut off, where it was rounded.
  frame = {.side = 8, .scale_to = 36, .interpolation = Interpolation::kNearest};
  EXPECT_EQ(first(frame).second, 42);  // line 21 of 51
  frame.edges = Edges::kTransformers;
  EXPECT_EQ(first(frame).second, 43);  // line 21 of 50
  frame = {.side = 4, .scale_to = 4, .interpolation = Interpolation::kNearest, .squashes = true};
  EXPECT_EQ(first(frame), std::pair(8, 12));
}

// The expected values are Pillow's resize((5, 5), ...).
TEST(Pictures, AreScaledByEveryFilterAsPillowDoesIt) {
  const DecodedPicture drawn = drawn_picture();
  const auto expect_lines = [&](Interpolation way, const std::vector<int>& first,
                                const std::vector<int>& last) {
    const auto square =
        scaled_square(drawn, {.side = 5, .scale_to = 5, .interpolation = way, .squashes = true});
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(square[i], first[i]) << static_cast<int>(way) << " " << i;
      EXPECT_EQ(square[60 + i], last[i]) << static_cast<int>(way) << " " << i;
    }
  };
  expect_lines(Interpolation::kNearest, {128, 8, 0, 239, 83, 255, 94, 248, 0, 205, 247, 255, 60, 80, 0},
               {179, 49, 0, 34, 124, 255, 145, 33, 0, 0, 32, 255, 111, 121, 0});
  expect_lines(Interpolation::kLanczos, {95, 5, 7, 141, 92, 227, 101, 156, 28, 133, 143, 227, 124, 167, 7},
               {131, 93, 7, 136, 131, 227, 133, 127, 28, 99, 122, 227, 144, 124, 7});
  expect_lines(Interpolation::kBox, {83, 10, 0, 151, 85, 255, 91, 165, 0, 160, 164, 255, 100, 168, 0},
               {139, 84, 0, 122, 159, 255, 148, 111, 0, 88, 110, 255, 157, 113, 0});
  expect_lines(Interpolation::kHamming,
               {100, 13, 14, 144, 88, 229, 100, 160, 26, 143, 159, 229, 112, 151, 14},
               {134, 94, 14, 127, 139, 229, 139, 116, 26, 95, 115, 229, 139, 125, 14});
}

}  // namespace
}  // namespace lpmm
