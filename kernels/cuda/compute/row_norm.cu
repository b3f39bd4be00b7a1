// Norms of rows: a warp per row; gradients of weight and bias by shards of rows.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "kernels/cuda/compute/columns.h"
#include "kernels/cuda/compute/map.h"
#include "kernels/cuda/cuda_device.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {
namespace {

// True if every row of these begins where a vector may.
bool has_vectors(const RowNormShape& s, std::initializer_list<const void*> arrays) {
  return s.width % kVector == 0 && s.stride % kVector == 0 &&
         std::all_of(arrays.begin(), arrays.end(), is_aligned);
}

// A row of a warp. Its lanes take vectors of eight in turn.
struct Row {
  std::int64_t width;
  bool is_vector;
  __device__ Piece piece(int k) const {
    const std::int64_t first = (std::int64_t{k} * kWarp + lane_of_warp()) * kVector;
    return {first, width, is_vector && first + kVector <= width};
  }
};
// The values that `load` makes of a lane's pieces of a row: kept in registers, except what is too wide for
// them.
template <class Of, class Load>
struct Loaded {
  static constexpr int kKept = 4;  // 1024 values of a row
  Row row;
  Load load;
  Of kept[kKept];

  __device__ Loaded(const Row& of, const Load& loads) : row(of), load(loads) {
    LPMM_UNROLL
    for (int k = 0; k < kKept; ++k) kept[k] = load(row.piece(k));
  }
  template <class Body>
  __device__ void each(const Body& body) const {
    LPMM_UNROLL
    for (int k = 0; k < kKept; ++k) {
      const Piece piece = row.piece(k);
      if (piece.has(0)) body(piece, kept[k]);
    }
    for (int k = kKept; row.piece(k).has(0); ++k) body(row.piece(k), load(row.piece(k)));
  }
  // Sums term() over the elements; it is not called for places beyond the row's end.
  template <class Term>
  __device__ float sum(const Term& term) const {
    float sum = 0;
    each([&](const Piece& piece, const Of& of) {
      for (int i = 0; i < kVector; ++i) {
        if (piece.has(i)) sum += term(of, i);
      }
    });
    return warp_sum(sum);
  }
};
template <class Of, class Load>
__device__ Loaded<Of, Load> load_row(const Row& row, const Load& load) {
  return {row, load};
}

template <class Cell>
__global__ void normalize_rows(RowNormShape s, RowNormForward args, bool is_vector, const Cell* x, Cell* y) {
  begin_kernel();
  const std::int64_t row = row_of_warp();
  if (row >= s.rows) return;
  const float share = 1.0F / static_cast<float>(s.width);
  x += s.at(row);
  y += s.at(row);
  const auto values =
      load_row<Values>(Row{s.width, is_vector}, [&](const Piece& piece) { return piece.load(x); });
  const float center =
      s.is_centred ? share * values.sum([](const Values& of, int i) { return of.v[i]; }) : 0.0F;
  const float squares = values.sum([&](const Values& of, int i) {
    const float d = of.v[i] - center;
    return d * d;
  });
  const float more = s.adds_one ? 1.0F : 0.0F;
  const double variance = static_cast<double>(squares) * share;
  const auto inverse = static_cast<float>(1 / std::sqrt(variance + s.epsilon));
  values.each([&](const Piece& piece, const Values& of) {
    const Values w = piece.load(args.weight), b = s.is_centred ? piece.load(args.bias) : Values{};
    Values out;
    for (int i = 0; i < kVector; ++i) {
      const float v = (of.v[i] - center) * inverse * (w.v[i] + more);
      out.v[i] = s.is_centred ? v + b.v[i] : v;
    }
    piece.store(y, out);
  });
  if (lane_of_warp() != 0) return;
  if (s.is_centred) args.mean[row] = center;
  args.inverse_deviation[row] = inverse;
}

// With n = (x - mean) * r and g = dy * weight: dx = r * (g - mean of g - n * mean of g n), without the mean
// of g where the norm is not centred. x and dy are read twice, the second time from the cache: so few
// registers leave room for many warps. An old dx that is added to is loaded along with the first.
template <class Cell>
__global__ void __launch_bounds__(kRowThreads, 3)
    gradient_of_rows(RowNormShape s, RowNormBackward args, bool is_vector, const Cell* x, const Cell* dy,
                     Cell* dx) {
  begin_kernel();
  const std::int64_t row = row_of_warp();
  if (row >= s.rows) return;
  const float share = 1.0F / static_cast<float>(s.width);
  const float center = s.is_centred ? args.mean[row] : 0.0F, inverse = args.inverse_deviation[row],
              more = s.adds_one ? 1.0F : 0.0F;
  x += s.at(row);
  dy += s.at(row);
  dx += s.at(row);
  const auto before = load_row<Cells<Cell>>(Row{s.width, is_vector}, [&](const Piece& piece) {
    return args.accumulate ? piece.cells(dx) : Cells<Cell>{};
  });
  const auto each = [&](const auto& body) {
    before.each([&](const Piece& piece, const Cells<Cell>& old) {
      Values n = piece.load(x), g = piece.load(dy);
      const Values weight = piece.load(args.weight);
      LPMM_UNROLL
      for (int i = 0; i < kVector; ++i) {
        n.v[i] = piece.has(i) ? (n.v[i] - center) * inverse : 0.0F;
        g.v[i] *= weight.v[i] + more;
      }
      body(piece, old, n, g);
    });
  };
  float g_sum = 0, gn_sum = 0;
  each([&](const Piece&, const Cells<Cell>&, const Values& n, const Values& g) {
    LPMM_UNROLL
    for (int i = 0; i < kVector; ++i) {
      g_sum += g.v[i];
      gn_sum += g.v[i] * n.v[i];
    }
  });
  const float mean_g = s.is_centred ? share * warp_sum(g_sum) : 0.0F, mean_gn = share * warp_sum(gn_sum);
  each([&](const Piece& piece, const Cells<Cell>& old, const Values& n, const Values& g) {
    Values out;
    LPMM_UNROLL
    for (int i = 0; i < kVector; ++i) {
      const float v = inverse * (g.v[i] - mean_g - n.v[i] * mean_gn);
      out.v[i] = args.accumulate ? v + load(&old.v[i]) : v;
    }
    piece.store(dx, out);
  });
}

template <class Cell>
struct ParameterTerms {
  RowNormShape shape;
  const Cell *x, *dy;
  const float *mean, *inverse_deviation;
  LPMM_HD void operator()(std::int64_t row, std::int64_t c, float (&of)[2]) const {
    const std::int64_t i = shape.at(row) + c;
    const float d = load(dy + i);
    const float center = mean == nullptr ? 0.0F : mean[row];
    of[0] = d * ((load(x + i) - center) * inverse_deviation[row]);
    of[1] = d;
  }
  LPMM_HD void wide(std::int64_t row, std::int64_t c, float (&of)[2][kVector]) const {
    const std::int64_t i = shape.at(row) + c;
    load_vector(x + i, of[0]);
    load_vector(dy + i, of[1]);
    const float center = mean == nullptr ? 0.0F : mean[row], inverse = inverse_deviation[row];
    for (int k = 0; k < kVector; ++k) of[0][k] = of[1][k] * ((of[0][k] - center) * inverse);
  }
};
struct StoreGradients {
  float *weight, *bias;
  LPMM_HD void operator()(std::int64_t c, const double (&of)[2]) const {
    weight[c] = static_cast<float>(of[0]);
    if (bias != nullptr) bias[c] = static_cast<float>(of[1]);
  }
};

}  // namespace

