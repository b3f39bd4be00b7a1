#include "lpmm/data/conversations/packed_parts.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

// Moves a share of the groups, drawn, out of `train`; both parts keep their order.
std::vector<Document> take_share(std::vector<Document>& train, double share, int group) {
  const std::vector<bool> is_taken = drawn_share(std::ssize(train) / group, share);
  std::vector<Document> rest, test;
  for (std::size_t i = 0; i < train.size(); ++i) {
    (is_taken[i / static_cast<std::size_t>(group)] ? test : rest).push_back(std::move(train[i]));
  }
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

const char* things(int group) {
  return group == 1 ? "documents" : "pairs of answers";
}

std::string packed(const char* what, const PackedDocuments& part, const PackedParts& parts) {
  const PackingCounts& c = part.counts();
  return fmt::format("{} {} {}: {} tokens, {} of them learnt, in {} sequences of {} ({:.1f} % filled)",
                     c.documents / parts.group, things(parts.group), what, c.slots, c.learnt,
                     part.sequences(), parts.length, 100 * part.filled());
}

}  // namespace

std::vector<bool> drawn_share(std::int64_t count, double share) {
  const auto taken = static_cast<std::int64_t>(std::llround(static_cast<double>(count) * share));
  std::vector<bool> is_taken(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < taken; ++i)
    is_taken[static_cast<std::size_t>(drawn_order(1, 0, count, i))] = true;
  return is_taken;
}

PackedParts pack_parts(const std::string& name, std::vector<Document> train,
                       std::optional<std::vector<Document>> own_test, double share, int length,
                       TooLong too_long, int group) {
  PackedParts parts;
  parts.length = length, parts.group = group, parts.too_long = too_long;
  const bool wants_test = own_test || share > 0, wants_train = own_test || share < 1;
  parts.loading_bytes = bytes_of(train) + (own_test ? bytes_of(*own_test) : 0);
  const std::vector<Document> test = own_test ? *std::move(own_test) : take_share(train, share, group);
  parts.train = PackedDocuments(train, length, too_long, group);
  parts.test = PackedDocuments(test, length, too_long, group);
  parts.loading_bytes += parts.bytes();
  check_parts(name, parts, wants_train, wants_test);
  return parts;
}

void check_parts(const std::string& name, const PackedParts& parts, bool wants_train, bool wants_test) {
  const bool trains = parts.train.sequences() > 0 || !wants_train,
             tests = parts.test.sequences() > 0 || !wants_test;
  if (trains && tests) return;
  const PackingCounts& c = (trains ? parts.test : parts.train).counts();
  if (c.documents == 0) {
    throw UsageError(
        fmt::format("{}: data.validation_share leaves none of {} {} to {}: take a {} one{}", name,
                    (parts.train.counts().documents + parts.test.counts().documents) / parts.group,
                    things(parts.group), trains ? "test on" : "train on", trains ? "larger" : "smaller",
                    trains ? ", or --set data.validation_share=0, which goes without tests" : ""));
  }
  throw UsageError(fmt::format(
      "{}: of {} {} to {} nothing is learnt: {} are longer than data.length = {} tokens, of {} no token "
      "counts; give more of them, a longer data.length{} or another data.validation_share",
      name, c.documents / parts.group, things(parts.group), trains ? "test on" : "train on", c.too_long,
      parts.length, c.unlearnt, parts.group == 1 ? ", data.loss = \"all\"" : ""));
}

std::string summary_of(const std::string& name, const PackedParts& parts) {
  std::string said = name + ": ";
  const PackingCounts &train = parts.train.counts(), &test = parts.test.counts();
  if (train.documents > 0) said += packed("to train on", parts.train, parts);
  if (test.documents > 0) {
    said += (train.documents > 0 ? "; " : "") + packed("to test on", parts.test, parts);
  }
  const std::int64_t too_long = train.too_long + test.too_long, unlearnt = train.unlearnt + test.unlearnt;
  constexpr const char* kDone[] = {"cut", "left out", "split"};
  if (too_long > 0) {
    said += fmt::format("; longer than that, and {} (data.too_long): {}",
                        kDone[static_cast<std::size_t>(parts.too_long)], too_long);
  }
  if (unlearnt > 0) said += fmt::format("; without a token to learn, and left out: {}", unlearnt);
  return said;
}

}  // namespace lpmm
