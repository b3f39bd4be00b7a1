// Pictures that are decoded and scaled.
#include <gtest/gtest.h>

#include "experiments/pack/decode.h"
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

// 4 x 6 of grey 20 row + 5 column, of which the right half is clear.
TEST(Pictures, GreyBecomesColourAndClearBlack) {
  const DecodedPicture p = decoded_picture(picture_bytes("grey_alpha.png"));
  ASSERT_EQ(p.height, 6);
  for (std::size_t i = 0; i < p.pixels.size(); ++i) {
    const std::size_t x = i / 3 % 4, y = i / 12;
    EXPECT_EQ(p.pixels[i], x < 2 ? 20 * y + 5 * x : 0) << i;
  }
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
  expect_picture_refused("GIF89a", "is neither a JPEG nor a PNG");
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
  const std::vector<std::uint8_t> same = scaled_square(stripes, 16, 16);
  for (std::size_t i = 0; i < same.size(); ++i) {
    EXPECT_EQ(same[i], stripes.pixels[i / 48 * 72 + i % 48 + 12]) << i;  // four columns are cut off
  }
  const std::vector<std::uint8_t> small = scaled_square(stripes, 8, 4);
  ASSERT_EQ(small.size(), 48U);
  for (std::size_t y = 0; y < 4; ++y) EXPECT_EQ(small[12 * y + 3 + 1], 160);  // green in the middle
  const std::vector<std::uint8_t> large = scaled_square(stripes, 32, 8);
  EXPECT_EQ(std::vector<std::uint8_t>(large.begin(), large.begin() + 3),
            (std::vector<std::uint8_t>{0, 160, 0}));
  DecodedPicture flat{3, 7, std::vector<std::uint8_t>(63, 77)};
  EXPECT_EQ(scaled_square(flat, 100, 90), std::vector<std::uint8_t>(90 * 90 * 3, 77));
  EXPECT_EQ(scaled_square(flat, 1, 1), std::vector<std::uint8_t>(3, 77));
}

}  // namespace
}  // namespace lpmm
