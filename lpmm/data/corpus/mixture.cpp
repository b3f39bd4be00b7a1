#include "lpmm/data/corpus/mixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

std::vector<std::size_t> trained(std::span<const Mixture::Part> parts) {
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].data->train_examples() > 0) some.push_back(i);
  }
  return some;
}

std::vector<double> weights_of(std::span<const Mixture::Part> parts) {
  std::vector<double> weights;
  for (const std::size_t i : trained(parts)) weights.push_back(parts[i].weight);
  return weights;
}

}  // namespace

MixtureOrder::MixtureOrder(std::span<const double> weights) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double before = 0;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    before += weights[i];
    // Ends are rounded, so that the sum is exact.
    const std::int64_t next =
        i + 1 == weights.size() ? kWhole : std::llround(before / all * static_cast<double>(kWhole));
    if (next <= end) {
      throw UsageError(fmt::format(
          "data.mixture: weight {} of file {} is less than one in {} of all weights together: give it more, "
          "or leave it out",
          weights[i], i + 1, kWhole));
    }
    shares_.push_back(next - end);
    end = next;
  }
}

// Half a place late, so that sets of equal shares begin together and a rare one does not come first.
std::int64_t MixtureOrder::due(std::size_t set, std::int64_t time) const {
  const std::int64_t share = shares_[set];
  return time / kWhole * share + (time % kWhole * share + kWhole / 2) / kWhole;
}

std::int64_t MixtureOrder::due(std::int64_t time) const {
  std::int64_t all = 0;
  for (std::size_t set = 0; set < shares_.size(); ++set) all += due(set, time);
  return all;
}

// At each time a set is due once at most, sets in their order. All together are due as often as there were
// times, to half a place of each.
std::pair<std::size_t, std::int64_t> MixtureOrder::at(std::int64_t place) const {
  const auto sets = static_cast<std::int64_t>(shares_.size());
  std::int64_t low = std::max<std::int64_t>(0, place - sets),
               high = place + sets;  // due(low) <= place < due(high)
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (due(middle) <= place ? low : high) = middle;
  }
  std::int64_t before = due(low);
  for (std::size_t set = 0;; ++set) {
    const std::int64_t so_far = due(set, low);
    if (due(set, low + 1) > so_far && before++ == place) return {set, so_far};
  }
}

std::int64_t MixtureOrder::count(std::size_t set, std::int64_t places) const {
  if (places == 0) return 0;
  const auto [last, so_far] = at(places - 1);
  if (last == set) return so_far + 1;
  // Several sets may be due at the time of the last place: those before its set were taken.
  std::int64_t time = std::max<std::int64_t>(0, places - 1 - static_cast<std::int64_t>(shares_.size()));
  while (due(time + 1) < places) ++time;
  return due(set, time + (set < last ? 1 : 0));
}

Mixture::Mixture(std::vector<Part> parts)
    : parts_(std::move(parts)), trained_(trained(parts_)), order_(weights_of(parts_)) {
  for (const Part& part : parts_) {
    name_ += (name_.empty() ? "" : " + ") + part.data->name();
    train_ += part.data->train_examples();
    test_ += part.data->test_examples();
  }
  for (std::size_t i = 0; i < trained_.size(); ++i) {
    const Sequences& data = *parts_[trained_[i]].data;
    learnt_ += std::llround(static_cast<double>(data.learnt_labels()) *
                            static_cast<double>(order_.count(i, train_)) /
                            static_cast<double>(data.train_examples()));
  }
}

std::int64_t Mixture::test_items() const {
  std::int64_t items = 0;
  for (const Part& part : parts_) items += part.data->test_items();
  return items;
}

std::vector<TestPart> Mixture::test_parts() const {
  std::vector<TestPart> all;
  for (const Part& part : parts_) all.push_back({part.data->name(), part.data->test_examples()});
  return all;
}

Mixture::Place Mixture::find(std::int64_t epoch, std::int64_t place) const {
  const auto [set, at] = order_.at(epoch * train_ + std::min(place, train_ - 1));
  const Sequences& data = *parts_[trained_[set]].data;
  return {data, at / data.train_examples(), at % data.train_examples()};
}

void Mixture::append(std::uint64_t seed, std::int64_t epoch, std::int64_t place, bool counts,
                     Batch& out) const {
  const Place at = find(epoch, place);
  at.data.append(seed, at.pass, at.place, counts, out);
}

std::int64_t Mixture::counted(std::uint64_t seed, std::int64_t epoch, std::int64_t place) const {
  const Place at = find(epoch, place);
  return at.data.counted(seed, at.pass, at.place);
}

void Mixture::append_test(std::int64_t sequence, Batch& out) const {
  for (const Part& part : parts_) {
    const std::int64_t count = part.data->test_examples();
    if (sequence < count) return part.data->append_test(sequence, out);
    sequence -= count;
  }
}

std::int64_t Mixture::bytes() const {
  std::int64_t sum = 0;
  for (const Part& part : parts_) sum += part.data->bytes();
  return sum;
}

// One is read after another: that of the most, beside what is read of the others.
std::int64_t Mixture::loading_bytes() const {
  std::int64_t most = 0;
  for (const Part& part : parts_) most = std::max(most, part.data->loading_bytes() - part.data->bytes());
  return most + bytes();
}

std::uint32_t Mixture::checksum() const {
  std::vector<std::uint32_t> sums;
  for (const Part& part : parts_) sums.push_back(part.data->checksum());
  return crc32(std::as_bytes(std::span(sums)));
}

std::vector<MixtureShare> Mixture::shares() const {
  std::vector<MixtureShare> all;
  for (const Part& part : parts_) {
    all.push_back(
        {part.data->name(), part.weight, part.data->train_examples(), 0, part.data->test_examples()});
  }
  for (std::size_t i = 0; i < trained_.size(); ++i) all[trained_[i]].taken = order_.count(i, train_);
  return all;
}

std::string Mixture::summary() const {
  std::string said = fmt::format("an epoch has {} sequences, of", train_);
  for (const MixtureShare& s : shares()) {
    said += fmt::format(
        "\n  {}: {} ({:.1f} %, weight {}), {:.3g} times the {} that it has; {} to test on", s.name, s.taken,
        100.0 * static_cast<double>(s.taken) / static_cast<double>(std::max<std::int64_t>(1, train_)),
        s.weight, static_cast<double>(s.taken) / static_cast<double>(std::max<std::int64_t>(1, s.sequences)),
        s.sequences, s.tests);
  }
  return said;
}

}  // namespace lpmm
