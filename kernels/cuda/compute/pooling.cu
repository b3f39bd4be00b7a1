// Pooling and the shortcut of residual blocks: forward by outputs, backward by inputs, which gather.
#include "kernels/cuda/compute/columns.h"
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

// Averages over whole images are sums of columns.
template <class Cell>
struct PixelTerms {
  std::int64_t channels;
  const Cell* x;
  LPMM_HD void operator()(std::int64_t row, std::int64_t c, float (&of)[1]) const {
    of[0] = load(x + row * channels + c);
  }
  LPMM_HD void wide(std::int64_t row, std::int64_t c, float (&of)[1][kVector]) const {
    load_vector(x + row * channels + c, of[0]);
  }
};
template <class Cell>
struct StoreAverage {
  std::int64_t channels;
  float share;
  Cell* y;
  LPMM_HD void operator()(std::int64_t image, std::int64_t c, const float (&sum)[1]) const {
    store(y + image * channels + c, sum[0] * share);
  }
};

// Calls body(window, its place in y) for the windows that hold a value of x, first ones first.
template <class Body>
LPMM_HD void for_windows(const PoolShape& s, std::int64_t i, const Body& body) {
  Pixel window = Pixel::of(i, s.height, s.width, s.channels);
  const int y = window.y + s.pad, x = window.x + s.pad;
  const auto first = [&](int at) { return at < s.kernel ? 0 : (at - s.kernel) / s.stride + 1; };
  for (window.y = first(y); window.y * s.stride <= y && window.y < s.out_height(); ++window.y) {
    for (window.x = first(x); window.x * s.stride <= x && window.x < s.out_width(); ++window.x) {
      body(window, window.index(s.out_height(), s.out_width(), s.channels));
    }
  }
}
// Channels in eights, in aligned memory.
bool has_vectors(int channels, const void* memory) {
  return channels % kVector == 0 && is_aligned(memory);
}
template <class Cell>
struct AverageGradient {
  PoolShape s;
  const Cell* dy;
  bool is_wide;
  LPMM_HD float operator()(const Place& at) const {
    const float share = 1.0F / static_cast<float>(s.kernel * s.kernel);
    float sum = 0;
    for_windows(s, at.column, [&](const Pixel&, std::int64_t out) { sum += product(load(dy + out), share); });
    return sum;
  }
  LPMM_HD Values wide(const Place& at) const {
    const float share = 1.0F / static_cast<float>(s.kernel * s.kernel);
    Values sums = {};
    for_windows(s, at.column, [&](const Pixel&, std::int64_t out) {
      float v[kVector];
      load_vector(dy + out, v);
      for (int k = 0; k < kVector; ++k) sums.v[k] += product(v[k], share);
    });
    return sums;
  }
};
template <class Cell>
struct MaximumGradient {
  PoolShape s;
  const Cell *x, *dy;
  LPMM_HD float operator()(const Place& at) const {
    float sum = 0;
    for_windows(s, at.column, [&](const Pixel& window, std::int64_t out) {
      sum += maximum_at(s, x, window) == at.column ? load(dy + out) : 0.0F;
    });
    return sum;
  }
};

