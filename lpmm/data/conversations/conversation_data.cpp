#include "lpmm/data/conversations/conversation_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

// Moves that share of the documents out of `train`; both parts keep their order.
std::vector<Document> take_share(std::vector<Document>& train, double share) {
  const std::vector<bool> is_taken = drawn_share(std::ssize(train), share);
  std::vector<Document> rest, test;
  for (std::size_t i = 0; i < train.size(); ++i) (is_taken[i] ? test : rest).push_back(std::move(train[i]));
  train = std::move(rest);
  return test;
}

std::int64_t bytes_of(const std::vector<Document>& documents) {
  std::int64_t bytes = 0;
  for (const Document& d : documents) {
    bytes += static_cast<std::int64_t>(sizeof(Document) + d.ids.capacity() * sizeof(std::int32_t) +
                                       d.learnt.capacity());
  }
  return bytes;
}

std::string packed(const char* what, const PackedDocuments& part, int length) {
  const PackingCounts& c = part.counts();
  return fmt::format("{} documents {}: {} tokens, {} of them learnt, in {} sequences of {} ({:.1f} % filled)",
                     c.documents, what, c.slots, c.learnt, part.sequences(), length, 100 * part.filled());
}

}  // namespace

std::vector<bool> drawn_share(std::int64_t count, double share) {
  const auto taken = static_cast<std::int64_t>(std::llround(static_cast<double>(count) * share));
  std::vector<bool> is_taken(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < taken; ++i)
    is_taken[static_cast<std::size_t>(drawn_order(1, 0, count, i))] = true;
  return is_taken;
}

ConversationData::ConversationData(std::string name, std::vector<Document> train, std::vector<Document> test,
                                   double share, int length, TooLong too_long)
    : name_(std::move(name)), length_(length), too_long_(too_long) {
  loading_bytes_ = bytes_of(train) + bytes_of(test);
  const bool has_own_test = !test.empty(), wants_test = has_own_test || share > 0,
             wants_train = has_own_test || share < 1;
  if (!has_own_test) test = take_share(train, share);
  train_ = PackedDocuments(train, length, too_long);
  test_ = PackedDocuments(test, length, too_long);
  loading_bytes_ += bytes();
  check(wants_train, wants_test);
}

ConversationData::ConversationData(std::string name, PackedDocuments train, PackedDocuments test, int length,
                                   TooLong too_long, std::uint32_t checksum)
    : name_(std::move(name)),
      length_(length),
      too_long_(too_long),
      train_(std::move(train)),
      test_(std::move(test)),
      checksum_(checksum) {
  check(train_.counts().documents > 0, test_.counts().documents > 0);
}

void ConversationData::check(bool wants_train, bool wants_test) const {
  const bool trains = train_.sequences() > 0 || !wants_train, tests = test_.sequences() > 0 || !wants_test;
  if (trains && tests) return;
  const PackingCounts& c = (trains ? test_ : train_).counts();
  throw UsageError(fmt::format(
      "{}: of {} documents to {} nothing is learnt: {} are longer than data.length = {} tokens, of {} no "
      "token "
      "counts; give more of them, a longer data.length, data.loss = \"all\" or another data.validation_share",
      name_, c.documents, trains ? "test on" : "train on", c.too_long, length_, c.unlearnt));
}

void ConversationData::append(std::uint64_t seed, std::int64_t epoch, std::int64_t place, bool counts,
                              Batch& out) const {
  const std::int64_t all = train_examples();
  train_.append(drawn_order(seed, epoch, all, std::min(place, all - 1)), out, counts);
}

std::int64_t ConversationData::counted(std::uint64_t seed, std::int64_t epoch, std::int64_t place) const {
  return train_.learnt(drawn_order(seed, epoch, train_examples(), place));
}

std::string ConversationData::summary() const {
  std::string said = name_ + ": ";
  const bool trains = train_.counts().documents > 0, tests = test_.counts().documents > 0;
  if (trains) said += packed("to train on", train_, length_);
  if (tests) said += (trains ? "; " : "") + packed("to test on", test_, length_);
  const std::int64_t too_long = train_.counts().too_long + test_.counts().too_long,
                     unlearnt = train_.counts().unlearnt + test_.counts().unlearnt;
  constexpr const char* kDone[] = {"cut", "left out", "split"};
  if (too_long > 0) {
    said += fmt::format("; longer than that, and {} (data.too_long): {}",
                        kDone[static_cast<std::size_t>(too_long_)], too_long);
  }
  if (unlearnt > 0) said += fmt::format("; without a token to learn, and left out: {}", unlearnt);
  return said;
}

}  // namespace lpmm
