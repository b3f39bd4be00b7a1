#include "experiments/commands/runs/moved_elements.h"

#include <fmt/format.h>

#include <algorithm>

namespace lpmm {
namespace {

constexpr const char* kPeakNames[kPeaks] = {"|u|/|p|", "g^2/v"};
const char* peak_name(Peak peak) {
  return kPeakNames[static_cast<std::size_t>(peak)];
}

// "w[17, 3]"
std::string element_name(std::int64_t element, const TensorInfo& tensor) {
  std::string index;
  for (std::size_t d = tensor.shape.size(); d-- > 0; element /= tensor.shape[d]) {
    index = fmt::format("{}{}{}", element % tensor.shape[d], index.empty() ? "" : ", ", index);
  }
  return fmt::format("{}[{}]", tensor.name, index);
}

}  // namespace

nlohmann::ordered_json elements_json(std::span<const TensorInfo> tensors,
                                     std::span<const std::vector<ElementMove>> elements) {
  auto rows = nlohmann::ordered_json::array();
  for (std::size_t t = 0; t < elements.size(); ++t) {
    for (const ElementMove& m : elements[t]) {
      rows.push_back({{"tensor", tensors[t].name},
                      {"element", m.element},
                      {"step", m.step},
                      {"measure", peak_name(m.peak)},
                      {"was_below", peak_size(m.peak, m.before + 1)},
                      {"at_least", peak_size(m.peak, m.code)},
                      {"parameter", m.parameter}});
    }
  }
  return rows;
}

void print_elements(std::span<const TensorInfo> tensors, std::span<const std::vector<ElementMove>> elements,
                    std::span<const Move> moves, std::int64_t spike) {
  constexpr std::size_t kShown = 3;
  fmt::print("\n{:<32} {:>8} {:>7}  {:<13} {:>10} {:>10} {:>10}\n", "elements that rose furthest", "step",
             "before", "measure", "was below", "at least", "parameter");
  for (const Move& move : moves.first(std::min(kShown, moves.size()))) {
    for (const ElementMove& m : elements[move.tensor]) {
      fmt::print("{:<32} {:>8} {:>7}  {:<13} {:>10.3g} {:>10.3g} {:>10.3g}\n",
                 element_name(m.element, tensors[move.tensor]), m.step, spike - m.step, peak_name(m.peak),
                 peak_size(m.peak, m.before + 1), peak_size(m.peak, m.code), m.parameter);
    }
  }
}

}  // namespace lpmm
