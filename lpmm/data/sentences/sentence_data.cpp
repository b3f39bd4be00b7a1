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
namespace {

// The first id of a word has the word's label; other ids have none.
std::vector<std::int32_t> labels_of_ids(const std::vector<std::int32_t>& of_words,
                                        const std::vector<std::size_t>& starts, std::size_t ids) {
  std::vector<std::int32_t> labels(ids, kNotTold);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (starts[i] != PipelineTokenizer::kNoStart) labels[starts[i]] = of_words[i];
  }
  return labels;
}

const PipelineTokenizer* pipeline_of(const Tokenizer* tokenizer) {
  if (const auto* pieces = dynamic_cast<const PipelineTokenizer*>(tokenizer)) return pieces;
  throw UsageError(
      "data.tokenizer: models of sentences read what a tokenizer.json or BERT's vocab.txt puts together; "
      "name "
      "one, or with train.init an imported model that has one");
}

std::int32_t best_of(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

SentenceData::SentenceData(const SentenceSet& set, const std::shared_ptr<const Tokenizer>& tokenizer,
                           std::vector<int> lengths, bool apart)
    : name_(set.name),
      lengths_(std::move(lengths)),
      tells_(set.tells),
      is_apart_(apart),
      class_names_(set.labels),
      classes_(apart             ? 0
               : set.is_number() ? 1
                                 : static_cast<int>(set.labels.size())),
      metrics_(set.metrics) {
  if (apart && !(set.has_pairs && set.is_number())) {
    throw UsageError(fmt::format("{}: only pairs with a score can be compared by their cosines", set.name));
  }
  const PipelineTokenizer* pieces = pipeline_of(tokenizer.get());
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
        std::vector<std::size_t> starts;
        const bool has_words = tells_ == Tells::kWords;
        Sentences put = has_words ? pieces->encode_words(e.words, longest, starts)
                                  : pieces->encode_sentences(first, second, longest);
        if (put.ids.empty()) throw UsageError("has no token");
        cut_ += put.is_cut ? 1 : 0;
        bytes_ += 8 * std::ssize(put.ids) + static_cast<std::int64_t>(sizeof(Example));
        to.push_back({std::move(put.ids), std::move(put.types), e.label, e.score, e.labels});
        if (has_words) to.back().labels = labels_of_ids(e.labels, starts, to.back().ids.size());
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
  other.classes_ = static_cast<int>(names.size());
  other.class_names_ = std::move(names);
  if (other.classes_ != classes_) other.metrics_ = usual_metrics(tells_, other.class_names_);
  for (auto* examples : {&other.train_, &other.test_}) {
    const auto move = [&](std::int32_t& label) {
      if (label >= 0) label = places[static_cast<std::size_t>(label)];
    };
    for (Example& e : *examples) {
      move(e.label);
      std::ranges::for_each(e.labels, move);
    }
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

void SentenceData::fill(const std::vector<const Example*>& examples, std::int64_t counted, int longest,
                        Batch& out) const {
  out.count = std::ssize(examples);
  out.length = longest;
  out.step_labels = 0;
  const auto length = static_cast<std::size_t>(out.length);
  out.tokens.assign(examples.size() * length, 0);
  out.types.assign(examples.size() * length, 0);
  out.lengths.clear();
  out.labels.clear();
  out.targets.clear();
  if (tells_ == Tells::kWords) out.labels.assign(examples.size() * length, kNotTold);
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Example& e = *examples[i];
    std::ranges::copy(e.ids, out.tokens.begin() + static_cast<std::ptrdiff_t>(i * length));
    std::ranges::copy(e.types, out.types.begin() + static_cast<std::ptrdiff_t>(i * length));
    out.lengths.push_back(static_cast<std::int32_t>(e.ids.size()));
    if (static_cast<std::int64_t>(i) < counted) add_answers(e, i * length, out);
  }
}

void SentenceData::add_answers(const Example& e, std::size_t place, Batch& out) const {
  switch (tells_) {
    case Tells::kClass:
      out.labels.push_back(e.label);
      break;
    case Tells::kNumber:
      out.targets.push_back(e.score);
      break;
    case Tells::kClasses: {
      const std::size_t first = out.targets.size();
      out.targets.resize(first + static_cast<std::size_t>(classes_), 0.0F);
      for (const std::int32_t label : e.labels) out.targets[first + static_cast<std::size_t>(label)] = 1;
      break;
    }
    case Tells::kWords:
      std::ranges::copy(e.labels, out.labels.begin() + static_cast<std::ptrdiff_t>(place));
      break;
  }
}

void SentenceData::make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                              Batch& out) const {
  const LengthBatches::Filled whole = batches_->batch(plan, epoch, index);
  const auto [those, counted] = whole.part(plan, microbatch);
  const auto of = [&](std::int32_t i) { return &train_[static_cast<std::size_t>(i)]; };
  std::vector<const Example*> examples;
  for (const std::int32_t i : those) examples.push_back(of(i));
  fill(examples, counted, whole.length, out);
  if (tells_ == Tells::kWords) {
    const auto is_told = [](std::int32_t label) { return label >= 0; };
    for (const std::int32_t i : whole.examples) {
      out.step_labels += std::ranges::count_if(of(i)->labels, is_told);
    }
  } else if (std::ssize(whole.examples) < plan.batch) {
    out.step_labels = std::ssize(whole.examples);
  }
}

void SentenceData::make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const {
  int longest = 0;
  std::vector<const Example*> examples;
  for (std::int64_t i = first; i < first + count; ++i) {
    examples.push_back(&test_[static_cast<std::size_t>(i)]);
    longest = std::max(longest, static_cast<int>(examples.back()->ids.size()));
  }
  fill(examples, count, LengthBatches::filled(lengths_, longest), out);
}

std::int64_t SentenceData::told_words(std::int64_t example) const {
  return std::ranges::count_if(test_[static_cast<std::size_t>(example)].labels,
                               [](std::int32_t label) { return label >= 0; });
}

std::int64_t SentenceData::test_items() const {
  if (tells_ != Tells::kWords) return test_examples() / (is_apart_ ? 2 : 1);
  std::int64_t words = 0;
  for (std::int64_t i = 0; i < test_examples(); ++i) words += told_words(i);
  return words;
}

std::uint32_t SentenceData::checksum() const {
  std::uint32_t sum = 0;
  for (const Example& e : train_) {
    sum = crc32(std::as_bytes(std::span(e.ids)), sum);
    sum = crc32(std::as_bytes(std::span(&e.label, 1)), sum);
    sum = crc32(std::as_bytes(std::span(&e.score, 1)), sum);
    if (!e.labels.empty()) sum = crc32(std::as_bytes(std::span(e.labels)), sum);
  }
  return sum;
}

// The model's answers for the test set, and the right ones.
struct SentenceData::Answers {
  std::vector<std::int32_t> classes, labels;  // of examples or of words
  std::vector<double> numbers, scores;
  std::vector<std::uint8_t> told, is;  // (examples, classes)
  TagSequences told_tags, tags;        // of the words of each example
};

SentenceData::Answers SentenceData::answers(std::span<const float> outputs) const {
  Answers out;
  const auto classes = static_cast<std::size_t>(classes_);
  std::size_t row = 0;
  if (tells_ == Tells::kWords) {
    for (const Example& e : test_) {
      out.told_tags.emplace_back();
      out.tags.emplace_back();
      for (const std::int32_t label : e.labels) {
        if (label < 0) continue;
        out.labels.push_back(label);
        out.classes.push_back(best_of(outputs.subspan(classes * row++, classes)));
        out.told_tags.back().push_back(class_names_[static_cast<std::size_t>(out.classes.back())]);
        out.tags.back().push_back(class_names_[static_cast<std::size_t>(label)]);
      }
    }
    return out;
  }
  const std::size_t channels = outputs.size() / test_.size();
  const auto output = [&](std::size_t i) { return outputs.subspan(i * channels, channels); };
  for (std::size_t i = 0; i < test_.size(); i += is_apart_ ? 2 : 1) {
    const Example& e = test_[i];
    out.scores.push_back(e.score);
    out.labels.push_back(e.label);
    out.numbers.push_back(is_apart_ ? cosine(output(i), output(i + 1)) : output(i)[0]);
    out.classes.push_back(best_of(output(i)));
    if (tells_ != Tells::kClasses) continue;
    out.is.resize(out.is.size() + classes);
    for (const std::int32_t label : e.labels) out.is[i * classes + static_cast<std::size_t>(label)] = 1;
    for (const float x : output(i)) out.told.push_back(x > 0 ? 1 : 0);
  }
  return out;
}

DataSource::Scores SentenceData::score(std::span<const float> outputs) const {
  // Outputs that are not finite cannot be ranked: every score is NaN then.
  const bool are_numbers = std::ranges::all_of(outputs, [](float x) { return std::isfinite(x); });
  const Answers a = answers(outputs);
  const auto value_of = [&](Metric metric) {
    switch (metric) {
      case Metric::kAccuracy:
        return accuracy(a.classes, a.labels);
      case Metric::kMatthews:
        return matthews(a.classes, a.labels);
      case Metric::kF1:
        return f1(a.classes, a.labels);
      case Metric::kPearson:
        return pearson(a.numbers, a.scores);
      case Metric::kSpearman:
        return spearman(a.numbers, a.scores);
      case Metric::kMicroF1:
        return micro_f1(a.told, a.is);
      case Metric::kExactMatch:
        return exact_match(a.told, a.is, static_cast<std::size_t>(classes_));
      case Metric::kEntityF1:
        return entity_f1(a.told_tags, a.tags);
    }
    return 0.0;
  };
  Scores out;
  for (const Metric metric : metrics_) {
    out.emplace_back(to_string(metric),
                     are_numbers ? value_of(metric) : std::numeric_limits<double>::quiet_NaN());
  }
  return out;
}

}  // namespace lpmm
