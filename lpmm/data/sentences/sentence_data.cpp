#include "lpmm/data/sentences/sentence_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/data/sentences/metrics.h"
#include "lpmm/data/tokenizers/pipeline.h"
#include "lpmm/files/files.h"

namespace lpmm {

SentenceData::SentenceData(const SentenceSet& set, std::shared_ptr<const Tokenizer> tokenizer,
                           std::vector<int> lengths, bool apart)
    : name_(set.name),
      lengths_(std::move(lengths)),
      is_number_(set.is_number),
      is_apart_(apart),
      class_names_(set.labels),
      classes_(apart           ? 0
               : set.is_number ? 1
                               : static_cast<int>(set.labels.size())),
      metrics_(set.metrics) {
  if (apart && !(set.has_pairs && set.is_number)) {
    throw UsageError(fmt::format("{}: only pairs with a score can be compared by their cosines", set.name));
  }
  const auto* pieces = dynamic_cast<const PipelineTokenizer*>(tokenizer.get());
  if (pieces == nullptr) {
    throw UsageError(
        "data.tokenizer: models of sentences read what a tokenizer.json or BERT's vocab.txt puts together; "
        "name one, "
        "or with train.init an imported model that has one");
  }
  const auto longest = static_cast<std::size_t>(lengths_.back());
  const bool as_pairs = set.has_pairs && !apart;
  const std::size_t around =
      pieces->encode_sentences("", as_pairs ? std::optional<std::string_view>("") : std::nullopt).ids.size();
  if (longest <= around) {
    throw UsageError(
        fmt::format("data.length = {}: the tokenizer puts {} tokens around {}, so it must be more", longest,
                    around, as_pairs ? "a pair of sentences" : "a sentence"));
  }
  const auto read = [&](const std::vector<SentenceExample>& from, std::vector<Example>& to) {
    const auto add = [&](const SentenceExample& e, std::string_view first,
                         const std::optional<std::string_view>& second) {
      try {
        Sentences put = pieces->encode_sentences(first, second, longest);
        if (put.ids.empty()) throw UsageError("has no token");
        cut_ += put.is_cut ? 1 : 0;
        bytes_ += 8 * std::ssize(put.ids) + static_cast<std::int64_t>(sizeof(Example));
        to.push_back({std::move(put.ids), std::move(put.types), e.label, e.score});
      } catch (const UsageError& why) {
        throw RunError(fmt::format("{}: line {}{}: {}", name_, e.line,
                                   &to == &test_ && !train_.empty() ? " of the test file" : "", why.what()));
      }
    };
    for (const SentenceExample& e : from) {
      const bool is_pair = set.has_pairs;
      add(e, e.first, is_pair && !apart ? std::optional<std::string_view>(e.second) : std::nullopt);
      if (is_pair && apart) add(e, e.second, {});
    }
  };
  read(set.train, train_);
  read(set.test, test_);
  loading_bytes_ = bytes_ + set.bytes();
  std::vector<int> examples;
  for (const Example& e : train_) examples.push_back(static_cast<int>(e.ids.size()));
  batches_ = std::make_shared<const LengthBatches>(lengths_, std::move(examples));
}

SentenceData SentenceData::numbered(std::vector<std::string> names,
                                    const std::vector<std::int32_t>& places) const {
  SentenceData other = *this;
  other.class_names_ = std::move(names);
  for (auto* examples : {&other.train_, &other.test_}) {
    for (Example& e : *examples) e.label = places[static_cast<std::size_t>(e.label)];
  }
  return other;
}

void SentenceData::check_types(int known) const {
  std::int32_t most = 0;
  for (const auto* examples : {&train_, &test_}) {
    for (const Example& e : *examples) most = std::max(most, *std::ranges::max_element(e.types));
  }
  if (known == 0 || most < known) return;  // with 0 the model does not read them
  throw UsageError(
      fmt::format("model.types = {}, but the tokenizer tells {} kinds of sentences apart in {}: the model "
                  "cannot read pairs that it puts together",
                  known, most + 1, name_));
}

int SentenceData::longest() const {
  std::size_t longest = 0;
  for (const auto* examples : {&train_, &test_}) {
    for (const Example& e : *examples) longest = std::max(longest, e.ids.size());
  }
  return LengthBatches::filled(lengths_, static_cast<int>(longest));
}

void SentenceData::fill(const std::vector<const Example*>& examples, int longest, Batch& out) const {
  out.count = std::ssize(examples);
  out.length = longest;
  const auto length = static_cast<std::size_t>(out.length);
  out.tokens.assign(examples.size() * length, 0);
  out.types.assign(examples.size() * length, 0);
  out.lengths.clear();
  out.labels.clear();
  out.targets.clear();
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Example& e = *examples[i];
    std::ranges::copy(e.ids, out.tokens.begin() + static_cast<std::ptrdiff_t>(i * length));
    std::ranges::copy(e.types, out.types.begin() + static_cast<std::ptrdiff_t>(i * length));
    out.lengths.push_back(static_cast<std::int32_t>(e.ids.size()));
    if (is_number_) {
      out.targets.push_back(e.score);
    } else {
      out.labels.push_back(e.label);
    }
  }
}

