#include "lpmm/run/watch/elements.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "lpmm/memory/roles.h"

namespace lpmm {
namespace {

// Keeps a move among the first of its tensor.
void keep_first(std::vector<ElementMove>& moves, const ElementMove& move) {
  const auto known = std::find_if(moves.begin(), moves.end(), [&](const ElementMove& m) {
    return m.element == move.element && m.peak == move.peak;
  });
  if (known == moves.end()) {
    moves.push_back(move);
  } else if (known->rise() < move.rise()) {
    *known = move;
  }
  std::sort(moves.begin(), moves.end(), [](const ElementMove& a, const ElementMove& b) {
    return std::tuple(-a.rise(), a.step, a.element, a.peak) <
           std::tuple(-b.rise(), b.step, b.element, b.peak);
  });
  if (moves.size() > ElementWatch::kKept) moves.pop_back();
}

}  // namespace

double peak_size(Peak peak, int code) {
  return code == 0 ? 0 : std::ldexp(1.0, code - 1 + peak_exponent(peak));
}

ElementWatch::ElementWatch(const ModelMemory& memory) : memory_(memory) {
  for (int t = 0; t < memory.tensors(); ++t) before_.push_back(read(t));
  moves_.resize(before_.size());
}

void ElementWatch::measure(std::int64_t step) {
  for (int t = 0; t < memory_.tensors(); ++t) compare(t, step);
}

std::vector<std::uint8_t> ElementWatch::read(int tensor) const {
  const std::span<std::uint8_t> there = memory_.peaks(tensor);
  std::vector<std::uint8_t> codes(there.size());
  if (!codes.empty()) memory_.device().download(codes.data(), there.data(), std::ssize(codes));
  return codes;
}

void ElementWatch::compare(int tensor, std::int64_t step) {
  const std::vector<std::uint8_t>& before = before_[static_cast<std::size_t>(tensor)];
  const std::vector<std::uint8_t> now = read(tensor);
  const auto of_one = static_cast<std::size_t>(peak_bytes(memory_.info(tensor)));
  std::vector<ElementMove>& moves = moves_[static_cast<std::size_t>(tensor)];
  const double least = least_size(tensor);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] == before[i]) continue;
    const auto place = static_cast<std::int64_t>(i % of_one);
    for (const int half : {0, 1}) {
      ElementMove move;
      move.element = place / kPeakBytes * kGroup + place % kPeakBytes + half * kPeakBytes;
      move.step = step;
      move.peak = static_cast<Peak>(i / of_one);
      move.code = now[i] >> (4 * half) & kMostPeak;
      move.before = before[i] >> (4 * half) & kMostPeak;
      const bool is_far = moves.size() < kKept || move.rise() >= moves.back().rise();
      if (move.rise() < kLeastRise || !is_far) continue;
      move.parameter = parameter(tensor, move.element);
      if (move.peak == Peak::kRatio || std::abs(move.parameter) >= least) keep_first(moves, move);
    }
  }
}

double ElementWatch::least_size(int tensor) const {
  const auto watched = memory_.watched();
  if (watched.empty()) return 0;
  const double squares =
      watched[static_cast<std::size_t>(tensor)].squares[static_cast<std::size_t>(Watched::kParameter)];
  return kLeastSize * std::sqrt(squares / static_cast<double>(memory_.info(tensor).elements()));
}

// Decodes the smallest range around the element that can be decoded alone.
float ElementWatch::parameter(int tensor, std::int64_t element) const {
  const kernels::RoleView view = memory_.view(tensor, Role::kParameter);
  const std::int64_t unit = std::max<std::int64_t>(kGroup, view.codec.block);
  const std::int64_t first = element / unit * unit;
  std::vector<float> values(static_cast<std::size_t>(std::min(unit, view.elements - first)));
  memory_.read(tensor, first, values);
  return values[static_cast<std::size_t>(element - first)];
}

}  // namespace lpmm
