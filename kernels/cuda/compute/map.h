// Loops over elements: a thread takes a vector of eight, in accesses of 16 bytes where the memory is aligned.
#pragma once

#include <concepts>
#include <type_traits>

#include "kernels/compute.h"
#include "kernels/cuda/launch.h"
#include "kernels/formats/codec.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

// A product that is not joined with a sum: where rounding has to be the CPU's.
LPMM_HD float product(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

// Activations of either type, one by one. A uint16_t holds a bf16.
LPMM_HD float load(const float* p) {
  return *p;
}
LPMM_HD float load(const std::uint16_t* p) {
  return bf16_to_float(*p);
}
LPMM_HD void store(float* p, float v) {
  *p = v;
}
LPMM_HD void store(std::uint16_t* p, float v) {
  *p = float_to_bf16(v);
}

// Calls body(cell), a null pointer to the type that holds an activation.
template <class Body>
void with_type(ValueType type, const Body& body) {
  if (type == ValueType::kFp32) {
    body(static_cast<float*>(nullptr));
  } else {
    body(static_cast<std::uint16_t*>(nullptr));
  }
}

inline constexpr int kVector = 8;
template <class Cell>
struct alignas(16) Chunk {
  static constexpr int kCells = 16 / static_cast<int>(sizeof(Cell));
  Cell cells[kCells];
};
inline bool is_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

template <class Cell>
LPMM_HD void load_vector(const Cell* p, float (&v)[kVector]) {
  constexpr int kCells = Chunk<Cell>::kCells;
  for (int k = 0; k < kVector / kCells; ++k) {
    const Chunk<Cell> chunk = reinterpret_cast<const Chunk<Cell>*>(p)[k];
    for (int i = 0; i < kCells; ++i) v[k * kCells + i] = load(&chunk.cells[i]);
  }
}
template <class Cell>
LPMM_HD void store_vector(Cell* p, const float (&v)[kVector]) {
  constexpr int kCells = Chunk<Cell>::kCells;
  for (int k = 0; k < kVector / kCells; ++k) {
    Chunk<Cell> chunk;
    for (int i = 0; i < kCells; ++i) store(&chunk.cells[i], v[k * kCells + i]);
    reinterpret_cast<Chunk<Cell>*>(p)[k] = chunk;
  }
}

// The place of an element in a matrix, and of those after it.
struct Place {
  std::int64_t row = 0, column = 0;
  LPMM_HD static Place of(std::int64_t element, std::int64_t columns) {
    if ((element | columns) >> 32 == 0) {  // a quarter of the instructions
      const auto e = static_cast<std::uint32_t>(element), n = static_cast<std::uint32_t>(columns);
      return {e / n, e % n};
    }
    return {element / columns, element % columns};
  }
  LPMM_HD void next(std::int64_t columns) {
    if (++column == columns) {
      column = 0;
      ++row;
    }
  }
};

struct Values {
  float v[kVector];
};
// Values as they are stored.
template <class Cell>
struct Cells {
  Cell v[kVector];
};
// A thread's elements of `count`; of 16-byte aligned memory where `is_vector`.
struct Piece {
  std::int64_t first, count;
  bool is_vector;
  // The piece of the running thread, in a launch of one thread per piece.
  __device__ static Piece mine(std::int64_t count, bool is_vector) {
    const std::int64_t first = (std::int64_t{1} * blockIdx.x * blockDim.x + threadIdx.x) * kVector;
    return {first, count, is_vector && first + kVector <= count};
  }
  LPMM_HD bool has(int i) const { return first + i < count; }
  template <class Cell>
  LPMM_HD Values load(const Cell* p) const {
    Values in = {};
    if (is_vector) {
      load_vector(p + first, in.v);
    } else {
      for (int i = 0; i < kVector; ++i) {
        if (has(i)) in.v[i] = LPMM_CUDA_NAMESPACE::load(p + first + i);
      }
    }
    return in;
  }
  template <class Cell>
  LPMM_HD Cells<Cell> cells(const Cell* p) const {
    constexpr int kCells = Chunk<Cell>::kCells;
    Cells<Cell> in = {};
    if (is_vector) {
      for (int k = 0; k < kVector; k += kCells) {
        const Chunk<Cell> chunk = *reinterpret_cast<const Chunk<Cell>*>(p + first + k);
        for (int i = 0; i < kCells; ++i) in.v[k + i] = chunk.cells[i];
      }
    } else {
      for (int i = 0; i < kVector; ++i) {
        if (has(i)) in.v[i] = p[first + i];
      }
    }
    return in;
  }
  template <class Cell>
  LPMM_HD void store(Cell* p, const Values& out) const {
    if (is_vector) return store_vector(p + first, out.v);
    for (int i = 0; i < kVector; ++i) {
      if (has(i)) LPMM_CUDA_NAMESPACE::store(p + first + i, out.v[i]);
    }
  }
};

// A body that makes all eight values of a place at once, where it can.
template <class Body>
concept Wide = requires(const Body& body, const Place& place) {
  { body.is_wide } -> std::convertible_to<bool>;
  { body.wide(place) } -> std::same_as<Values>;
};

// y[i] = (kAdds ? y[i] : 0) + body(x[i]...); a body may ask for the element's place first.
template <bool kAdds, class Body, class Cell, class... In>
__global__ void map_vectors(std::int64_t count, std::int64_t columns, bool is_vector, Body body, Cell* y,
                            const In*... x) {
  begin_kernel();
  const Piece piece = Piece::mine(count, is_vector);
  if (!piece.has(0)) return;
  constexpr bool kPlaced = std::is_invocable_v<const Body&, const Place&, decltype(load(x))...>;
  Place place;
  if constexpr (kPlaced) place = Place::of(piece.first, columns);
  Values out = {};
  if constexpr (kAdds) out = piece.load(y);
  if constexpr (Wide<Body>) {
    if (body.is_wide && piece.is_vector) {
      const Values more = body.wide(place);
      for (int i = 0; i < kVector; ++i) out.v[i] = kAdds ? more.v[i] + out.v[i] : more.v[i];
      return piece.store(y, out);
    }
  }
  const auto all = [&](const auto&... in) {
    for (int i = 0; i < kVector; ++i) {
      if (!piece.has(i)) break;
      float v = 0;
      if constexpr (kPlaced) {
        v = body(place, in.v[i]...);
        place.next(columns);
      } else {
        v = body(in.v[i]...);
      }
      out.v[i] = kAdds ? v + out.v[i] : v;
    }
  };
  all(piece.load(x)...);
  piece.store(y, out);
}

// Operations that convert or add.
struct Same {
  LPMM_HD float operator()(float x) const { return x; }
};

inline constexpr int kMapThreads = 256;
inline std::int64_t map_blocks(std::int64_t count) {
  constexpr std::int64_t kOfBlock = std::int64_t{kVector} * kMapThreads;
  return (count + kOfBlock - 1) / kOfBlock;
}

// Over a matrix with rows of `columns`; y may be one of x.
template <class Body, class Cell, class... In>
void map_matrix(Stream stream, std::int64_t rows, std::int64_t columns, const Body& body, Cell* y,
                bool accumulate, const In*... x) {
  const std::int64_t count = rows * columns;
  const bool is_vector = is_aligned(y) && (is_aligned(x) && ...);
  const auto kernel =
      accumulate ? map_vectors<true, Body, Cell, In...> : map_vectors<false, Body, Cell, In...>;
  launch_apart(kernel, map_blocks(count), kMapThreads, stream, count, columns, is_vector, body, y, x...);
}
// Over `count` elements of no matter which shape.
template <class Body, class Cell, class... In>
void map(Stream stream, std::int64_t count, const Body& body, Cell* y, bool accumulate, const In*... x) {
  if (count > 0) map_matrix(stream, 1, count, body, y, accumulate, x...);
}

// Rows that lie apart, in the type of where they go.
template <bool kAdds, class In, class Cell>
__global__ void copy_rows(Rows rows, const In* from, Cell* to) {
  begin_kernel();
  const std::int64_t i = std::int64_t{1} * blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows.count * rows.columns) return;
  const Place at = Place::of(i, rows.columns);
  const float v = load(from + at.row * rows.in_stride + at.column);
  Cell* const out = to + at.row * rows.out_stride + at.column;
  store(out, kAdds ? load(out) + v : v);
}
template <class In, class Cell>
void move_rows(Stream stream, const Rows& rows, const In* from, Cell* to) {
  const std::int64_t count = rows.count * rows.columns;
  if (count == 0) return;
  const auto kernel = rows.accumulate ? copy_rows<true, In, Cell> : copy_rows<false, In, Cell>;
  launch_apart(kernel, (count + kMapThreads - 1) / kMapThreads, kMapThreads, stream, rows, from, to);
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