void CudaDevice::row_norm_forward(const RowNormShape& s, const RowNormForward& args) {
  with_type(s.type, [&]<class Cell>(Cell*) {
    launch(normalize_rows<Cell>, row_blocks(s.rows), kRowThreads, 0, stream(), s, args,
           has_vectors(s, {args.x, args.weight, args.bias, args.y}), static_cast<const Cell*>(args.x),
           static_cast<Cell*>(args.y));
  });
}

// Partial gradients of weight and bias of each shard.
std::int64_t CudaDevice::row_norm_scratch_bytes(const RowNormShape& s) const {
  return aligned(8 * 2 * whole_shards(s.rows, s.width) * s.width);
}

void CudaDevice::row_norm_backward(const RowNormShape& s, const RowNormBackward& args, void* scratch) {
  with_type(s.type, [&]<class Cell>(Cell*) {
    const auto *x = static_cast<const Cell*>(args.x), *dy = static_cast<const Cell*>(args.dy);
    // Before dx, which may be dy.
    sum_whole_columns<2>(stream(), s.rows, s.width, static_cast<double*>(scratch),
                         packed_.arrivals.take(whole_strips(s.width), stream()).counters,
                         ParameterTerms<Cell>{s, x, dy, args.mean, args.inverse_deviation},
                         StoreGradients{args.weight_gradient, args.bias_gradient}, has_vectors(s, {x, dy}));
    launch(gradient_of_rows<Cell>, row_blocks(s.rows), kRowThreads, 0, stream(), s, args,
           has_vectors(s, {x, dy, args.weight, args.dx}), x, dy, static_cast<Cell*>(args.dx));
  });
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
