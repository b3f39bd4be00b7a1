#include "lpmm/data/corpus/sequences.h"

#include <algorithm>

namespace lpmm {

void begin_sequences(Batch& batch) {
  batch.count = batch.step_labels = 0;
  batch.tokens.clear();
  batch.labels.clear();
  batch.starts.clear();
  batch.preferences.clear();
}

void Sequences::make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                           Batch& out) const {
  const std::int64_t count = plan.examples(), all = train_examples(), first = index * plan.batch;
  begin_sequences(out);
  if (learnt_labels() > 0) {
    for (std::int64_t place = first; place < std::min(all, first + plan.batch); ++place) {
      out.step_labels += counted(plan.seed, epoch, place);
    }
  } else {
    out.step_labels = plan.step_labels(all, index, labels());
  }
  for (std::int64_t place = first + microbatch * count, end = place + count; place < end; ++place) {
    append(plan.seed, epoch, place, place < all, out);
  }
}

void Sequences::make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const {
  begin_sequences(out);
  for (std::int64_t i = first; i < first + count; ++i) append_test(i, out);
}

}  // namespace lpmm
