// Pooling and the shortcut of residual blocks, image by image.
#include "kernels/cpu.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/compute/cut.h"
#include "kernels/cpu/compute/loops.h"

namespace lpmm::kernels {
namespace {

// Calls body(channel-0 index of the output pixel, top, left) for each output pixel of one image.
template <class Body>
void each_window(const PoolShape& s, int image, const Body& body) {
  std::int64_t out = std::int64_t{1} * image * s.out_height() * s.out_width() * s.channels;
  for (int y = 0; y < s.out_height(); ++y) {
    for (int x = 0; x < s.out_width(); ++x, out += s.channels) {
      body(out, y * s.stride - s.pad, x * s.stride - s.pad);
    }
  }
}
std::int64_t pixel(const PoolShape& s, int image, int y, int x) {
  return ((std::int64_t{1} * image * s.height + y) * s.width + x) * s.channels;
}
// Sets the values of one image to 0 unless the gradient accumulates.
void clear_image(ValueType type, std::int64_t values, int image, void* dx, bool accumulate) {
  if (!accumulate) {
    std::memset(bytes_at(dx, image * values * value_bytes(type)), 0,
                static_cast<std::size_t>(values * value_bytes(type)));
  }
}
inline float cell_value(float v) {
  return v;
}
inline float cell_value(std::uint16_t bf16) {
  return bf16_to_float(bf16);
}
inline void set_cell(float v, float& to) {
  to = v;
}
inline void set_cell(float v, std::uint16_t& to) {
  to = float_to_bf16(v);
}
// Calls body with a null pointer to the type that holds an activation.
template <class Body>
void with_cell_type(ValueType type, const Body& body) {
  if (type == ValueType::kFp32) {
    body(static_cast<float*>(nullptr));
  } else {
    body(static_cast<std::uint16_t*>(nullptr));
  }
}

// The maximum of some channels of a window, among pixels of the image, and the first pixel that has it. Among
// NaNs, the last.
struct Maxima {
  static constexpr int kMost = 64;
  float value[kMost] = {};
  std::int32_t pixel[kMost] = {};
  template <class Cell>
  void find(const PoolShape& s, const Cell* image, int top, int left, int first, int count) {
    const int bottom = std::min(top + s.kernel, s.height), right = std::min(left + s.kernel, s.width);
    bool begun = false;
    for (int y = std::max(top, 0); y < bottom; ++y) {
      for (int x = std::max(left, 0); x < right; ++x, begun = true) {
        const std::int32_t at = y * s.width + x;
        const Cell* cells = image + std::int64_t{at} * s.channels + first;
        for (int c = 0; c < count; ++c) {
          const float v = cell_value(cells[c]);
          const bool is_larger = !begun || v > value[c] || v != v;
          value[c] = is_larger ? v : value[c];
          pixel[c] = is_larger ? at : pixel[c];
        }
      }
    }
  }
};

// Calls body(output of the first channel, first channel, channels, their maxima) for each window of an image.
template <class Cell, class Body>
void each_maximum(const PoolShape& s, const Cell* x, int image, const Body& body) {
  const Cell* of = x + pixel(s, image, 0, 0);
  Maxima maxima;
  each_window(s, image, [&](std::int64_t out, int top, int left) {
    for (int first = 0; first < s.channels; first += Maxima::kMost) {
      const int count = std::min(Maxima::kMost, s.channels - first);
      maxima.find(s, of, top, left, first, count);
      body(out + first, first, count, maxima);
    }
  });
}

void average(Pool& pool, const PoolShape& s, const void* x, void* y) {
  const float share = 1.0F / static_cast<float>(s.kernel * s.kernel);
  pool.for_each(s.batch, [&](std::int64_t item, int) {
    const int image = static_cast<int>(item);
    each_window(s, image, [&](std::int64_t out, int top, int left) {
      for (int c = 0; c < s.channels; ++c) {
        float sum = 0;
        for (int ky = 0; ky < s.kernel; ++ky) {
          for (int kx = 0; kx < s.kernel; ++kx)
            sum += get(s.type, x, pixel(s, image, top + ky, left + kx) + c);
        }
        put(s.type, y, out + c, sum * share);
      }
    });
  });
}
void spread_average(const PoolShape& s, int image, const PoolBackward& args) {
  const float share = 1.0F / static_cast<float>(s.kernel * s.kernel);
  each_window(s, image, [&](std::int64_t out, int top, int left) {
    for (int ky = 0; ky < s.kernel; ++ky) {
      for (int kx = 0; kx < s.kernel; ++kx) {
        const std::int64_t in = pixel(s, image, top + ky, left + kx);
        for (int c = 0; c < s.channels; ++c) {
          put(s.type, args.dx, in + c, get(s.type, args.dx, in + c) + get(s.type, args.dy, out + c) * share);
        }
      }
    }
  });
}

}  // namespace

void CpuDevice::pool_forward(const PoolShape& s, const void* x, void* y) {
  if (s.kind == Pooling::kAverage) return average(pool(), s, x, y);
  with_cell_type(s.type, [&]<class Cell>(Cell*) {
    auto* to = static_cast<Cell*>(y);
    pool().for_each(s.batch, [&](std::int64_t image, int) {
      each_maximum(s, static_cast<const Cell*>(x), static_cast<int>(image),
                   [&](std::int64_t out, int, int count, const Maxima& maxima) {
                     for (int c = 0; c < count; ++c) set_cell(maxima.value[c], to[out + c]);
                   });
    });
  });
}

void CpuDevice::pool_backward(const PoolShape& s, const PoolBackward& args) {
  const std::int64_t values = std::int64_t{1} * s.height * s.width * s.channels;
  pool().for_each(s.batch, [&](std::int64_t item, int) {
    const int image = static_cast<int>(item);
    clear_image(s.type, values, image, args.dx, args.accumulate);
    if (s.kind == Pooling::kAverage) return spread_average(s, image, args);
    with_cell_type(s.type, [&]<class Cell>(Cell*) {
      const auto* from = static_cast<const Cell*>(args.dy);
      Cell* to = static_cast<Cell*>(args.dx) + image * values;
      each_maximum(s, static_cast<const Cell*>(args.x), image,
                   [&](std::int64_t out, int first, int count, const Maxima& maxima) {
                     for (int c = 0; c < count; ++c) {
                       Cell& cell = to[std::int64_t{maxima.pixel[c]} * s.channels + first + c];
                       set_cell(cell_value(cell) + cell_value(from[out + c]), cell);
                     }
                   });
    });
  });
}

void CpuDevice::shortcut_forward(const ShortcutShape& s, const void* x, void* y) {
  const std::int64_t b = value_bytes(s.type), front = (s.out - s.in) / 2;
  const std::int64_t row = std::int64_t{1} * s.out_width() * s.out * b;
  pool().for_each(std::int64_t{1} * s.batch * s.out_height(), [&](std::int64_t item, int) {
    const std::int64_t image = item / s.out_height(), top = item % s.out_height() * s.stride;
    std::byte* out = bytes_at(y, item * row);
    std::memset(out, 0, static_cast<std::size_t>(row));
    for (int ox = 0; ox < s.out_width(); ++ox) {
      const std::int64_t in = ((image * s.height + top) * s.width + std::int64_t{1} * ox * s.stride) * s.in;
      std::memcpy(out + (std::int64_t{1} * ox * s.out + front) * b, bytes_at(x, in * b),
                  static_cast<std::size_t>(s.in * b));
    }
  });
}

void CpuDevice::shortcut_backward(const ShortcutShape& s, const void* dy, void* dx, bool accumulate) {
  const std::int64_t b = value_bytes(s.type), front = (s.out - s.in) / 2;
  pool().for_each(s.batch, [&](std::int64_t image, int) {
    clear_image(s.type, std::int64_t{1} * s.height * s.width * s.in, static_cast<int>(image), dx, accumulate);
    for (int oy = 0; oy < s.out_height(); ++oy) {
      for (int ox = 0; ox < s.out_width(); ++ox) {
        const std::int64_t out = ((image * s.out_height() + oy) * s.out_width() + ox) * s.out + front;
        const std::int64_t in = ((image * s.height + std::int64_t{1} * oy * s.stride) * s.width +
                                 std::int64_t{1} * ox * s.stride) *
                                s.in;
        loops::elements().add(s.type, s.in, bytes_at(dx, in * b), bytes_at(dy, out * b),
                              bytes_at(dx, in * b));
      }
    }
  });
}

}  // namespace lpmm::kernels
