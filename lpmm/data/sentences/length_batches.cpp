#include "lpmm/data/sentences/length_batches.h"

#include <algorithm>
#include <utility>

namespace lpmm {

LengthBatches::LengthBatches(std::vector<int> lengths, std::vector<int> examples)
    : lengths_(std::move(lengths)), examples_(std::move(examples)) {}

int LengthBatches::filled(std::span<const int> lengths, int longest) {
  return *std::ranges::lower_bound(lengths, longest);
}

std::shared_ptr<const LengthBatches::Epoch> LengthBatches::epoch_of(const BatchPlan& plan,
                                                                    std::int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  const bool is_known = epoch_ != nullptr && epoch_number_ == epoch && epoch_seed_ == plan.seed &&
                        epoch_batch_ == plan.batch && epoch_keeps_last_ == plan.keeps_last;
  if (is_known) return epoch_;
  auto made = std::make_shared<Epoch>();
  std::vector<std::vector<std::int32_t>> waiting(lengths_.size());
  const auto full = static_cast<std::size_t>(plan.batch);
  const auto add = [&](std::size_t place, std::int32_t example) {
    waiting[place].push_back(example);
    if (waiting[place].size() < full) return;
    made->push_back(std::move(waiting[place]));
    waiting[place].clear();
  };
  const std::int64_t count = std::ssize(examples_);
  for (std::int64_t position = 0; position < count; ++position) {
    const auto i = static_cast<std::int32_t>(drawn_order(plan.seed, epoch, count, position));
    const int length = filled(lengths_, examples_[static_cast<std::size_t>(i)]);
    add(static_cast<std::size_t>(std::ranges::lower_bound(lengths_, length) - lengths_.begin()), i);
  }
  for (std::size_t place = 0; place + 1 < waiting.size(); ++place) {
    for (const std::int32_t i : std::exchange(waiting[place], {})) add(place + 1, i);
  }
  if (plan.keeps_last && !waiting.back().empty()) made->push_back(std::move(waiting.back()));
  epoch_ = made;
  epoch_number_ = epoch;
  epoch_seed_ = plan.seed;
  epoch_batch_ = plan.batch;
  epoch_keeps_last_ = plan.keeps_last;
  return made;
}

std::pair<std::vector<std::int32_t>, std::int64_t> LengthBatches::Filled::part(const BatchPlan& plan,
                                                                               int microbatch) const {
  const std::int64_t first = std::int64_t{1} * microbatch * plan.examples(), count = plan.examples(),
                     counted = std::clamp<std::int64_t>(std::ssize(examples) - first, 0, count);
  std::vector<std::int32_t> those(static_cast<std::size_t>(count), examples[0]);
  std::copy_n(examples.begin() + std::min<std::int64_t>(first, std::ssize(examples)), counted, those.begin());
  return {std::move(those), counted};
}

LengthBatches::Filled LengthBatches::batch(const BatchPlan& plan, std::int64_t epoch,
                                           std::int64_t index) const {
  Filled filled{epoch_of(plan, epoch)->at(static_cast<std::size_t>(index))};
  int longest = 0;
  for (const std::int32_t i : filled.examples) {
    longest = std::max(longest, examples_[static_cast<std::size_t>(i)]);
  }
  filled.length = LengthBatches::filled(lengths_, longest);
  return filled;
}

}  // namespace lpmm
