#include "lpmm/program/ops/sequence/types.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/compute.h"
#include "kernels/sequence.h"
#include "lpmm/base/error.h"
#include "lpmm/memory/device_memory.h"
#include "lpmm/program/ops/sequence/row_lists.h"
#include "lpmm/program/program_plan.h"
#include "lpmm/program/workspace.h"

namespace lpmm {
namespace {

using kernels::value_bytes;

class AddTypesOp : public Op {
 public:
  AddTypesOp(int table, std::int64_t types, std::int64_t rows, std::int64_t width, std::int64_t panel)
      : table_(table),
        types_(types),
        rows_(rows),
        width_(width),
        panel_(std::clamp<std::int64_t>(panel / width, 1, rows)) {}

  std::int64_t workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { Forward(*this, p); }, [&](Pieces& p) { Backward(*this, p); });
  }
  std::int64_t host_workspace_bytes() const override {
    return largest_layout([&](Pieces& p) { p.take(4 * rows_); }, [&](Pieces& p) { RowLists(p, most()); });
  }
  std::int64_t transient_bytes() const override { return 4 * panel_ * width_; }

  void forward(RunState& run) const override {
    Pieces pieces(run.workspace), host(run.host_workspace);
    const Forward f(*this, pieces);
    auto* const types = reinterpret_cast<std::int32_t*>(host.take(4 * rows_));
    for (std::int64_t i = 0; i < rows_; ++i) types[i] = type_of(run, i);
    Device& device = run.device;
    const std::int32_t* ids = on_device(device, types, rows_, f.ids);
    for (std::int64_t first = 0; first < rows_; first += panel_) {
      const std::int64_t n = std::min(panel_, rows_ - first);
      const std::int64_t at = first * width_ * value_bytes(plan->compute);
      run.memory.decode_rows(table_, width_, ids + first, n, f.rows);
      device.from_float(plan->compute, n * width_, f.rows, f.narrow);
      device.add({plan->compute, n * width_}, data(run, inputs[0]) + at, f.narrow, data(run, output) + at);
    }
  }

  void backward(RunState& run) const override {
    Pieces pieces(run.workspace), host_pieces(run.host_workspace);
    const Backward b(*this, pieces);
    const RowLists host(host_pieces, most());
    Device& device = run.device;
    std::int64_t count = 0;
    for (std::int64_t type = 0; type < types_; ++type) {
      host.first[type] = count;
      host.targets[type] = static_cast<std::int32_t>(type);
      for (std::int64_t i = 0; i < rows_; ++i) {
        if (type_of(run, i) == type) host.rows[count++] = static_cast<std::int32_t>(i);
      }
    }
    host.first[types_] = count;
    device.sum_rows({plan->compute, width_, gradient(run, output), on_device(device, host, types_, b.copies),
                     0, types_ * width_, b.sums});
    run.step->fold(table_, 0, span_of(b.sums, types_ * width_), run.microbatch);
    device.copy_or_add({plan->compute, rows_ * width_}, gradient(run, output), gradient(run, inputs[0]),
                       accumulate[0]);
  }

 private:
  struct Forward {
    Forward(const AddTypesOp& op, Pieces& p)
        : rows(p.floats(op.panel_ * op.width_)),
          narrow(p.take(op.panel_ * op.width_ * value_bytes(op.plan->compute))),
          ids(p.take(room_on(*op.plan->device, 4 * op.rows_))) {}
    float* rows;
    std::byte *narrow, *ids;
  };
  struct Backward {
    Backward(const AddTypesOp& op, Pieces& p)
        : sums(p.floats(op.types_ * op.width_)), copies(p, *op.plan->device, op.most()) {}
    float* sums;
    RowCopies copies;
  };
  std::int64_t most() const { return std::max(rows_, types_); }
  std::int32_t type_of(const RunState& run, std::int64_t row) const {
    const std::vector<std::int32_t>& types = run.batch.types;
    if (row >= std::ssize(types)) return 0;
    const std::int32_t type = types[static_cast<std::size_t>(row)];
    if (type < 0 || type >= types_) {
      throw RunError(fmt::format("a token of sentence {}: the model has {} kinds", type, types_));
    }
    return type;
  }

  int table_;
  std::int64_t types_, rows_, width_, panel_;
};

}  // namespace

Value add_types(ProgramBuilder& b, const std::string& name, Value x, int types) {
  const int table = b.add_tensor(name + ".weight", {types, x.channels}, {InitialKind::kNormal, 0.02},
                                 TensorKind::kEmbedding);
  return b.add_op(std::make_unique<AddTypesOp>(table, types, b.rows(x), x.channels, b.panel_sizes().weights),
                  {x}, b.add_value(x.height, x.width, x.channels), {});
}

}  // namespace lpmm
