#include "lpmm/program/ops/sequence/documents.h"

#include <fmt/format.h>

#include <memory>

#include "kernels/compute.h"
#include "lpmm/base/error.h"

namespace lpmm {
namespace {

class DocumentTableOp : public Op {
 public:
  DocumentTableOp(std::int64_t rows, std::int64_t length) : rows_(rows), length_(length) {}
  std::int64_t host_workspace_bytes() const override { return kernels::aligned(bytes()); }
  void forward(RunState& run) const override {
    check(run.batch);
    auto* const starts = reinterpret_cast<std::int32_t*>(run.host_workspace);
    std::int32_t *const ends = starts + rows_, *const places = ends + rows_;
    for (std::int64_t row = 0; row < rows_; ++row) {
      places[row] = place_in_document(run.batch, row, length_);
      starts[row] = static_cast<std::int32_t>(row % length_) - places[row];
    }
    auto end = static_cast<std::int32_t>(length_);
    for (std::int64_t row = rows_; row-- > 0;) {
      ends[row] = end;
      if (places[row] == 0) end = starts[row] == 0 ? static_cast<std::int32_t>(length_) : starts[row];
    }
    run.device.upload(data(run, output), starts, bytes());
  }
  void backward(RunState&) const override {}

 private:
  std::int64_t bytes() const { return 3 * rows_ * std::int64_t{sizeof(std::int32_t)}; }
  // A position begins a document or goes on with that of the position before.
  void check(const Batch& batch) const {
    const std::vector<std::int32_t>& starts = batch.starts;
    if (!starts.empty() && std::ssize(starts) != batch.count * length_) {
      throw RunError(fmt::format("a batch says of {} positions where their documents begin, {} were expected",
                                 starts.size(), batch.count * length_));
    }
    for (std::size_t row = 0; row < starts.size(); ++row) {
      const auto position = static_cast<std::int32_t>(static_cast<std::int64_t>(row) % length_);
      if (starts[row] == position || (position > 0 && starts[row] == starts[row - 1])) continue;
      throw RunError(
          fmt::format("a batch says that the document of position {} begins at {}", position, starts[row]));
    }
  }
  std::int64_t rows_, length_;
};

}  // namespace

Value document_table(ProgramBuilder& b, int length) {
  if (b.inference() > 0) return {};
  const std::int64_t rows = std::int64_t{1} * b.batch() * length;
  return b.add_op(std::make_unique<DocumentTableOp>(rows, length), {}, b.add_table(3 * rows), {});
}

kernels::Documents documents_in(const std::byte* table, std::int64_t rows) {
  if (table == nullptr) return {};
  const auto* const starts = reinterpret_cast<const std::int32_t*>(table);
  return {starts, starts + rows, starts + 2 * rows};
}

}  // namespace lpmm
