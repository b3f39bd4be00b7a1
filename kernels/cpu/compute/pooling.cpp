// Pooling and the shortcut of residual blocks, image by image.
#include "kernels/cpu.h"

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
    for (int x = 0; x < s.out_width(); ++x, out += s.channels) body(out, y * s.stride, x * s.stride);
  }
}
std::int64_t pixel(const PoolShape& s, int image, int y, int x) {
  return ((std::int64_t{1} * image * s.height + y) * s.width + x) * s.channels;
}
// Sets the values of one image to 0 unless the gradient accumulates.
void clear_image(Compute type, std::int64_t values, int image, void* dx, bool accumulate) {
  if (!accumulate) {
    std::memset(bytes_at(dx, image * values * value_bytes(type)), 0,
                static_cast<std::size_t>(values * value_bytes(type)));
  }
}
// The first index of the window's maximum.
std::int64_t maximum_at(const PoolShape& s, Compute type, const void* x, int image, int top, int left,
                        int c) {
  std::int64_t best = pixel(s, image, top, left) + c;
  for (int ky = 0; ky < s.kernel; ++ky) {
    for (int kx = 0; kx < s.kernel; ++kx) {
      const std::int64_t i = pixel(s, image, top + ky, left + kx) + c;
      const float v = get(type, x, i);
      if (v > get(type, x, best) || v != v) best = i;
    }
  }
  return best;
}

}  // namespace

void CpuDevice::average_pool_forward(const PoolShape& s, Compute type, const void* x, void* y) {
  const float share = 1.0F / static_cast<float>(s.kernel * s.kernel);
  pool().for_each(s.batch, [&](std::int64_t item, int) {
    const int image = static_cast<int>(item);
    each_window(s, image, [&](std::int64_t out, int top, int left) {
      for (int c = 0; c < s.channels; ++c) {
        float sum = 0;
        for (int ky = 0; ky < s.kernel; ++ky) {
          for (int kx = 0; kx < s.kernel; ++kx) sum += get(type, x, pixel(s, image, top + ky, left + kx) + c);
        }
        put(type, y, out + c, sum * share);
      }
    });
  });
}

void CpuDevice::average_pool_backward(const PoolShape& s, Compute type, const void* dy, void* dx,
                                      bool accumulate) {
  const float share = 1.0F / static_cast<float>(s.kernel * s.kernel);
  pool().for_each(s.batch, [&](std::int64_t item, int) {
    const int image = static_cast<int>(item);
    clear_image(type, std::int64_t{1} * s.height * s.width * s.channels, image, dx, accumulate);
    each_window(s, image, [&](std::int64_t out, int top, int left) {
      for (int ky = 0; ky < s.kernel; ++ky) {
        for (int kx = 0; kx < s.kernel; ++kx) {
          const std::int64_t in = pixel(s, image, top + ky, left + kx);
          for (int c = 0; c < s.channels; ++c) {
            put(type, dx, in + c, get(type, dx, in + c) + get(type, dy, out + c) * share);
          }
        }
      }
    });
  });
}

void CpuDevice::max_pool_forward(const PoolShape& s, Compute type, const void* x, void* y) {
  pool().for_each(s.batch, [&](std::int64_t item, int) {
    const int image = static_cast<int>(item);
    each_window(s, image, [&](std::int64_t out, int top, int left) {
      for (int c = 0; c < s.channels; ++c) {
        put(type, y, out + c, get(type, x, maximum_at(s, type, x, image, top, left, c)));
      }
    });
  });
}

void CpuDevice::max_pool_backward(const PoolShape& s, Compute type, const void* x, const void* dy, void* dx,
                                  bool accumulate) {
  pool().for_each(s.batch, [&](std::int64_t item, int) {
    const int image = static_cast<int>(item);
    clear_image(type, std::int64_t{1} * s.height * s.width * s.channels, image, dx, accumulate);
    each_window(s, image, [&](std::int64_t out, int top, int left) {
      for (int c = 0; c < s.channels; ++c) {
        const std::int64_t in = maximum_at(s, type, x, image, top, left, c);
        put(type, dx, in, get(type, dx, in) + get(type, dy, out + c));
      }
    });
  });
}

void CpuDevice::shortcut_forward(const ShortcutShape& s, Compute type, const void* x, void* y) {
  const std::int64_t b = value_bytes(type), front = (s.out - s.in) / 2;
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

void CpuDevice::shortcut_backward(const ShortcutShape& s, Compute type, const void* dy, void* dx,
                                  bool accumulate) {
  const std::int64_t b = value_bytes(type), front = (s.out - s.in) / 2;
  pool().for_each(s.batch, [&](std::int64_t image, int) {
    clear_image(type, std::int64_t{1} * s.height * s.width * s.in, static_cast<int>(image), dx, accumulate);
    for (int oy = 0; oy < s.out_height(); ++oy) {
      for (int ox = 0; ox < s.out_width(); ++ox) {
        const std::int64_t out = ((image * s.out_height() + oy) * s.out_width() + ox) * s.out + front;
        const std::int64_t in = ((image * s.height + std::int64_t{1} * oy * s.stride) * s.width +
                                 std::int64_t{1} * ox * s.stride) *
                                s.in;
        loops::add(type, s.in, bytes_at(dx, in * b), bytes_at(dy, out * b), bytes_at(dx, in * b));
      }
    }
  });
}

}  // namespace lpmm::kernels