// Eight channels have their source, or none, together.
bool has_vectors(const ShortcutShape& s, const void* memory) {
  return has_vectors(s.in, memory) && s.out % kVector == 0 && (s.out - s.in) / 2 % kVector == 0;
}
template <class Cell>
struct Shortcut {
  ShortcutShape s;
  const Cell* x;
  bool is_wide;
  // The index of the value, or -1.
  LPMM_HD std::int64_t source(const Place& at) const {
    const Pixel out = Pixel::of(at.column, s.out_height(), s.out_width(), s.out);
    const std::int64_t channel = out.channel - (s.out - s.in) / 2;
    if (channel < 0 || channel >= s.in) return -1;
    return Pixel{out.image, out.y * s.stride, out.x * s.stride, channel}.index(s.height, s.width, s.in);
  }
  LPMM_HD float operator()(const Place& at) const {
    const std::int64_t from = source(at);
    return from < 0 ? 0.0F : load(x + from);
  }
  LPMM_HD Values wide(const Place& at) const {
    const std::int64_t from = source(at);
    Values values = {};
    if (from >= 0) load_vector(x + from, values.v);
    return values;
  }
};
template <class Cell>
struct ShortcutGradient {
  ShortcutShape s;
  const Cell* dy;
  bool is_wide;
  LPMM_HD std::int64_t source(const Place& at) const {
    const Pixel in = Pixel::of(at.column, s.height, s.width, s.in);
    if (in.y % s.stride != 0 || in.x % s.stride != 0) return -1;
    const Pixel out{in.image, in.y / s.stride, in.x / s.stride, in.channel + (s.out - s.in) / 2};
    return out.index(s.out_height(), s.out_width(), s.out);
  }
  LPMM_HD float operator()(const Place& at) const {
    const std::int64_t from = source(at);
    return from < 0 ? 0.0F : load(dy + from);
  }
  LPMM_HD Values wide(const Place& at) const {
    const std::int64_t from = source(at);
    Values values = {};
    if (from >= 0) load_vector(dy + from, values.v);
    return values;
  }
};

std::int64_t inputs(const PoolShape& s) {
  return std::int64_t{1} * s.batch * s.height * s.width * s.channels;
}
std::int64_t outputs(const PoolShape& s) {
  return std::int64_t{1} * s.batch * s.out_height() * s.out_width() * s.channels;
}

}  // namespace

void CudaDevice::pool_forward(const PoolShape& s, const void* x, void* y) {
  const std::int64_t pixels = std::int64_t{1} * s.height * s.width;
  with_type(s.type, [&]<class Cell>(Cell*) {
    const auto* in = static_cast<const Cell*>(x);
    auto* out = static_cast<Cell*>(y);
    if (s.kind == Pooling::kMaximum) {
      map(stream(), outputs(s), Maximum<Cell>{s, in}, out, false);
    } else if (s.kernel == s.height && s.kernel == s.width) {
      sum_columns<1, float>(stream(), s.batch * pixels, s.channels, pixels, PixelTerms<Cell>{s.channels, in},
                            StoreAverage<Cell>{s.channels, 1.0F / static_cast<float>(pixels), out},
                            has_vectors(s.channels, x));
    } else {
      map(stream(), outputs(s), Average<Cell>{s, in}, out, false);
    }
  });
}
void CudaDevice::pool_backward(const PoolShape& s, const PoolBackward& args) {
  with_type(s.type, [&]<class Cell>(Cell*) {
    const auto *x = static_cast<const Cell*>(args.x), *dy = static_cast<const Cell*>(args.dy);
    auto* dx = static_cast<Cell*>(args.dx);
    if (s.kind == Pooling::kMaximum) {
      map(stream(), inputs(s), MaximumGradient<Cell>{s, x, dy}, dx, args.accumulate);
    } else {
      map(stream(), inputs(s), AverageGradient<Cell>{s, dy, has_vectors(s.channels, dy)}, dx,
          args.accumulate);
    }
  });
}

void CudaDevice::shortcut_forward(const ShortcutShape& s, const void* x, void* y) {
  const std::int64_t count = std::int64_t{1} * s.batch * s.out_height() * s.out_width() * s.out;
  with_type(s.type, [&]<class Cell>(Cell*) {
    map(stream(), count, Shortcut<Cell>{s, static_cast<const Cell*>(x), has_vectors(s, x)},
        static_cast<Cell*>(y), false);
  });
}
void CudaDevice::shortcut_backward(const ShortcutShape& s, const void* dy, void* dx, bool accumulate) {
  const std::int64_t count = std::int64_t{1} * s.batch * s.height * s.width * s.in;
  with_type(s.type, [&]<class Cell>(Cell*) {
    map(stream(), count, ShortcutGradient<Cell>{s, static_cast<const Cell*>(dy), has_vectors(s, dy)},
        static_cast<Cell*>(dx), accumulate);
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
