#include "lpmm/program/ops/sequence/positions.h"

#include <algorithm>
#include <utility>

#include "kernels/compute.h"
#include "kernels/sequence.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/ops/sequence/documents.h"
#include "lpmm/program/ops/sequence/position_table.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

using kernels::value_bytes;

class AddPositionsOp : public Op {
 public:
  AddPositionsOp(const PositionTable& table, std::int64_t rows, std::int64_t length, std::int64_t width,
                 std::int64_t panel)
      : table_(table),
        rows_(rows),
        length_(length),
        width_(width),
        panel_(std::clamp<std::int64_t>(panel / width, 1, rows)) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { Forward(*this, p); }, [&](Pieces& p) { Backward(*this, p); });
  }
  std::int64_t host_workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { p.take(4 * length_); }, [&](Pieces& p) { RowLists(p, rows_); });
  }
  std::int64_t transient_bytes() const override {
    return 4 * std::max(table_.row_floats(), table_.gradient_floats());
  }
  bool skips_gradient() const override { return inputs.size() > 1; }  // the table of documents has none

  void forward(RunState& run) const override {
    Pieces pieces(run.workspace), host(run.host_workspace);
    const Forward f(*this, pieces);
    Device& device = run.device;
    table_.decode(run, reinterpret_cast<std::int32_t*>(host.take(4 * length_)), f.places, f.positions);
    const std::byte* const documents = inputs.size() > 1 ? data(run, inputs[1]) : nullptr;
    for (std::int64_t first = 0; first < rows_; first += panel_) {
      const std::int64_t n = std::min(panel_, rows_ - first);
      const std::int64_t at = first * width_ * value_bytes(plan->compute);
      device.to_float(plan->compute, n * width_, data(run, inputs[0]) + at, f.rows);
      device.embedding_forward({plan->compute, width_, length_, first, n, f.rows, f.positions,
                                data(run, output) + at, documents_in(documents, rows_).places});
    }
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace), host(run.host_workspace);
    const Backward b(*this, pieces);
    table_.fold(run, plan->compute, gradient(run, output), rows_, RowLists(host, rows_), b.copies, b.sums);
    run.device.copy_or_add({plan->compute, rows_ * width_}, gradient(run, output), gradient(run, inputs[0]),
                           accumulate[0]);
  }

 private:
  struct Forward {
    Forward(const AddPositionsOp& op, Pieces& p)
        : rows(p.floats(op.panel_ * op.width_)),
          positions(p.floats(op.table_.row_floats())),
          places(p.take(room_on(*op.plan->device, 4 * op.length_))) {}
    float *rows, *positions;
    std::byte* places;
  };
  struct Backward {
    Backward(const AddPositionsOp& op, Pieces& p)
        : sums(p.floats(op.table_.gradient_floats())), copies(p, *op.plan->device, op.rows_) {}
    float* sums;
    RowCopies copies;
  };

  PositionTable table_;
  std::int64_t rows_, length_, width_, panel_;
};

}  // namespace

Value add_positions(ProgramBuilder& b, const std::string& name, Value x, std::vector<std::int64_t> shape,
                    std::int64_t first, Value documents) {
  std::int64_t context = 1;
  for (const std::int64_t n : shape) context *= n;
  context /= x.channels;
  const int table =
      b.add_tensor(name, std::move(shape), {InitialKind::kNormal, 0.02}, TensorKind::kEmbedding);
  std::vector<Value> inputs{x};
  if (documents.id >= 0) inputs.push_back(documents);
  return b.add_op(std::make_unique<AddPositionsOp>(PositionTable(table, context, x.width, x.channels, first),
                                                   b.rows(x), x.width, x.channels, b.panel_sizes().weights),
                  inputs, b.add_value(x.height, x.width, x.channels), {});
}

}  // namespace lpmm
