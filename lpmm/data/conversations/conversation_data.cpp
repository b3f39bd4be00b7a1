#include "lpmm/data/conversations/conversation_data.h"

#include <algorithm>

namespace lpmm {

void ConversationData::append(std::uint64_t seed, std::int64_t epoch, std::int64_t place, bool counts,
                              Batch& out) const {
  const std::int64_t all = train_examples();
  train().append(drawn_order(seed, epoch, all, std::min(place, all - 1)), out, counts);
}

std::int64_t ConversationData::counted(std::uint64_t seed, std::int64_t epoch, std::int64_t place) const {
  return train().learnt(drawn_order(seed, epoch, train_examples(), place));
}

}  // namespace lpmm
