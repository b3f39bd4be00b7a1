#include "lpmm/data/preferences/preference_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "lpmm/data/corpus/sequences.h"

namespace lpmm {

void PreferenceData::append(const PackedDocuments& part, std::int64_t sequence, std::int64_t first,
                            Batch& out, bool counts) const {
  const std::int64_t row = std::ssize(out.tokens);
  part.append(sequence, out, counts);
  if (!counts) return;
  const std::vector<PackedDocuments::Place> places = part.places(sequence);
  for (std::size_t i = 0; i < places.size(); i += 2) {
    const PackedDocuments::Place &chosen = places[i], &rejected = places[i + 1];
    const auto number = static_cast<std::size_t>(first + chosen.document / 2);
    out.preferences.push_back({row + chosen.first, row + chosen.end, row + rejected.first, row + rejected.end,
                               reference_.empty() ? 0.0 : reference_[number]});
  }
}

void PreferenceData::make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                                Batch& out) const {
  const std::int64_t count = plan.examples(), all = train_examples();
  begin_sequences(out);
  for (std::int64_t i = 0; i < plan.batch; ++i) {
    const std::int64_t place = index * plan.batch + i;
    const bool counts = place < all;  // else the epoch ends within the batch, which is filled up
    const std::int64_t sequence = drawn_order(plan.seed, epoch, all, std::min(place, all - 1));
    if (counts) out.step_labels += std::ssize(parts_->train.places(sequence)) / 2;
    if (i / count == microbatch) append(parts_->train, sequence, 0, out, counts);
  }
}

void PreferenceData::make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const {
  make_reference_batch(train_examples() + first, count, out);
}

void PreferenceData::make_reference_batch(std::int64_t first, std::int64_t count, Batch& out) const {
  begin_sequences(out);
  const std::int64_t train = train_examples();
  for (std::int64_t i = first; i < first + count; ++i) {
    if (i < train) {
      append(parts_->train, i, 0, out);
    } else {
      append(parts_->test, i - train, pairs(parts_->train), out);
    }
  }
}

std::map<std::string, std::string> PreferenceData::reference_key() const {
  std::map<std::string, std::string> key = key_;
  key["data"] = fmt::format("{} pairs to train on and {} to test on, in sequences of {}, crc32 {:08x}",
                            pairs(parts_->train), pairs(parts_->test), parts_->length, parts_->checksum());
  return key;
}

std::shared_ptr<const DataSource> PreferenceData::with_reference(std::vector<float> numbers) const {
  if (std::ssize(numbers) != reference_size()) throw std::logic_error("a reference of another length");
  auto made = std::make_shared<PreferenceData>(*this);
  made->reference_ = std::move(numbers);
  return made;
}

}  // namespace lpmm
