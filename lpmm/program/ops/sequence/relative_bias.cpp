#include "lpmm/program/ops/sequence/relative_bias.h"

#include <algorithm>
#include <numeric>

#include "kernels/sequence.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/ops/sequence/row_lists.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

// The table's row of every distance, one after the other; and the sums over distances of their gradients.
class RelativeBiasOp : public Op {
 public:
  RelativeBiasOp(int table, int heads, int length)
      : table_(table), heads_(heads), longest_(length - 1), distances_(2 * longest_ + 1) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { p.take(room_on(*plan->device, 4 * distances_)); },
                          [&](Pieces& p) { Backward(*this, p); });
  }
  std::int64_t host_workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { p.take(4 * distances_); },
                          [&](Pieces& p) { RowLists(p, most()); });
  }
  std::int64_t transient_bytes() const override { return 4 * most() * heads_; }

  void forward(RunState& run) const override {
    Pieces pieces(run.workspace), host(run.host_workspace);
    auto* const rows = reinterpret_cast<std::int32_t*>(host.take(4 * distances_));
    for (std::int64_t i = 0; i < distances_; ++i) rows[i] = bias_row(i - longest_);
    Device& device = run.device;
    std::byte* const room = pieces.take(room_on(device, 4 * distances_));
    run.memory.decode_rows(table_, heads_, on_device(device, rows, distances_, room), distances_,
                           reinterpret_cast<float*>(data(run, output)));
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace), host_pieces(run.host_workspace);
    const Backward b(*this, pieces);
    const RowLists host(host_pieces, most());
    std::int64_t count = 0;
    for (int row = 0; row < kBiasRows; ++row) {
      host.first[row] = count;
      host.targets[row] = row;
      for (std::int64_t i = 0; i < distances_; ++i) {
        if (bias_row(i - longest_) == row) host.rows[count++] = static_cast<std::int32_t>(i);
      }
    }
    host.first[kBiasRows] = count;
    std::fill(host.rows + count, host.rows + most(), 0);
    Device& device = run.device;
    device.sum_rows({ValueType::kFp32, heads_, gradient(run, output),
                     on_device(device, host, kBiasRows, b.copies), 0, kBiasRows * heads_, b.sums});
    run.step->fold(table_, 0, span_of(b.sums, kBiasRows * heads_), run.microbatch);
  }

 private:
  struct Backward {
    Backward(const RelativeBiasOp& op, Pieces& p)
        : sums(p.floats(kBiasRows * op.heads_)), copies(p, *op.plan->device, op.most()) {}
    float* sums;
    RowCopies copies;
  };
  std::int64_t most() const { return std::max<std::int64_t>(distances_, kBiasRows); }

  int table_;
  std::int64_t heads_, longest_, distances_;
};

}  // namespace

int bias_row(std::int64_t distance) {
  constexpr int kSide = kBiasRows / 2, kExact = kSide / 2;
  const std::int64_t far = distance < 0 ? -distance : distance;
  const int side = distance > 0 ? kSide : 0;
  if (far < kExact) return side + static_cast<int>(far);
  int row = kExact;
  // far >= kExact * sqrt(2)^n, in whole numbers.
  for (std::int64_t square = 2 * kExact * kExact; row + 1 < kSide && far * far >= square; square *= 2) ++row;
  return side + row;
}

Value relative_bias(ProgramBuilder& b, const std::string& name, int heads, int length) {
  const int table = b.add_tensor(name + ".weight", {kBiasRows, heads}, {InitialKind::kNormal, 0.02},
                                 TensorKind::kEmbedding);
  return b.add_op(std::make_unique<RelativeBiasOp>(table, heads, length), {},
                  b.add_table((2 * std::int64_t{length} - 1) * heads, true), {});
}

}  // namespace lpmm
