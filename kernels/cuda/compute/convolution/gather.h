// Factors of a convolution's products, gathered from the pixels as they are needed.
#pragma once

#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/compute/mma.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

inline constexpr int kCopied = 8;  // cells at once
// Stages of shared memory: while one is multiplied, the copies of the next ones are on their way.
inline constexpr int kStages = 4;

// The pixel that a window has at a tap: for row r and tap k, (r * step + offset + sign * k) / divisor, where
// that is a whole number and in the image. The gradient of the input gathers from dy, by windows turned
// round.
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
  LPMM_DEVICE int number(const Gather& g) const { return y * g.kernel + x; }
  // The offset of this tap's cells from those of the window's first pixel.
  LPMM_DEVICE int offset(const Gather& g) const {
    const int pixels = y / g.divisor * g.width + x / g.divisor;
    return g.sign * pixels * g.channels + channel;
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
// A row's window: a bit for each tap that is in the image, and where its first pixel would be.
struct WindowOfThread {
  std::uint64_t taps = 0;
  std::int64_t first = 0;
  LPMM_DEVICE static WindowOfThread of(const Gather& g, const RowOfThread& row) {
    WindowOfThread window;
    if (row.left <= 0) return window;
    std::uint64_t line = 0;
    int at = 0;
    for (int x = 0; x < g.kernel; ++x) {
      if (find_pixel(g, row.x, x, g.width, at)) line |= std::uint64_t{1} << x;
    }
    for (int y = 0; y < g.kernel; ++y) {
      if (find_pixel(g, row.y, y, g.height, at)) window.taps |= line << (y * g.kernel);
    }
    // Where a row's position leaves a remainder by the divisor, only taps with the same remainder have a
    // pixel.
    const int first_y = floor_of(row.y * g.step + g.offset, g.divisor),
              first_x = floor_of(row.x * g.step + g.offset, g.divisor);
    window.first = ((std::int64_t{row.image} * g.height + first_y) * g.width + first_x) * g.channels;
    return window;
  }
  LPMM_DEVICE static int floor_of(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
};

// Begins to copy a tap's eight channels; zeros where there is no such pixel. `offset`: that of the tap.
LPMM_DEVICE void begin_gather(const Gather& g, const WindowOfThread& window, int tap, int offset, Bf16* to) {
  const bool is_there = (window.taps >> tap & 1) != 0;
  begin_copy<2 * kCopied>(to, g.pixels + (is_there ? window.first + offset : 0), is_there);
}
// One tap of an input's windows, from row to row.
struct TapOfRows {
  int y, x, left;          // of the row
  int y_offset, x_offset;  // what is added to the window's place
  std::int64_t first;      // where the first of eight channels would be
  LPMM_DEVICE static TapOfRows of(const Gather& g, const RowOfThread& row, const TapOfThread& tap) {
    TapOfRows of{row.y, row.x, tap.y < g.kernel ? row.left : 0, g.offset + tap.y, g.offset + tap.x, 0};
    of.first = ((std::int64_t{row.image} * g.height + of.input_y(g)) * g.width + of.input_x(g)) * g.channels +
               tap.channel;
    return of;
  }
  LPMM_DEVICE int input_y(const Gather& g) const { return y * g.step + y_offset; }
  LPMM_DEVICE int input_x(const Gather& g) const { return x * g.step + x_offset; }
  LPMM_DEVICE void advance(const Gather& g, int rows) {
    left -= rows;
    x += rows;
    std::int64_t pixels = std::int64_t{rows} * g.step;
    while (x >= g.rows_width) {
      x -= g.rows_width;
      pixels += g.step * (g.width - g.rows_width);
      if (++y == g.rows_height) {
        y = 0;
        pixels += g.width * (g.height - g.rows_height * g.step);
      }
    }
    first += pixels * g.channels;
  }
};
LPMM_DEVICE void begin_gather(const Gather& g, const TapOfRows& tap, Bf16* to) {
  const auto is_in = [](int at, int size) { return static_cast<unsigned>(at) < static_cast<unsigned>(size); };
  const bool is_there = tap.left > 0 && is_in(tap.input_y(g), g.height) && is_in(tap.input_x(g), g.width);
  begin_copy<2 * kCopied>(to, g.pixels + (is_there ? tap.first : 0), is_there);
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
