// Rows that move: those that lie apart, images cut into patches, means of sequences.
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

template <class Cell>
struct Patches {
  PatchShape s;
  const Cell* x;
  LPMM_HD float operator()(const Place& at) const {
    const Place line = Place::of(at.row, s.width / s.side), image = Place::of(line.row, s.height / s.side);
    const Place channel = Place::of(at.column, std::int64_t{1} * s.side * s.side);
    const Place inner = Place::of(channel.column, s.side);
    const std::int64_t row = image.column * s.side + inner.row, column = line.column * s.side + inner.column;
    return load(x + ((image.row * s.height + row) * s.width + column) * s.channels + channel.row);
  }
};

// The positions of a sequence in their order.
template <class Cell>
struct Mean {
  MeanShape s;
  const Cell* x;
  LPMM_HD float operator()(const Place& at) const {
    const std::int64_t count = s.count(at.row);
    float sum = 0;
    for (std::int64_t t = 0; t < count; ++t)
      sum += s.weight(t) * load(x + (at.row * s.length + t) * s.width + at.column);
    return sum / s.weights(at.row);
  }
};
template <class Cell>
struct MeanSlope {
  MeanShape s;
  const Cell* dy;
  LPMM_HD float operator()(const Place& at) const {
    const Place position = Place::of(at.row, s.length);
    if (position.column >= s.count(position.row)) return 0.0F;
    const float slope = load(dy + position.row * s.width + at.column);
    return s.weight(position.column) * slope / s.weights(position.row);
  }
};

}  // namespace

void CudaDevice::mean_forward(const MeanShape& s, const void* x, void* y) {
  with_type(s.type, [&]<class Cell>(Cell*) {
    map_matrix(stream(), s.batch, s.width, Mean<Cell>{s, static_cast<const Cell*>(x)}, static_cast<Cell*>(y),
               false);
  });
}
void CudaDevice::mean_backward(const MeanShape& s, const void* dy, void* dx, bool accumulate) {
  with_type(s.type, [&]<class Cell>(Cell*) {
    map_matrix(stream(), s.batch * s.length, s.width, MeanSlope<Cell>{s, static_cast<const Cell*>(dy)},
               static_cast<Cell*>(dx), accumulate);
  });
}

void CudaDevice::copy_or_add_rows(ValueType type, const Rows& rows, const void* src, void* dst) {
  with_type(type, [&]<class Cell>(Cell*) {
    move_rows(stream(), rows, static_cast<const Cell*>(src), static_cast<Cell*>(dst));
  });
}

void CudaDevice::patches(const PatchShape& s, ValueType type, const void* x, void* y) {
  const std::int64_t rows = std::int64_t{1} * s.batch * (s.height / s.side) * (s.width / s.side);
  with_type(type, [&]<class Cell>(Cell*) {
    map_matrix(stream(), rows, s.values(), Patches<Cell>{s, static_cast<const Cell*>(x)},
               static_cast<Cell*>(y), false);
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
