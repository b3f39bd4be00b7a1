// Folds and updates whose changes are counted, for devices that count none: the host does them on copies of
// what they touch, with the same bytes and counts. A few steps of a run are measured so.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/packed_device.h"

namespace lpmm::kernels {

void fold_counted(PackedDevice& device, const Fold& fold);
// measure() measures what is to be updated, of which it may move variances of rows on.
void update_counted(PackedDevice& device, const TensorUpdate& tensor, const std::function<void()>& measure);

}  // namespace lpmm::kernels
