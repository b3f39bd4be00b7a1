#include "kernels/cpu/packed/row_sums.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cpu/packed/tile_view.h"
#include "kernels/sums.h"

namespace lpmm::kernels {
namespace {

using Lanes = std::array<double, kRowLanes>;

void add_squares(const float* values, std::int64_t count, double* sums) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(values[i]) * values[i];
}

// Walks over whole rows, some elements at a time.
class RowWalk {
 public:
  // Columns are summed into `columns`, where not null.
  RowWalk(std::int64_t width, std::int64_t first_row, double* columns, const TakeSum& take)
      : width_(width), row_(first_row), columns_(columns), take_(take) {}

  void add(const float* values, std::int64_t count) {
    while (count > 0) {
      const std::int64_t n = std::min(count, width_ - column_);
      add_to_lanes(values, n);
      if (columns_ != nullptr) add_squares(values, n, columns_ + column_);
      values += n;
      count -= n;
      column_ += n;
      if (column_ == width_) end_row();
    }
  }

 private:
  void add_to_lanes(const float* values, std::int64_t count) {
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t lane = (column_ + done) % kRowLanes;
      const std::int64_t n = std::min(count - done, kRowLanes - lane);
      add_squares(values + done, n, lanes_.data() + lane);
      done += n;
    }
  }
  void end_row() {
    take_(row_++, sum_of_lanes<kRowLanes>(lanes_.data()));
    lanes_ = {};
    column_ = 0;
  }

  std::int64_t width_, row_, column_ = 0;
  double* columns_;
  const TakeSum& take_;
  Lanes lanes_ = {};
};

// The elements first, ..., end - 1 of scale * gradient, in parts of tiles.
template <class Body>
void for_each_part(const RoleView& gradient, float scale, std::int64_t first, std::int64_t end,
                   const Body& body) {
  const std::int64_t tile = Cut(gradient.elements, piece_of_blocks(gradient.codec)).tile;
  float* values = scratch().values[Role::kAccumulator].data();
  for (std::int64_t at = first / tile * tile; at < end; at += tile) {
    const TileView view = tile_of(gradient, at, std::min(tile, gradient.elements - at));
    decode_tile(view, values);
    for (std::int64_t i = 0; i < view.count; ++i) values[i] = lpmm::scaled(values[i], scale);
    const std::int64_t from = std::max(at, first), to = std::min(at + view.count, end);
    body(values + (from - at), to - from);
  }
}

}  // namespace

void sum_squares(Pool& pool, const RoleView& gradient, float scale, const TensorTraits& matrix,
                 const TakeSum& row, const TakeSum& column) {
  if (matrix.rows == 0 || matrix.columns == 0) return;
  const std::int64_t chunks = row_chunks(matrix.rows), rows = rows_of_chunk(matrix.rows);
  std::vector<double> columns(static_cast<std::size_t>(column ? chunks * matrix.columns : 0));
  pool.for_each(chunks, [&](std::int64_t chunk, int) {
    const std::int64_t first = chunk * rows, end = std::min(matrix.rows, first + rows);
    if (gradient.codes == nullptr) {
      for (std::int64_t r = first; r < end; ++r) row(r, 0);
      return;
    }
    RowWalk walk(matrix.columns, first, column ? columns.data() + chunk * matrix.columns : nullptr, row);
    for_each_part(gradient, scale, first * matrix.columns, end * matrix.columns,
                  [&](const float* values, std::int64_t count) { walk.add(values, count); });
  });
  for (std::int64_t c = 0; column && c < matrix.columns; ++c) {
    double sum = 0;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      sum += columns[static_cast<std::size_t>(chunk * matrix.columns + c)];
    }
    column(c, sum);
  }
}

double mean_of_rows(const RoleView& variances) {
  const auto* values = reinterpret_cast<const float*>(variances.codes);
  Lanes lanes = {};
  for (std::int64_t r = 0; r < variances.elements; ++r) {
    lanes[static_cast<std::size_t>(r % kRowLanes)] += double{values[r]};
  }
  return sum_of_lanes<kRowLanes>(lanes.data()) / static_cast<double>(variances.elements);
}

}  // namespace lpmm::kernels
