#include "lpmm/data/glyphs.h"

#include <cmath>
#include <span>

#include "kernels/noise.h"

namespace lpmm {
namespace {

constexpr int kDrawnSide = 32;
constexpr int kPixels = kDrawnSide * kDrawnSide;

struct Stroke {
  float ax, ay, bx, by;
};

// The glyphs as strokes in [-1, 1] x [-1, 1], y downwards.
constexpr float kHalf = 0.5F, kCos30 = 0.8660254F;
constexpr Stroke kRing[] = {
    {1, 0, kCos30, kHalf},    {kCos30, kHalf, kHalf, kCos30},     {kHalf, kCos30, 0, 1},
    {0, 1, -kHalf, kCos30},   {-kHalf, kCos30, -kCos30, kHalf},   {-kCos30, kHalf, -1, 0},
    {-1, 0, -kCos30, -kHalf}, {-kCos30, -kHalf, -kHalf, -kCos30}, {-kHalf, -kCos30, 0, -1},
    {0, -1, kHalf, -kCos30},  {kHalf, -kCos30, kCos30, -kHalf},   {kCos30, -kHalf, 1, 0}};
constexpr Stroke kOpenRing[] = {
    {kHalf, kCos30, 0, 1},    {0, 1, -kHalf, kCos30},   {-kHalf, kCos30, -kCos30, kHalf},
    {-kCos30, kHalf, -1, 0},  {-1, 0, -kCos30, -kHalf}, {-kCos30, -kHalf, -kHalf, -kCos30},
    {-kHalf, -kCos30, 0, -1}, {0, -1, kHalf, -kCos30}};
constexpr Stroke kTriangle[] = {{0, -1, 1, 0.8F}, {1, 0.8F, -1, 0.8F}, {-1, 0.8F, 0, -1}};
constexpr Stroke kSquare[] = {{-0.9F, -0.9F, 0.9F, -0.9F},
                              {0.9F, -0.9F, 0.9F, 0.9F},
                              {0.9F, 0.9F, -0.9F, 0.9F},
                              {-0.9F, 0.9F, -0.9F, -0.9F}};
constexpr Stroke kPlus[] = {{-1, 0, 1, 0}, {0, -1, 0, 1}};
constexpr Stroke kTee[] = {{-1, -1, 1, -1}, {0, -1, 0, 1}};
constexpr Stroke kWye[] = {{-0.9F, -1, 0, 0}, {0.9F, -1, 0, 0}, {0, 0, 0, 1}};
constexpr Stroke kZed[] = {{-0.9F, -1, 0.9F, -1}, {0.9F, -1, -0.9F, 1}, {-0.9F, 1, 0.9F, 1}};
constexpr Stroke kAitch[] = {{-0.8F, -1, -0.8F, 1}, {0.8F, -1, 0.8F, 1}, {-0.8F, 0, 0.8F, 0}};
constexpr Stroke kEe[] = {
    {-0.8F, -1, -0.8F, 1}, {-0.8F, -1, 0.8F, -1}, {-0.8F, 0, 0.6F, 0}, {-0.8F, 1, 0.8F, 1}};
constexpr std::span<const Stroke> kGlyphs[] = {kRing, kOpenRing, kTriangle, kSquare, kPlus,
                                               kTee,  kWye,      kZed,      kAitch,  kEe};

// The numbers of one image, drawn in order.
class ImageDraws {
 public:
  explicit ImageDraws(const Noise& noise) : noise_(noise) {}
  std::uint32_t word() {
    if (used_ == 4) {
      words_ = noise_words(noise_, call_++);
      used_ = 0;
    }
    return words_.x[used_++];
  }
  float uniform(float low, float high) {
    return low + (high - low) * (static_cast<float>(word() >> 8) * 0x1p-24F);
  }
  int integer(int low, int high) {  // both included
    return low + static_cast<int>(std::uint64_t{word()} * static_cast<std::uint32_t>(high - low + 1) >> 32);
  }

 private:
  Noise noise_;
  std::uint32_t call_ = 0;
  PhiloxWords words_ = {};
  int used_ = 4;
};

struct Colour {
  float c[3];
};

// A grey of the given level, tinted.
Colour tinted(ImageDraws& draws, float level) {
  Colour colour{};
  for (float& c : colour.c) c = level + draws.uniform(-35, 35);
  return colour;
}

// A colour that runs linearly over the image, `first` in the middle.
struct Gradient {
  Colour first, along_x, along_y;
  Gradient(ImageDraws& draws, float level) : first(tinted(draws, level)) {
    for (int c = 0; c < 3; ++c) {
      along_x.c[c] = draws.uniform(-0.9F, 0.9F);
      along_y.c[c] = draws.uniform(-0.9F, 0.9F);
    }
  }
  float at(int c, float x, float y) const { return first.c[c] + along_x.c[c] * x + along_y.c[c] * y; }
};

// Squared distance of every pixel to the nearest stroke.
struct DistanceField {
  float squared[kPixels];
  DistanceField() {
    for (float& d : squared) d = 1e9F;
  }
  void add(const Stroke& s) {
    const float dx = s.bx - s.ax, dy = s.by - s.ay;
    const float inverse = 1.0F / (dx * dx + dy * dy + 1e-6F);
    for (int y = 0; y < kDrawnSide; ++y) {
      const float py = static_cast<float>(y) - 15.5F - s.ay;
      float* row = squared + y * kDrawnSide;
      for (int x = 0; x < kDrawnSide; ++x) {
        const float px = static_cast<float>(x) - 15.5F - s.ax;
        float t = (px * dx + py * dy) * inverse;
        t = t < 0.0F ? 0.0F : t;
        t = t > 1.0F ? 1.0F : t;
        const float ex = px - t * dx, ey = py - t * dy;
        const float d = ex * ex + ey * ey;
        row[x] = d < row[x] ? d : row[x];
      }
    }
  }
};

struct Canvas {
  float planes[3][kPixels];

