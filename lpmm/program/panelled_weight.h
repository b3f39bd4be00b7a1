// Weights that are taken by panels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/compute.h"
#include "lpmm/program/op.h"

namespace lpmm {

// x (rows, width) times a weight's rows: y = x W^T + bias, in `y_type`. Rooms are those that the weight says.
struct WeightProduct {
  std::int64_t rows = 0;
  const std::byte* x = nullptr;
  std::byte* y = nullptr;
  std::int64_t y_stride = 0;
  ValueType y_type = ValueType::kFp32;
  const float* bias = nullptr;  // null: none
  std::byte *panel = nullptr, *matmul = nullptr;
};
// Backward of that, given the gradient g of y: that of x, in `dx_type`, and that of the weight, which is
// folded.
struct WeightGradient {
  std::int64_t rows = 0;
  const std::byte* g = nullptr;
  std::int64_t g_stride = 0;
  const std::byte* x = nullptr;
  std::byte* dx = nullptr;  // null: it is not wanted
  ValueType dx_type = ValueType::kFp32;
  bool accumulate = false;  // dx += instead of dx =
  std::byte *panel = nullptr, *matmul = nullptr;
  float* gradient = nullptr;
};

// A weight (rows, width) that is decoded, to the compute type, by panels of rows only; its gradient exists in
// fp32 likewise.
class PanelledWeight {
 public:
  // A panel has at most so many elements and rows; where it is larger than `unit` rows, a multiple of that.
  PanelledWeight(int tensor, ValueType compute, std::int64_t rows, std::int64_t width,
                 std::int64_t most_elements, std::int64_t most_rows, std::int64_t unit = 1)
      : tensor_(tensor),
        compute_(compute),
        rows_(rows),
        width_(width),
        panel_rows_(even_rows(rows, std::max<std::int64_t>(1, std::min(most_elements / width, most_rows)))),
        unit_(unit) {}

  // Room for one decoded panel, and for the gradient of one.
  std::int64_t panel_bytes() const {
    return (panel_rows_ * width_ + 2 * kernels::kTile) * kernels::value_bytes(compute_);
  }
  std::int64_t gradient_floats() const { return panel_rows_ * width_ + kernels::kTile; }
  std::int64_t transient_bytes() const {
    return compute_ == ValueType::kFp32 ? panel_bytes() : 4 * gradient_floats();
  }
  std::int64_t panel_rows() const { return panel_rows_; }
  // Scratch of the products of `rows` activations with a panel, forward and backward.
  std::int64_t matmul_bytes(std::int64_t rows, const Device& device) const {
    return std::max({device.matmul_scratch_bytes({.m = rows, .n = panel_rows_, .type = compute_}),
                     device.matmul_scratch_bytes({.m = rows, .n = width_, .type = compute_}),
                     device.matmul_scratch_bytes({.m = panel_rows_, .n = width_, .type = compute_})});
  }
  std::int64_t rows() const { return rows_; }
  bool is_frozen(const RunState& run) const { return run.memory.is_frozen(tensor_); }

  // Runs body(row, rows) for every panel in order.
  template <class Body>
  void for_each_panel(const Body& body) const {
    for (std::int64_t row = 0, n = 0; row < rows_; row += n) {
      n = std::min(panel_rows_, rows_ - row);
      if (n > unit_) n = n / unit_ * unit_;
      body(row, n);
    }
  }
  // Rows row..row+rows-1 in the compute type, within `panel`.
  const std::byte* decode(const RunState& run, std::int64_t row, std::int64_t rows, std::byte* panel) const;

  void multiply(RunState& run, const WeightProduct& product) const;
  void backward(RunState& run, const WeightGradient& gradient) const;
  // Folds a gradient of zeros, where one is asked for (Step::fold): where gradients are applied at once.
  void fold_zeros(RunState& run, float* gradient) const;

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
  ValueType compute_;
  std::int64_t rows_, width_, panel_rows_, unit_;
};

}  // namespace lpmm
