// Sums of a gradient's squares over the rows and columns of its tensor, in the order of kernels/sums.h.
#pragma once

#include <cstdint>
#include <functional>

#include "kernels/packed.h"
#include "kernels/threads/pool.h"

namespace lpmm::kernels {

using TakeSum = std::function<void(std::int64_t place, double sum)>;

// Calls row(r, sum) once for each row, on any thread, then column(c, sum) for each column, where it is not
// empty; of the squares of scale * gradient, which are 0 where there is no gradient.
void sum_squares(Pool& pool, const RoleView& gradient, float scale, const TensorTraits& matrix,
                 const TakeSum& row, const TakeSum& column);
double mean_of_rows(const RoleView& variances);

}  // namespace lpmm::kernels
