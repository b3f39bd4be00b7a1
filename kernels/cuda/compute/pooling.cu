// Pooling and the shortcut of residual blocks: forward by outputs, backward by inputs, which gather.
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// One value of images (height, width, channels).
struct Pixel {
  std::int64_t image;
  int y, x;
  std::int64_t channel;
  LPMM_HD static Pixel of(std::int64_t i, int height, int width, int channels) {
    const Place pixel = Place::of(i, channels), line = Place::of(pixel.row, width);
    const Place image = Place::of(line.row, height);
    return {image.row, static_cast<int>(image.column), static_cast<int>(line.column), pixel.column};
  }
  LPMM_HD std::int64_t index(int height, int width, int channels) const {
    return ((image * height + y) * width + x) * channels + channel;
  }
};
// The lines, or the columns, of a window that are not padding.
struct Taps {
  int first, end;
  LPMM_HD static Taps of(const PoolShape& s, int window, int size) {
    const int from = window * s.stride - s.pad;
    return {from < 0 ? -from : 0, from + s.kernel > size ? size - from : s.kernel};
  }
};
LPMM_HD std::int64_t input_at(const PoolShape& s, const Pixel& window, int ky, int kx) {
  const Pixel at{window.image, window.y * s.stride + ky - s.pad, window.x * s.stride + kx - s.pad,
                 window.channel};
  return at.index(s.height, s.width, s.channels);
}
// The first index of the window's maximum; of NaNs the last.
template <class Cell>
LPMM_HD std::int64_t maximum_at(const PoolShape& s, const Cell* x, const Pixel& window) {
  const Taps down = Taps::of(s, window.y, s.height), across = Taps::of(s, window.x, s.width);
  std::int64_t best = input_at(s, window, down.first, across.first);
  for (int ky = down.first; ky < down.end; ++ky) {
    for (int kx = across.first; kx < across.end; ++kx) {
      const std::int64_t i = input_at(s, window, ky, kx);
      const float v = load(x + i);
      if (v > load(x + best) || v != v) best = i;
    }
  }
  return best;
}

// Values of y from windows of x.
template <class Cell>
struct Average {
  PoolShape s;
  const Cell* x;
  LPMM_HD float operator()(const Place& at) const {
    const Pixel window = Pixel::of(at.column, s.out_height(), s.out_width(), s.channels);
    float sum = 0;
    for (int ky = 0; ky < s.kernel; ++ky) {
      for (int kx = 0; kx < s.kernel; ++kx) sum += load(x + input_at(s, window, ky, kx));
    }
    return sum * (1.0F / static_cast<float>(s.kernel * s.kernel));
  }
};
template <class Cell>
struct Maximum {
  PoolShape s;
  const Cell* x;
  LPMM_HD float operator()(const Place& at) const {
    return load(x + maximum_at(s, x, Pixel::of(at.column, s.out_height(), s.out_width(), s.channels)));
  }
};

// The sum over the windows that hold a value of x, first ones first; `share` of the value in each.
template <class Share>
LPMM_HD float sum_of_windows(const PoolShape& s, std::int64_t i, const Share& share) {
  Pixel window = Pixel::of(i, s.height, s.width, s.channels);
  const int y = window.y + s.pad, x = window.x + s.pad;
  const auto first = [&](int at) { return at < s.kernel ? 0 : (at - s.kernel) / s.stride + 1; };
  float sum = 0;
  for (window.y = first(y); window.y * s.stride <= y && window.y < s.out_height(); ++window.y) {
    for (window.x = first(x); window.x * s.stride <= x && window.x < s.out_width(); ++window.x) {
      sum += share(window, window.index(s.out_height(), s.out_width(), s.channels));
    }
  }
  return sum;
}
template <class Cell>
struct AverageGradient {
  PoolShape s;
  const Cell* dy;
  LPMM_HD float operator()(const Place& at) const {
    const float share = 1.0F / static_cast<float>(s.kernel * s.kernel);
    return sum_of_windows(s, at.column,
                          [&](const Pixel&, std::int64_t out) { return product(load(dy + out), share); });
  }
};
template <class Cell>
struct MaximumGradient {
  PoolShape s;
  const Cell *x, *dy;
  LPMM_HD float operator()(const Place& at) const {
    return sum_of_windows(s, at.column, [&](const Pixel& window, std::int64_t out) {
      return maximum_at(s, x, window) == at.column ? load(dy + out) : 0.0F;
    });
  }
};

