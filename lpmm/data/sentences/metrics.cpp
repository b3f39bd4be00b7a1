#include "lpmm/data/sentences/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace lpmm {
namespace {

// Examples that are of class `a` and were told to be of `b`.
double count(std::span<const std::int32_t> told, std::span<const std::int32_t> is, std::int32_t a,
             std::int32_t b) {
  double n = 0;
  for (std::size_t i = 0; i < is.size(); ++i) n += (is[i] == a && told[i] == b) ? 1 : 0;
  return n;
}

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> rank(values.size());
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (std::size_t j = i; j < end; ++j) rank[order[j]] = 0.5 * static_cast<double>(i + end - 1);
    i = end;
  }
  return rank;
}

}  // namespace

double accuracy(std::span<const std::int32_t> told, std::span<const std::int32_t> is) {
  double right = 0;
  for (std::size_t i = 0; i < is.size(); ++i) right += told[i] == is[i] ? 1 : 0;
  return right / static_cast<double>(is.size());
}

double matthews(std::span<const std::int32_t> told, std::span<const std::int32_t> is) {
  const double tp = count(told, is, 1, 1), tn = count(told, is, 0, 0), fp = count(told, is, 0, 1),
               fn = count(told, is, 1, 0);
  const double below = std::sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn));
  return below == 0 ? 0 : (tp * tn - fp * fn) / below;
}

double f1(std::span<const std::int32_t> told, std::span<const std::int32_t> is) {
  const double tp = count(told, is, 1, 1), fp = count(told, is, 0, 1), fn = count(told, is, 1, 0);
  return tp == 0 ? 0 : 2 * tp / (2 * tp + fp + fn);
}

double micro_f1(std::span<const std::uint8_t> told, std::span<const std::uint8_t> is) {
  double both = 0, one = 0;
  for (std::size_t i = 0; i < is.size(); ++i) {
    both += told[i] & is[i];
    one += told[i] ^ is[i];
  }
  return both == 0 ? 0 : 2 * both / (2 * both + one);
}

double exact_match(std::span<const std::uint8_t> told, std::span<const std::uint8_t> is,
                   std::size_t classes) {
  double right = 0;
  for (std::size_t i = 0; i < is.size(); i += classes) {
    right += std::ranges::equal(told.subspan(i, classes), is.subspan(i, classes)) ? 1 : 0;
  }
  return right * static_cast<double>(classes) / static_cast<double>(is.size());
}

double pearson(std::span<const double> told, std::span<const double> is) {
  const auto n = static_cast<double>(is.size());
  const double a = std::reduce(told.begin(), told.end()) / n, b = std::reduce(is.begin(), is.end()) / n;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < is.size(); ++i) {
    ab += (told[i] - a) * (is[i] - b);
    aa += (told[i] - a) * (told[i] - a);
    bb += (is[i] - b) * (is[i] - b);
  }
  return aa == 0 || bb == 0 ? 0 : ab / std::sqrt(aa * bb);
}

double cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += 1.0 * a[i] * b[i];
    aa += 1.0 * a[i] * a[i];
    bb += 1.0 * b[i] * b[i];
  }
  return ab / std::max(1e-30, std::sqrt(aa * bb));
}

double spearman(std::span<const double> told, std::span<const double> is) {
  return pearson(ranks(told), ranks(is));
}

}  // namespace lpmm
