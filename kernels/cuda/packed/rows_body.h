// The sums of a gradient's squares over rows and columns, in the order of kernels/sums.h, and the variances
// that come of them. Bodies as in update_body.h.
#pragma once

#include "kernels/cuda/packed/update_body.h"
#include "kernels/sums.h"

namespace lpmm::kernels::cuda {

template <class RuleType>
struct RowsJob {
  RuleType rule;
  Slot gradient;  // null codes: all 0
  std::int64_t rows = 0, columns = 0;
  float *of_rows = nullptr, *of_columns = nullptr;  // variances; columns may have none
  bool* storable = nullptr;                         // null: nobody asks
  RowShares shares = {};

  LPMM_HD double square(std::int64_t element) const {
    if (gradient.codes == nullptr) return 0;
    const float g = lpmm::scaled(load_value(gradient, element), rule.gradient_scale);
    return double{g} * double{g};
  }
  LPMM_HD double lane_of_row(std::int64_t row, int lane) const {
    double sum = 0;
    for (std::int64_t c = lane; c < columns; c += kRowLanes) sum += square(row * columns + c);
    return sum;
  }
  LPMM_HD double chunk_of_column(std::int64_t column, std::int64_t chunk) const {
    const std::int64_t first = chunk * rows_of_chunk(rows), end = first + rows_of_chunk(rows);
    double sum = 0;
    for (std::int64_t row = first; row < end && row < rows; ++row) sum += square(row * columns + column);
    return sum;
  }
  LPMM_HD double lane_of_variances(int lane) const {
    double sum = 0;
    for (std::int64_t row = lane; row < rows; row += kRowLanes) sum += double{of_rows[row]};
    return sum;
  }
  LPMM_HD void move_on(float& variance, double sum, std::int64_t count) const {
    variance = rule.next(variance, sum / static_cast<double>(count));
    if (!make_storable(variance) && storable != nullptr) *storable = false;
  }
};

template <class RuleType>
RowsJob<RuleType> make_rows(const RuleType& rule, const RoleArray<RoleView>& roles, bool* storable,
                            TableOf table_of) {
  const TensorTraits matrix = matrix_of(roles);
  return {rule,
          make_slot(roles[Role::kAccumulator], table_of, {}),
          matrix.rows,
          matrix.columns,
          reinterpret_cast<float*>(roles[Role::kRowVariance].codes),
          reinterpret_cast<float*>(roles[Role::kColumnVariance].codes),
          storable,
          roles[Role::kRowVariance].shares};
}

}  // namespace lpmm::kernels::cuda
