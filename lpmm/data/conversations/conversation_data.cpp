#include "lpmm/data/conversations/conversation_data.h"

#include <algorithm>

namespace lpmm {

void ConversationData::make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index,
                                  int microbatch, Batch& out) const {
  const std::int64_t count = plan.examples(), all = train_examples();
  begin_documents(out);
  for (std::int64_t i = 0; i < plan.batch; ++i) {
    const std::int64_t place = index * plan.batch + i;
    const bool counts = place < all;  // else the epoch ends within the batch, which is filled up
    const std::int64_t sequence = drawn_order(plan.seed, epoch, all, std::min(place, all - 1));
    if (counts) out.step_labels += parts_.train.learnt(sequence);
    if (i / count == microbatch) parts_.train.append(sequence, out, counts);
  }
}

void ConversationData::make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const {
  begin_documents(out);
  for (std::int64_t i = first; i < first + count; ++i) parts_.test.append(i, out);
}

}  // namespace lpmm
