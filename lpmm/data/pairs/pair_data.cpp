#include "lpmm/data/pairs/pair_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

constexpr std::int32_t kNoLabel = -1;

std::vector<std::int32_t> encoded(const PairSet::Side& side, std::size_t line, const Tokenizer& tokenizer,
                                  const PairEnds& ends, int longest) {
  const auto refuse = [&](const std::string& why) {
    throw RunError(fmt::format("{}: line {} {}", side.path, line + 1, why));
  };
  std::vector<std::int32_t> ids;
  try {
    ids = tokenizer.encode(side.lines[line]);
  } catch (const UsageError& e) {
    refuse(fmt::format("cannot be encoded: {}", e.what()));
  }
  ids.push_back(ends.end);
  if (std::ssize(ids) == 1) refuse("has no token");
  if (std::ssize(ids) > longest) {
    refuse(fmt::format("has {} tokens with its end, the model reads {}: raise data.length, or leave it out",
                       ids.size(), longest));
  }
  return ids;
}

}  // namespace

PairData::PairData(const PairSet& set, const Tokenizer& tokenizer, const PairEnds& ends,
                   std::vector<int> lengths)
    : name_(set.name),
      ends_(ends),
      lengths_(std::move(lengths)),
      test_sources_(set.test.source.lines),
      test_targets_(set.test.target.lines) {
  read(set.train, tokenizer, train_);
  read(set.test, tokenizer, test_);
  for (const std::string& line : test_sources_) bytes_ += std::ssize(line);
  for (const std::string& line : test_targets_) bytes_ += std::ssize(line);
  loading_bytes_ = bytes_ + set.bytes();
  std::vector<int> examples;
  for (const Example& e : train_) examples.push_back(length_of(e));
  batches_.emplace(lengths_, std::move(examples));
}

void PairData::read(const PairSet::Part& from, const Tokenizer& tokenizer, std::vector<Example>& to) {
  for (std::size_t i = 0; i < from.source.lines.size(); ++i) {
    to.push_back({encoded(from.source, i, tokenizer, ends_, lengths_.back()),
                  encoded(from.target, i, tokenizer.target(), ends_, lengths_.back())});
    bytes_ += 4 * std::ssize(to.back().source) + 4 * std::ssize(to.back().target) +
              static_cast<std::int64_t>(sizeof(Example));
  }
}

std::vector<int> PairData::test_source_lengths() const {
  std::vector<int> lengths;
  for (const Example& e : test_) lengths.push_back(static_cast<int>(e.source.size()));
  return lengths;
}

int PairData::longest() const {
  int longest = 0;
  for (const auto* examples : {&train_, &test_}) {
    for (const Example& e : *examples) longest = std::max(longest, length_of(e));
  }
  return LengthBatches::filled(lengths_, longest);
}

int PairData::length_of(const Example& e) const {
  return static_cast<int>(std::max(e.source.size(), e.target.size()));
}

void PairData::fill(const std::vector<const Example*>& examples, int length, Batch& out) const {
  out.count = std::ssize(examples);
  out.length = length;
  const auto width = static_cast<std::size_t>(length);
  out.source.assign(examples.size() * width, ends_.end);
  out.tokens.assign(examples.size() * width, ends_.end);
  out.labels.assign(examples.size() * width, kNoLabel);
  out.lengths.clear();
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Example& e = *examples[i];
    const auto at = static_cast<std::ptrdiff_t>(i * width);
    std::ranges::copy(e.source, out.source.begin() + at);
    std::ranges::copy(e.target, out.labels.begin() + at);
    out.tokens[i * width] = ends_.start;
    std::copy(e.target.begin(), e.target.end() - 1, out.tokens.begin() + at + 1);
    out.lengths.push_back(static_cast<std::int32_t>(e.source.size()));
  }
}

void PairData::make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                          Batch& out) const {
  const LengthBatches::Filled whole = batches_->batch(plan, epoch, index);
  const auto [those, counted] = whole.part(plan, microbatch);
  const auto of = [&](std::int32_t i) { return &train_[static_cast<std::size_t>(i)]; };
  out.step_labels = 0;
  for (const std::int32_t i : whole.examples) out.step_labels += std::ssize(of(i)->target);
  std::vector<const Example*> examples;
  for (const std::int32_t i : those) examples.push_back(of(i));
  fill(examples, whole.length, out);
  std::fill(out.labels.begin() + counted * whole.length, out.labels.end(), kNoLabel);
}

void PairData::make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const {
  int longest = 0;
  std::vector<const Example*> examples;
  for (std::int64_t i = first; i < first + count; ++i) {
    examples.push_back(&test_[static_cast<std::size_t>(i)]);
    longest = std::max(longest, length_of(*examples.back()));
  }
  out.step_labels = 0;
  fill(examples, LengthBatches::filled(lengths_, longest), out);
}

std::uint32_t PairData::checksum() const {
  std::uint32_t sum = 0;
  for (const Example& e : train_) {
    for (const auto* ids : {&e.source, &e.target}) sum = crc32(std::as_bytes(std::span(*ids)), sum);
  }
  return sum;
}

}  // namespace lpmm
