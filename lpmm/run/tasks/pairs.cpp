// Sentences in two languages: a model makes the target of the source, token by token.
#include <fmt/format.h>

#include <algorithm>

#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/data/pairs/bleu.h"
#include "lpmm/data/pairs/pair_data.h"
#include "lpmm/program/family.h"
#include "lpmm/program/generate/translate.h"
#include "lpmm/ranks/ranks.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/tasks/tasks.h"

namespace lpmm {
namespace {

// What sentences begin and end with, where the configuration does not say it: a translation begins with what
// the source ends with, but for tokenizers that say otherwise.
void take_ends(ModelConfig& model, const Tokenizer& tokenizer) {
  const std::int64_t most = tokenizer.vocabulary();
  if (model.integer(kEnd) < 0) {
    const auto end = tokenizer.end_of_text();
    if (!end) {
      throw UsageError(
          fmt::format("model.{} = -1, but the tokenizer has no token that ends a text: name one", kEnd));
    }
    model.set(kEnd, std::int64_t{*end});
  }
  if (model.integer(kStart) < 0) {
    model.set(kStart, std::int64_t{tokenizer.before_translation().value_or(model.integer(kEnd))});
  }
  for (const std::string_view key : {kEnd, kStart}) {
    if (model.integer(key) >= std::max<std::int64_t>(most, model.integer(kVocabulary))) {
      throw UsageError(
          fmt::format("model.{} = {}: the tokens go up to {}", key, model.integer(key), most - 1));
    }
  }
}

std::unique_ptr<const Tokenizer> pair_tokenizer(std::unique_ptr<Tokenizer> own, const TextOptions& text) {
  if (own == nullptr && (text.tokenizer == "bytes" || text.tokenizer == kGpt2Tokenizer)) {
    own = make_text_tokenizer(text, "");
  }
  own = configured_tokenizer(std::move(own), text);
  if (own != nullptr) return own;
  throw UsageError(
      "data.tokenizer: a translator reads both languages by one SentencePiece .model, tokenizer.json, gpt2 "
      "or bytes, or by a folder of Marian's files; make one with lpmm data tokenizer, or name with "
      "train.init a model that has one");
}

class PairTask : public Task {
 public:
  void open(RunConfig& config, std::unique_ptr<Tokenizer> own, const ProgressCall&) override {
    tokenizer_ = pair_tokenizer(std::move(own), config.data.text);
    take_ends(config.model, *tokenizer_);
    const auto& data = config.data;
    const PairSet set = load_pairs(data.set, data.text.path, data.source, data.target, data.test_file,
                                   !config.optimizer.frozen);
    const PairEnds ends{config.model.integer(kStart), config.model.integer(kEnd)};
    data_ = std::make_shared<const PairData>(set, *tokenizer_, ends, filled_lengths(config.model.length));
  }
  void fit(ModelConfig& model) const override {
    take_ends(model, *tokenizer_);
    fit_vocabulary(*tokenizer_, data_->name(), model);
  }
  DataSize size() const override { return size_of_filled(*data_); }
  std::shared_ptr<const DataSource> source(const Setup&, Pool&) const override { return data_; }
  Json identity() const override {
    return {{"pairs", data_->train_examples()}, {"crc32", data_->checksum()}};
  }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  std::int64_t scoring_bytes(const RunConfig& config, const Model& model, Device& device) const override {
    if (!config.data.bleu) return 0;
    return translation_bytes(config.model, config.train.compute, model, device, data_->test_source_lengths(),
                             BeamOptions{});
  }
  // BLEU of the test sources, translated by five beams.
  std::string add_scores(const TestedModel& t, bool in_run, const ProgressCall& progress,
                         DataSource::Scores& scores) const override {
    if (!t.config.data.bleu) return "";
    try {
      const std::vector<std::string> told =
          translate(t.config.model, t.config.train.compute, t.model, t.memory, t.device, *tokenizer_,
                    data_->test_sources(), BeamOptions{}, progress);
      scores.emplace_back("bleu", bleu(told, data_->test_targets()));
    } catch (const Interrupted&) {
      if (!in_run) throw;  // the run sees it too
    } catch (const RankLost&) {
      throw;
    } catch (const std::exception& e) {
      if (!in_run) throw;
      return fmt::format("no BLEU: {}; data.bleu = false leaves it out", e.what());
    }
    return "";
  }

 private:
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const PairData> data_;
};

}  // namespace

constinit const TaskRow kPairTask{.reads = "sentences in two languages",
                                  .by_path = kPairsByPath,
                                  .has_tokens = true,
                                  .fills_lengths = true,
                                  .translates = true,
                                  .has_test_file = true,
                                  .sets = [] { return names_of(named_pair_sets(), {kPairsByPath}); },
                                  .make = make_task<PairTask>};

}  // namespace lpmm
