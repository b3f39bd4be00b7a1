// Sentences or pairs of sentences, of which a model says one thing: a class, a number, an embedding.
#include <fmt/format.h>

#include <algorithm>

#include "lpmm/base/text.h"
#include "lpmm/data/images.h"
#include "lpmm/data/sentences/sentence_data.h"
#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/program/family.h"
#include "lpmm/run/stored_weights.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/tasks/tasks.h"

namespace lpmm {
namespace {

class SentenceTask : public Task {
 public:
  void open(RunConfig& config, std::unique_ptr<Tokenizer> own, const ProgressCall&) override {
    tokenizer_ = configured_tokenizer(std::move(own), config.data.text);
    const TextOptions& text = config.data.text;
    SentenceSet set =
        load_sentences({config.data.set, text.path, config.data.test_file, text.test_path, text.columns,
                        text.validation_share, text.labels_between, config.data.conversations.skip_broken});
    const bool has_several = config.model.has(kMultiLabel) && config.model.flag(kMultiLabel);
    if (has_several && set.tells == Tells::kClass) set.tell_several();
    data_ = std::make_shared<const SentenceData>(set, tokenizer_, filled_lengths(config.model.length),
                                                 config.data.cosine);
    if (data_->cut() > 0) {
      tell(fmt::format("{}: {} of {} examples are longer than data.length = {} tokens, and are cut\n",
                       data_->name(), data_->cut(), data_->train_examples() + data_->test_examples(),
                       config.model.length));
    }
  }
  void fit(ModelConfig& model) const override {
    model.classes = data_->classes();
    if (model.classes > 0) fit_head(model);
    if (model.has(kTypes)) data_->check_types(model.integer(kTypes));
    fit_vocabulary(*tokenizer_, data_->name(), model);
  }
  DataSize size() const override { return size_of_filled(*data_); }
  std::shared_ptr<const DataSource> source(const Setup&, Pool&) const override { return data_; }
  std::shared_ptr<const Task> numbered(const std::vector<std::string>& names,
                                       const std::vector<std::int32_t>& places) const override {
    auto other = std::make_shared<SentenceTask>(*this);
    other->data_ = std::make_shared<const SentenceData>(data_->numbered(names, places));
    return other;
  }
  Json identity() const override {
    return {{"sentences", data_->train_examples()}, {"crc32", data_->checksum()}};
  }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  std::vector<std::string> class_names() const override { return data_->class_names(); }

 private:
  // The head tells what the data has.
  void fit_head(ModelConfig& model) const {
    const bool has_words = data_->tells() == Tells::kWords, has_several = data_->tells() == Tells::kClasses;
    if (model.has(kOfWords) && model.flag(kOfWords) && !has_words) {
      throw UsageError(fmt::format(
          "model.{0} = true tells the label of every word, but the data of {1} has labels of whole texts; "
          "with --set model.{0}=false a new head tells those",
          kOfWords, data_->name()));
    }
    for (const auto& [key, value] : {std::pair{kOfWords, has_words}, {kMultiLabel, has_several}}) {
      if (model.has(key)) {
        model.set(key, value);
      } else if (value) {
        throw UsageError(fmt::format("a {} has no head that tells {}, as {} asks for", model.name,
                                     has_words ? "the labels of words" : "several labels of a text",
                                     data_->name()));
      }
    }
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const SentenceData> data_;
};

void name_sentences(const DataRequest& request, RunConfig& config) {
  TextOptions& text = config.data.text;
  if (request.task.empty()) {
    if (request.data.empty()) return;
    // Of the run's own classes it may lack some; other columns are not those of the run's own files.
    const bool has_own = config.data.set == kSentencesByPath && !find_data(text.path).empty();
    if (has_own && request.columns.empty()) {
      text.test_path = request.data;
      return;
    }
    config.data.set = kSentencesByPath;
    text.path = request.data;
    text.test_path.clear();
    text.validation_share = 1;  // all of it is new
    return;
  }
  if (std::ranges::count(kSentenceTask.sets(), request.task) == 0)
    load_sentences({request.task});  // says which there are
  config.data.cosine = stored_classes(StoredWeights(request.checkpoint), config.model) == 0;
  config.data.set = request.task;
  text.path = request.data;
  text.test_path.clear();
  if (request.task == kSentencesByPath) text.validation_share = 1;  // as above
}

}  // namespace

constinit const TaskRow kSentenceTask{
    .reads = "sentences",
    .by_path = kSentencesByPath,
    .keys_by_path = {"columns", "skip_broken"},
    .has_tokens = true,
    .fills_lengths = true,
    .has_test_file = true,
    .classes = 0,
    .sets = [] { return names_of(named_sentence_sets(), {kSentencesByPath}); },
    .make = make_task<SentenceTask>,
    .name_task = name_sentences};

}  // namespace lpmm
