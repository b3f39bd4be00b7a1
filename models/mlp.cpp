// Layers of products and ReLU on flattened images.
#include <fmt/format.h>

#include "lpmm/program/ops/input.h"
#include "lpmm/program/ops/linear.h"
#include "lpmm/program/ops/loss.h"
#include "models/families.h"

namespace lpmm {
namespace {

void forward(ProgramBuilder& b, const ModelConfig& c) {
  Value x = input(b, c.height, c.width, c.channels);
  const auto& hidden = c.integers("hidden");
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    x = linear(b, fmt::format("hidden{}", i + 1), x, static_cast<int>(hidden[i]), true);
  }
  loss(b, classifier(b, "head", x, c.classes), c.number("label_smoothing"));
}

}  // namespace

Family mlp() {
  return {.name = "mlp",
          .help = "layers of products and ReLU",
          .reads = &kImageTask,
          .models = {{"mlp"}},
          .settings = {{"hidden", std::vector<std::int64_t>{}, 1, 1 << 20, "widths of the hidden layers"},
                       label_smoothing()},
          .forward = forward,
          .head = "head."};
}

}  // namespace lpmm
