#include "kernels/orthogonal.h"

#include <algorithm>
#include <cstring>

namespace lpmm::kernels {
namespace {

RoleView fp32_view(float* values, std::int64_t count) {
  return {Codec{}, reinterpret_cast<std::uint8_t*>(values), nullptr, count};
}

// x <- kept * x + moved * y, and y <- 0.
void combine(const UpdatePass& pass, float kept, float* x, float moved, float* y, std::int64_t count) {
  Muon rule;
  rule.pass = Muon::Pass::kCombine;
  rule.kept = kept;
  rule.moved = moved;
  UpdateArgs args;
  args.roles[Role::kParameter] = fp32_view(x, count);
  args.roles[Role::kAccumulator] = fp32_view(y, count);
  pass({.rule = rule, .args = args});
}

// x <- x / (its norm + 1e-7).
void normalize(const UpdatePass& pass, float* x, std::int64_t count) {
  Muon rule;
  rule.pass = Muon::Pass::kNormalize;
  UpdateArgs args;
  args.roles[Role::kParameter] = fp32_view(x, count);
  pass({.rule = rule, .args = args});
}

// Its pieces, in bytes from the start.
struct Workspace {
  std::int64_t product = 0, square, scratch, end;
  Workspace(const PackedDevice& device, std::int64_t rows, std::int64_t columns) {
    const std::int64_t side = std::min(rows, columns);
    square = aligned(4 * rows * columns);
    scratch = square + aligned(4 * side * side);
    end = scratch + aligned(std::max(device.matmul_scratch_bytes({.m = side, .n = side}),
                                     device.matmul_scratch_bytes({.m = rows, .n = columns})));
  }
};

}  // namespace

std::int64_t orthogonal_workspace_bytes(const PackedDevice& device, std::int64_t rows, std::int64_t columns) {
  return Workspace(device, rows, columns).end;
}

// With A = X X^T of the shorter side, X <- a X + (b A + c A^2) X.
void make_orthogonal(PackedDevice& device, std::int64_t rows, std::int64_t columns, int iterations, float* x,
                     std::byte* workspace, const UpdatePass& pass) {
  constexpr float kA = 3.4445F, kB = -4.7750F, kC = 2.0315F;
  const Workspace pieces(device, rows, columns);
  auto* const product = reinterpret_cast<float*>(workspace + pieces.product);
  auto* const square = reinterpret_cast<float*>(workspace + pieces.square);
  const bool tall = rows > columns;
  const std::int64_t side = std::min(rows, columns), count = rows * columns;
  const auto multiply = [&](MatrixArgs args) { device.matmul(args, workspace + pieces.scratch); };
  normalize(pass, x, count);
  for (int i = 0; i < iterations; ++i) {
    float* const gram = product;  // it lies where its product with X will
    multiply({.transpose_a = tall,
              .transpose_b = !tall,
              .m = side,
              .n = side,
              .k = std::max(rows, columns),
              .a = x,
              .a_stride = columns,
              .b = x,
              .b_stride = columns,
              .c = gram,
              .c_stride = side});
    multiply({.m = side,
              .n = side,
              .k = side,
              .a = gram,
              .a_stride = side,
              .b = gram,
              .b_stride = side,
              .c = square,
              .c_stride = side});
    combine(pass, kC, square, kB, gram, side * side);
    const float *left = tall ? x : square, *right = tall ? square : x;
    multiply({.m = rows,
              .n = columns,
              .k = side,
              .a = left,
              .a_stride = side,
              .b = right,
              .b_stride = columns,
              .c = product,
              .c_stride = columns});
    combine(pass, kA, x, 1, product, count);
  }
}

bool is_orthogonal(const Rule& rule) {
  const auto* muon = std::get_if<Muon>(&rule);
  return muon != nullptr && muon->pass == Muon::Pass::kAll;
}

std::int64_t update_workspace_bytes(const PackedDevice& device, const Rule& rule) {
  if (!is_orthogonal(rule)) return 0;
  const auto& muon = std::get<Muon>(rule);
  return aligned(4 * muon.parts * muon.rows * muon.columns) +
         orthogonal_workspace_bytes(device, muon.rows, muon.columns);
}

void update_orthogonal(PackedDevice& device, const TensorUpdate& tensor, const UpdatePass& pass) {
  auto muon = std::get<Muon>(tensor.rule);
  const std::int64_t part = muon.rows * muon.columns, count = muon.parts * part;
  auto* const direction = reinterpret_cast<float*>(tensor.workspace);

  RoleArray<ChangeStats> stats;
  UpdateArgs args = tensor.args;
  args.roles[Role::kParameter] = fp32_view(direction, count);
  args.roles[Role::kCompensation] = {};
  if (args.stats != nullptr) args.stats = &stats;
  muon.pass = Muon::Pass::kDirection;
  pass({.rule = muon, .args = args});
  if (args.stats != nullptr) (*tensor.args.stats)[Role::kMomentum] += stats[Role::kMomentum];

  for (std::int64_t i = 0; i < muon.parts; ++i) {
    make_orthogonal(device, muon.rows, muon.columns, muon.iterations, direction + i * part,
                    tensor.workspace + aligned(4 * count), pass);
  }

  args.roles = {};
  args.roles[Role::kParameter] = tensor.args.roles[Role::kParameter];
  args.roles[Role::kCompensation] = tensor.args.roles[Role::kCompensation];
  args.roles[Role::kAccumulator] = fp32_view(direction, count);
  args.stats = tensor.args.stats;
  muon.pass = Muon::Pass::kCombine;
  pass({.rule = muon, .args = args, .watched = tensor.watched});
}

}  // namespace lpmm::kernels