  void fill(const Gradient& colour) {
    for (int c = 0; c < 3; ++c) {
      for (int p = 0; p < kPixels; ++p) planes[c][p] = paint(colour, c, p);
    }
  }
  // Paints a pen of the given radius whose edge fades over `soft` pixels.
  void stroke(const DistanceField& field, float radius, float soft, const Gradient& colour) {
    float cover[kPixels];
    for (int p = 0; p < kPixels; ++p) {
      float a = 0.5F + (radius - std::sqrt(field.squared[p])) / soft;
      a = a < 0.0F ? 0.0F : a;
      cover[p] = a > 1.0F ? 1.0F : a;
    }
    for (int c = 0; c < 3; ++c) {
      for (int p = 0; p < kPixels; ++p) planes[c][p] += cover[p] * (paint(colour, c, p) - planes[c][p]);
    }
  }

 private:
  static float paint(const Gradient& colour, int c, int p) {
    const int x = p % kDrawnSide, y = p / kDrawnSide;
    return colour.at(c, static_cast<float>(x) - 15.5F, static_cast<float>(y) - 15.5F);
  }
};

Stroke clutter(ImageDraws& draws) {
  const float x = draws.uniform(-16, 16), y = draws.uniform(-16, 16);
  return {x, y, x + draws.uniform(-11, 11), y + draws.uniform(-11, 11)};
}

}  // namespace

void draw_glyph(std::uint64_t seed, std::uint32_t split, std::uint32_t index, int label, std::uint8_t* out) {
  ImageDraws draws({seed, split, index, static_cast<std::uint32_t>(Stream::kDraw)});

  // Light on dark, or the other way round in one image of five.
  const float contrast = draws.uniform(70, 140);
  const float low = draws.uniform(5, 250 - contrast);
  const bool dark_glyph = draws.word() % 5 == 0;
  const float glyph_level = dark_glyph ? low : low + contrast;
  const float ground_level = dark_glyph ? low + contrast : low;
  const float soft = draws.uniform(1.0F, 2.4F);

  Canvas canvas;
  canvas.fill(Gradient(draws, ground_level));
  const auto scribble = [&](int strokes) {
    for (int i = 0; i < strokes; ++i) {
      DistanceField field;
      field.add(clutter(draws));
      const float radius = draws.uniform(0.4F, 1.3F);
      canvas.stroke(field, radius, soft, Gradient(draws, draws.uniform(low - 20, low + contrast + 20)));
    }
  };
  scribble(draws.integer(1, 4));

  // Rotation by the angle whose half has tangent t: up to 29 degrees either way, without sine or cosine.
  const float t = draws.uniform(-0.26F, 0.26F);
  const float norm = 1.0F / (1.0F + t * t);
  const float cosine = (1.0F - t * t) * norm, sine = 2.0F * t * norm;
  const float shear = draws.uniform(-0.3F, 0.3F);
  const float scale_x = draws.uniform(6.5F, 11.0F);
  const float scale_y = scale_x * draws.uniform(0.8F, 1.25F);
  const float move_x = draws.uniform(-3.5F, 3.5F), move_y = draws.uniform(-3.5F, 3.5F);
  const auto warp = [&](float x, float y, float& to_x, float& to_y) {
    const float u = scale_x * (x + shear * y), v = scale_y * y;
    to_x = cosine * u - sine * v + move_x;
    to_y = sine * u + cosine * v + move_y;
  };
  DistanceField field;
  for (const Stroke& s : kGlyphs[label]) {
    Stroke warped;
    warp(s.ax, s.ay, warped.ax, warped.ay);
    warp(s.bx, s.by, warped.bx, warped.by);
    field.add(warped);
  }
  const float radius = draws.uniform(0.8F, 1.7F);
  canvas.stroke(field, radius, soft, Gradient(draws, glyph_level));
  scribble(draws.integer(0, 1));

  // Triangular noise, the sum of two bytes.
  const float amplitude = draws.uniform(0.04F, 0.13F);
  for (int p = 0; p < kPixels; ++p) {
    const std::uint32_t a = draws.word(), b = draws.word();
    for (int c = 0; c < 3; ++c) {
      const auto sum = static_cast<float>((a >> (8 * c) & 0xFFU) + (b >> (8 * c) & 0xFFU)) - 255.0F;
      float v = canvas.planes[c][p] + amplitude * sum;
      v = v < 0.0F ? 0.0F : v;
      v = v > 255.0F ? 255.0F : v;
      out[3 * p + c] = static_cast<std::uint8_t>(v + 0.5F);
    }
  }
}

}  // namespace lpmm