void SentenceData::make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                              Batch& out) const {
  const LengthBatches::Filled whole = batches_->batch(plan, epoch, index);
  const std::size_t count = static_cast<std::size_t>(plan.batch / plan.microbatches);
  const std::size_t first = count * static_cast<std::size_t>(microbatch);
  std::vector<const Example*> examples;
  for (std::size_t i = first; i < first + count; ++i) {
    examples.push_back(&train_[static_cast<std::size_t>(whole.examples[i])]);
  }
  fill(examples, whole.length, out);
}

void SentenceData::make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const {
  int longest = 0;
  std::vector<const Example*> examples;
  for (std::int64_t i = first; i < first + count; ++i) {
    examples.push_back(&test_[static_cast<std::size_t>(i)]);
    longest = std::max(longest, static_cast<int>(examples.back()->ids.size()));
  }
  fill(examples, LengthBatches::filled(lengths_, longest), out);
}

std::uint32_t SentenceData::checksum() const {
  std::uint32_t sum = 0;
  for (const Example& e : train_) {
    sum = crc32(std::as_bytes(std::span(e.ids)), sum);
    sum = crc32(std::as_bytes(std::span(&e.label, 1)), sum);
    sum = crc32(std::as_bytes(std::span(&e.score, 1)), sum);
  }
  return sum;
}

DataSource::Scores SentenceData::score(std::span<const float> outputs) const {
  // Outputs that are not finite cannot be ranked: every score is NaN then.
  const bool are_numbers = std::ranges::all_of(outputs, [](float x) { return std::isfinite(x); });
  const std::size_t channels = outputs.size() / test_.size();
  const auto output = [&](std::size_t i) { return outputs.subspan(i * channels, channels); };
  std::vector<std::int32_t> classes, labels;
  std::vector<double> numbers, scores;
  for (std::size_t i = 0; i < test_.size(); i += is_apart_ ? 2 : 1) {
    scores.push_back(test_[i].score);
    labels.push_back(test_[i].label);
    numbers.push_back(is_apart_ ? cosine(output(i), output(i + 1)) : output(i)[0]);
    classes.push_back(static_cast<std::int32_t>(std::ranges::max_element(output(i)) - output(i).begin()));
  }
  Scores out;
  for (const Metric metric : metrics_) {
    const auto value = [&] {
      if (!are_numbers) return std::numeric_limits<double>::quiet_NaN();
      switch (metric) {
        case Metric::kAccuracy:
          return accuracy(classes, labels);
        case Metric::kMatthews:
          return matthews(classes, labels);
        case Metric::kF1:
          return f1(classes, labels);
        case Metric::kPearson:
          return pearson(numbers, scores);
        case Metric::kSpearman:
          return spearman(numbers, scores);
      }
      return 0.0;
    };
    out.emplace_back(to_string(metric), value());
  }
  return out;
}

}  // namespace lpmm
