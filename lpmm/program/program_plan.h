// What the ops of a program share: its plan, pieces of the workspace, weights taken by panels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/compute.h"
#include "lpmm/program/builder.h"

namespace lpmm {

// A program's list. Slots are the arena's lifetimes: data and gradient of every value, and what ops save.
struct ProgramPlan {
  int batch = 0;
  Compute compute = Compute::kFp32;
  int threads = 1;
  struct Slots {
    int data = -1, gradient = -1;
    int block = -1,
        again = -1;  // of a value inside a block that is recomputed: where it lives the second time
  };
  // What follows the forward pass: an op's backward, or its forward once more.
  struct Event {
    int op;
    bool replay;
  };
  std::vector<Slots> values;
  std::vector<Lifetime> slots;
  std::vector<std::unique_ptr<Op>> ops;
  std::vector<Event> after;
  std::int64_t arena_bytes = 0, workspace_bytes = 0, largest_transient_bytes = 0;

  int add_slot(std::int64_t bytes) {
    slots.push_back({bytes, -1, -1, 0});
    return static_cast<int>(slots.size()) - 1;
  }
  void touch(int slot, int time) {
    if (slot < 0) return;
    Lifetime& life = slots[static_cast<std::size_t>(slot)];
    life.begin = life.begin < 0 ? time : std::min(life.begin, time);
    life.end = std::max(life.end, time);
  }
  const Slots& value(int id) const { return values[static_cast<std::size_t>(id)]; }
  // Where a value's data is while `block` is replayed or run backward (-1: none is).
  int data_slot(int id, int block) const {
    const Slots& s = value(id);
    return block >= 0 && s.block == block ? s.again : s.data;
  }
  std::byte* at(const RunState& run, int slot) const {
    return slot < 0 ? nullptr : run.arena + slots[static_cast<std::size_t>(slot)].offset;
  }
};

inline constexpr std::int64_t kPanel = std::int64_t{1} << 20;  // elements of a weight decoded at once

// Hands out pieces of the workspace; with a null base it only counts them.
class Pieces {
 public:
  explicit Pieces(std::byte* base) : base_(base) {}
  std::byte* take(std::int64_t bytes) {
    std::byte* p = base_ == nullptr ? nullptr : base_ + used_;
    used_ += kernels::aligned(bytes);
    return p;
  }
  float* floats(std::int64_t count) { return reinterpret_cast<float*>(take(4 * count)); }
  std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

// Throws RunError where a batch has other than one label in 0..classes-1 for each of its `rows`.
void check_labels(const Batch& batch, std::int64_t rows, std::int64_t classes);

// Bytes of the largest of several ways to lay out one workspace.
template <class... Layouts>
std::int64_t largest_layout(const Layouts&... layouts) {
  const auto bytes_of = [](const auto& lay_out) {
    Pieces pieces(nullptr);
    lay_out(pieces);
    return pieces.used();
  };
  return std::max({bytes_of(layouts)...});
}

inline std::span<float> span_of(float* p, std::int64_t count) {
  return {p, static_cast<std::size_t>(count)};
}

// A weight (rows, width) that is decoded, to the compute type, by panels of rows only; its gradient exists in
// fp32 likewise.
class PanelledWeight {
 public:
  // `most_rows` bounds a panel besides its own size.
  PanelledWeight(int tensor, Compute compute, std::int64_t rows, std::int64_t width,
                 std::int64_t most_rows = kPanel)
      : tensor_(tensor),
        compute_(compute),
        rows_(rows),
        width_(width),
        panel_rows_(even_rows(rows, std::max<std::int64_t>(1, std::min(kPanel / width, most_rows)))) {}

  // Room for one decoded panel, and for the gradient of one.
  std::int64_t panel_bytes() const {
    return (panel_rows_ * width_ + 2 * kernels::kTile) * kernels::value_bytes(compute_);
  }
  std::int64_t gradient_floats() const { return panel_rows_ * width_ + kernels::kTile; }
  std::int64_t transient_bytes() const {
    return compute_ == Compute::kFp32 ? panel_bytes() : 4 * gradient_floats();
  }
  std::int64_t panel_rows() const { return panel_rows_; }
  // Scratch of the products of `rows` activations with a panel, forward and backward.
  std::int64_t matmul_bytes(std::int64_t rows, int threads) const {
    return std::max({kernels::matmul_scratch_bytes(compute_, rows, panel_rows_, threads),
                     kernels::matmul_scratch_bytes(compute_, rows, width_, threads),
                     kernels::matmul_scratch_bytes(compute_, panel_rows_, width_, threads)});
  }
  std::int64_t rows() const { return rows_; }
  bool is_frozen(const RunState& run) const { return run.memory.is_frozen(tensor_); }

  // Runs body(row, rows) for every panel in order.
  template <class Body>
  void for_each_panel(const Body& body) const {
    for (std::int64_t row = 0; row < rows_; row += panel_rows_) body(row, std::min(panel_rows_, rows_ - row));
  }
  // Rows row..row+rows-1 in the compute type, within `panel`.
  const std::byte* decode(const RunState& run, std::int64_t row, std::int64_t rows, std::byte* panel) const;

  // Folds gradients that come panel by panel, in order. Folds end at tiles; the rest waits for the next
  // panel.
  class Folder {
   public:
    Folder(const PanelledWeight& weight, RunState& run, float* room, int contribution = 0,
           bool is_last = true)
        : weight_(weight), run_(run), room_(room), contribution_(contribution), is_last_(is_last) {}
    float* rows_at(std::int64_t row) const { return room_ + (row * weight_.width_ - folded_); }
    void fold(std::int64_t row, std::int64_t rows);  // they have been written to rows_at(row)

   private:
    const PanelledWeight& weight_;
    RunState& run_;
    float* room_;
    int contribution_;
    bool is_last_;
    std::int64_t folded_ = 0;  // elements; the room starts there
  };

 private:
  // Panels of about the same size, at most `most` rows: products of few rows, or of odd numbers, are slow.
  static std::int64_t even_rows(std::int64_t rows, std::int64_t most) {
    constexpr std::int64_t kUnit = 64;
    if (rows <= most || most < kUnit) return std::min(rows, most);
    most = most / kUnit * kUnit;
    const std::int64_t panels = (rows + most - 1) / most;
    return ((rows + panels - 1) / panels + kUnit - 1) / kUnit * kUnit;
  }

  int tensor_;
  Compute compute_;
  std::int64_t rows_, width_, panel_rows_;
};

}  // namespace lpmm
