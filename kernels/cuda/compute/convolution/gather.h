// Factors of a convolution's products, gathered from the pixels as they are needed.
#pragma once

#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/compute/mma.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

inline constexpr int kCopied = 8;  // cells at once
// Stages of shared memory: while one is multiplied, the copies of the next ones are on their way.
inline constexpr int kStages = 4;

// Which pixel a window has at a tap: of row r and tap k, (r * step + offset + sign * k) / divisor, where that
// is a whole number and in the image. The gradient of the input gathers from dy, by windows turned round.
struct Gather {
  const Bf16* pixels;
  int height, width, channels;  // of what is gathered from
  int rows_height, rows_width;  // of what the rows are pixels of
  int kernel, step, offset, sign, divisor;
  std::int64_t rows;
  LPMM_HD int depth() const { return kernel * kernel * channels; }

  static Gather of_input(const ConvShape& s, const void* x) {
    const std::int64_t rows = std::int64_t{1} * s.batch * s.out_height() * s.out_width();
    return {static_cast<const Bf16*>(x),
            s.height,
            s.width,
            s.in,
            s.out_height(),
            s.out_width(),
            s.kernel,
            s.stride,
            -s.pad,
            1,
            1,
            rows};
  }
  static Gather of_gradient(const ConvShape& s, const void* dy) {
    const std::int64_t rows = std::int64_t{1} * s.batch * s.height * s.width;
    return {static_cast<const Bf16*>(dy),
            s.out_height(),
            s.out_width(),
            s.out,
            s.height,
            s.width,
            s.kernel,
            1,
            s.pad,
            -1,
            s.stride,
            rows};
  }
};

// A tap and the first of eight channels there.
struct TapOfThread {
  int y = 0, x = 0, channel = 0;
  LPMM_DEVICE void advance(const Gather& g, int cells) {
    channel += cells;
    while (channel >= g.channels) {
      channel -= g.channels;
      if (++x == g.kernel) {
        x = 0;
        ++y;
      }
    }
  }
};
struct RowOfThread {
  int image, y, x;
  int left;  // rows from this one to the end; none: it is not there
  LPMM_DEVICE static RowOfThread at(const Gather& g, std::int64_t row, std::int64_t end) {
    const Place line = Place::of(row, g.rows_width), image = Place::of(line.row, g.rows_height);
    constexpr int kMany = 0x7FFFFFFF;
    return {static_cast<int>(image.row), static_cast<int>(image.column), static_cast<int>(line.column),
            end - row < kMany ? static_cast<int>(end - row) : kMany};
  }
  LPMM_DEVICE void advance(const Gather& g, int rows) {
    left -= rows;
    x += rows;
    while (x >= g.rows_width) {
      x -= g.rows_width;
      if (++y == g.rows_height) {
        y = 0;
        ++image;
      }
    }
  }
};

LPMM_DEVICE bool find_pixel(const Gather& g, int row, int tap, int size, int& at) {
  at = row * g.step + g.offset + g.sign * tap;
  if (at < 0) return false;
  if (g.divisor != 1) {
    const int whole = at / g.divisor;
    if (whole * g.divisor != at) return false;
    at = whole;
  }
  return at < size;
}
// Begins to copy a tap's eight channels for a row; zeros where there is no such pixel.
LPMM_DEVICE void begin_gather(const Gather& g, const RowOfThread& row, const TapOfThread& tap, Bf16* to) {
  int y = 0, x = 0;
  const bool is_there = row.left > 0 && tap.y < g.kernel && find_pixel(g, row.y, tap.y, g.height, y) &&
                        find_pixel(g, row.x, tap.x, g.width, x);
  const std::int64_t pixel = is_there ? (std::int64_t{row.image} * g.height + y) * g.width + x : 0;
  begin_copy<2 * kCopied>(to, g.pixels + pixel * g.channels + (is_there ? tap.channel : 0), is_there);
}

// Begins the first stages; then multiplies one stage after the other and begins what comes later.
template <class Begin, class Multiply>
LPMM_DEVICE void go_over_stages(int count, const Begin& begin, const Multiply& multiply) {
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < count) begin(i);
    commit();
  }
  for (int i = 0; i < count; ++i) {
    wait<kStages - 2>();
    __syncthreads();
    if (i + kStages - 1 < count) begin((i + kStages - 1) % kStages);
    commit();
    multiply(i % kStages);
  }
  wait<0>();
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