template <class Cell>
struct Shortcut {
  ShortcutShape s;
  const Cell* x;
  LPMM_HD float operator()(const Place& at) const {
    const Pixel out = Pixel::of(at.column, s.out_height(), s.out_width(), s.out);
    const std::int64_t channel = out.channel - (s.out - s.in) / 2;
    if (channel < 0 || channel >= s.in) return 0.0F;
    return load(x +
                Pixel{out.image, out.y * s.stride, out.x * s.stride, channel}.index(s.height, s.width, s.in));
  }
};
template <class Cell>
struct ShortcutGradient {
  ShortcutShape s;
  const Cell* dy;
  LPMM_HD float operator()(const Place& at) const {
    const Pixel in = Pixel::of(at.column, s.height, s.width, s.in);
    if (in.y % s.stride != 0 || in.x % s.stride != 0) return 0.0F;
    const Pixel out{in.image, in.y / s.stride, in.x / s.stride, in.channel + (s.out - s.in) / 2};
    return load(dy + out.index(s.out_height(), s.out_width(), s.out));
  }
};

std::int64_t inputs(const PoolShape& s) {
  return std::int64_t{1} * s.batch * s.height * s.width * s.channels;
}
std::int64_t outputs(const PoolShape& s) {
  return std::int64_t{1} * s.batch * s.out_height() * s.out_width() * s.channels;
}

}  // namespace

void CudaDevice::average_pool_forward(const PoolShape& s, Compute type, const void* x, void* y) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), outputs(s), Average<Cell>{s, static_cast<const Cell*>(x)}, static_cast<Cell*>(y), false);
  });
}
void CudaDevice::average_pool_backward(const PoolShape& s, Compute type, const void* dy, void* dx,
                                       bool accumulate) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), inputs(s), AverageGradient<Cell>{s, static_cast<const Cell*>(dy)}, static_cast<Cell*>(dx),
        accumulate);
  });
}
void CudaDevice::max_pool_forward(const PoolShape& s, Compute type, const void* x, void* y) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), outputs(s), Maximum<Cell>{s, static_cast<const Cell*>(x)}, static_cast<Cell*>(y), false);
  });
}
void CudaDevice::max_pool_backward(const PoolShape& s, Compute type, const void* x, const void* dy, void* dx,
                                   bool accumulate) {
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), inputs(s),
        MaximumGradient<Cell>{s, static_cast<const Cell*>(x), static_cast<const Cell*>(dy)},
        static_cast<Cell*>(dx), accumulate);
  });
}

void CudaDevice::shortcut_forward(const ShortcutShape& s, Compute type, const void* x, void* y) {
  const std::int64_t count = std::int64_t{1} * s.batch * s.out_height() * s.out_width() * s.out;
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, Shortcut<Cell>{s, static_cast<const Cell*>(x)}, static_cast<Cell*>(y), false);
  });
}
void CudaDevice::shortcut_backward(const ShortcutShape& s, Compute type, const void* dy, void* dx,
                                   bool accumulate) {
  const std::int64_t count = std::int64_t{1} * s.batch * s.height * s.width * s.in;
  with_type(type, [&]<class Cell>(Cell*) {
    map(stream(), count, ShortcutGradient<Cell>{s, static_cast<const Cell*>(dy)}, static_cast<Cell*>(dx),
        accumulate);
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
