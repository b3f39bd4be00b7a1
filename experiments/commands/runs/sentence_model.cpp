#include "experiments/commands/runs/sentence_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "experiments/commands/runs/loaded_model.h"
#include "lpmm/base/error.h"
#include "lpmm/data/sentences/sentence_data.h"
#include "lpmm/data/tokenizers/pipeline.h"
#include "lpmm/data/utf8.h"
#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/stored_weights.h"

namespace lpmm {
namespace {

constexpr int kBatch = 32;

RunConfig sentences_config(const std::string& checkpoint, const std::string& compute) {
  RunConfig config = evaluated_config(checkpoint, kSentenceTask, compute_settings(compute));
  config.model = complete(config.model);
  const int context = config.model.integer(kContext), asked = config.data.text.length;
  config.model.length = asked == 0 ? context : std::min(asked, context);
  return config;
}

// Scales a vector to length 1, unless it is 0.
void make_unit(std::span<float> vector) {
  double squares = 0;
  for (const float x : vector) squares += double{x} * double{x};
  if (squares == 0) return;
  for (float& x : vector) x = static_cast<float>(double{x} / std::sqrt(squares));
}

std::vector<std::string> saved_names(const std::string& checkpoint, const RunConfig& config) {
  const auto run = checkpoint_run(checkpoint);
  const auto classes = static_cast<std::size_t>(config.model.classes);
  std::vector<std::string> names = stored_class_names(run);
  if (names.empty()) names = class_names_of(config.data.set);
  if (names.size() == classes) return names;
  names.clear();
  for (std::size_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace

SentenceModel::SentenceModel(const std::string& path, int threads, const std::string& compute, bool embeds)
    : checkpoint_(find_checkpoint(path)), config_(sentences_config(checkpoint_, compute)), device_(threads) {
  tokenizer_ = saved_tokenizer(checkpoint_, config_);
  if (tokenizer_ == nullptr) throw no_tokenizer(checkpoint_);
  if (config_.model.integer(kVocabulary) == 0) config_.model.set(kVocabulary, tokenizer_->vocabulary());
  const StoredWeights weights(checkpoint_);
  const int classes = stored_classes(weights, config_.model);
  if (classes == 0 && !embeds) {
    throw UsageError(
        fmt::format("{}: only embeds sentences; fine-tune it for a task (lpmm train --init), or see "
                    "lpmm embed",
                    checkpoint_));
  }
  config_.model.classes = embeds ? 0 : classes;
  if (!embeds) names_ = saved_names(checkpoint_, config_);
  model_ = make_model(config_.model);
  memory_ = std::make_unique<ModelMemory>(model_->tensors(), config_.policy, config_.optimizer,
                                          config_.train.seed, 1, device_);
  Buffers none(model_->buffers(), device_);
  if (embeds && classes > 0) {
    load_parameters(weights, *memory_, config_.model.family->head);
  } else {
    load_checkpoint(checkpoint_, config_.model.name, *memory_, none);
  }
  program_ = model_->build(kBatch, config_.train.compute, device_);
  const std::string files = model_files_of(checkpoint_);
  if (embeds && !files.empty()) vector_ = read_sentence_vector(files);
  if (vector_.leaves_prompt) {
    throw RunError(fmt::format(
        "{}: include_prompt is false beside default_prompt_name: vectors without the prompt's positions are "
        "not here; take default_prompt_name out of config_sentence_transformers.json for sentences alone",
        files));
  }
}

bool SentenceModel::reads(const SentenceExample& line) const {
  const std::string text = line.first + line.second;
  const auto* pieces = dynamic_cast<const PipelineTokenizer*>(tokenizer_.get());
  if (pieces == nullptr || text.find_first_not_of(' ') != std::string::npos) return true;
  return !pieces->encode_sentences(text).ids.empty();
}

Tells SentenceModel::tells() const {
  const ModelConfig& model = config_.model;
  const auto has = [&](std::string_view key) { return model.has(key) && model.flag(key); };
  return has(kOfWords)        ? Tells::kWords
         : has(kMultiLabel)   ? Tells::kClasses
         : model.classes == 1 ? Tells::kNumber
                              : Tells::kClass;
}

void SentenceModel::for_each_batch(const SentenceSet& set, std::span<const std::size_t> order,
                                   const BatchCall& body) {
  if (set.test.empty()) return;
  const SentenceData data(set, tokenizer_, filled_lengths(config_.model.length));
  if (config_.model.has(kTypes)) data.check_types(config_.model.integer(kTypes));
  Batch batch;
  std::vector<float> told;
  const Buffers none(model_->buffers(), device_);
  for (std::int64_t first = 0; first < data.test_examples(); first += kBatch) {
    const std::int64_t count = std::min<std::int64_t>(kBatch, data.test_examples() - first);
    data.make_test_batch(first, count, batch);
    std::vector<std::int32_t> words;
    if (set.tells == Tells::kWords) {
      words = batch.labels;
      std::ranges::replace_if(
          batch.labels, [](std::int32_t word) { return word > 0; }, 0);
    }
    program_->evaluate(*memory_, none, batch, &told);
    body(told, order.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)), words);
  }
}

namespace {

// Sorts the examples by length, so that those of a batch are about equally long.
std::vector<std::size_t> by_length(const std::vector<SentenceExample>& examples) {
  std::vector<std::size_t> order(examples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto bytes = [&](std::size_t i) {
    return examples[i].first.size() + examples[i].second.size() + examples[i].words.size();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes(a) < bytes(b); });
  return order;
}

}  // namespace

std::vector<float> SentenceModel::outputs(std::vector<SentenceExample> examples, bool are_pairs) {
  const std::vector<std::size_t> order = by_length(examples);
  SentenceSet set{.name = "the input", .has_pairs = are_pairs, .tells = tells()};
  set.labels.resize(static_cast<std::size_t>(classes() > 1 ? classes() : 0));
  for (const std::size_t i : order) {
    examples[i].first.insert(0, vector_.prompt);
    set.test.push_back(std::move(examples[i]));
  }
  std::vector<float> out;
  for_each_batch(set, order, [&](std::span<const float> told, std::span<const std::size_t> which, auto) {
    const std::size_t whole = told.size() / which.size(),
                      width = vector_.width > 0 ? std::min(static_cast<std::size_t>(vector_.width), whole)
                                                : whole;
    out.resize(order.size() * width);
    std::vector<float> one;
    for (std::size_t i = 0; i < which.size(); ++i) {
      const auto from = told.subspan(i * whole, whole);
      one.assign(from.begin(), from.end());
      if (vector_.has_unit) make_unit(one);  // and is cut off behind that, as its library does
      std::copy_n(one.begin(), width, out.begin() + static_cast<std::ptrdiff_t>(which[i] * width));
    }
  });
  return out;
}

std::vector<SentenceModel::WordOutputs> SentenceModel::word_outputs(std::vector<SentenceExample> examples) {
  const std::vector<std::size_t> order = by_length(examples);
  SentenceSet set{.name = "the input", .tells = Tells::kWords};
  set.labels = names_;
  std::vector<WordOutputs> out(examples.size());
  for (const std::size_t i : order) {
    SentenceExample& e = examples[i];
    out[i].resize(e.words.size());
    e.labels.resize(e.words.size());
    std::iota(e.labels.begin(), e.labels.end(), 0);
    set.test.push_back(std::move(e));
  }
  const auto width = static_cast<std::size_t>(classes());
  for_each_batch(set, order,
                 [&](std::span<const float> told, std::span<const std::size_t> which,
                     std::span<const std::int32_t> words) {
                   const std::size_t length = words.size() / which.size();
                   for (std::size_t at = 0, row = 0; at < words.size(); ++at) {
                     if (words[at] < 0) continue;
                     const auto of_word = told.subspan(width * row++, width);
                     out[which[at / length]][static_cast<std::size_t>(words[at])].assign(of_word.begin(),
                                                                                         of_word.end());
                   }
                 });
  return out;
}

void for_each_line(const std::string& file, bool pairs_only, const LinesCall& body) {
  constexpr std::size_t kMost = 4096;  // lines at a time
  std::ifstream opened;
  if (!file.empty()) opened.open(file, std::ios::binary);
  if (!file.empty() && !opened) throw RunError(fmt::format("{}: cannot be opened", file));
  std::istream& in = file.empty() ? std::cin : opened;
  const std::string name = file.empty() ? "standard input" : file;
  std::vector<SentenceExample> lines;
  bool are_pairs = false;
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);  // a byte order mark
    if (const std::size_t bad = first_bad_byte(line); bad != std::string::npos) {
      throw RunError(
          fmt::format("{}: line {} is not UTF-8 from byte {} on: save the text as UTF-8", name, number, bad));
    }
    const std::size_t tab = line.find('\t');
    const bool is_pair = tab != std::string::npos;
    if (is_pair && line.find('\t', tab + 1) != std::string::npos) {
      throw UsageError(
          fmt::format("{}: line {} has more than one tab: it is one sentence, or two", name, number));
    }
    if (pairs_only && !is_pair) {
      throw UsageError(
          fmt::format("{}: line {} has no tab, which is to be between its two sentences", name, number));
    }
    if (!lines.empty() && (is_pair != are_pairs || lines.size() == kMost)) {
      body(std::move(lines), are_pairs);
      lines.clear();
    }
    are_pairs = is_pair;
    lines.push_back(
        {.first = line.substr(0, tab), .second = is_pair ? line.substr(tab + 1) : "", .line = number});
  }
  if (in.bad()) throw RunError(fmt::format("{}: cannot be read", name));
  if (number == 0) throw UsageError(fmt::format("{}: holds no line", name));
  body(std::move(lines), are_pairs);
}

void add_sentence_arguments(CLI::App& command, SentenceArguments& arguments) {
  command.add_option("PATH", arguments.path, "a run's folder, its checkpoints folder or one checkpoint")
      ->required();
  command.add_option("--file", arguments.file, "a sentence a line (default: standard input)")
      ->check(kNotEmpty)
      ->type_name("FILE");
  add_compute_option(command, arguments.compute);
  add_threads_option(command, arguments.threads);
}

}  // namespace lpmm
