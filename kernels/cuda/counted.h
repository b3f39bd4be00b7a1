// Folds and updates whose changes are counted, for devices that count none: the CPU does them on copies of
// what they touch, with the same bytes and counts. A few steps of a run are measured so.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/cpu.h"

namespace lpmm::kernels {

void fold_counted(Device& device, CpuDevice& host, const Fold& fold);
// look() looks at what is to be updated, of which it may move variances of rows on.
void update_counted(Device& device, CpuDevice& host, const TensorUpdate& tensor,
                    const std::function<void()>& look);

}  // namespace lpmm::kernels
