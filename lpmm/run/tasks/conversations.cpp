// Conversations for language models, packed into sequences.
#include <optional>
#include <utility>

#include "lpmm/base/text.h"
#include "lpmm/data/conversations/conversation_data.h"
#include "lpmm/data/conversations/kept_documents.h"
#include "lpmm/data/conversations/rows.h"
#include "lpmm/data/corpus/kept_files.h"
#include "lpmm/files/files.h"
#include "lpmm/files/gz_file.h"
#include "lpmm/run/tasks/row_files.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/tasks/tasks.h"
#include "lpmm/version.h"

namespace lpmm {
namespace {

constexpr const char* kNothingLearnt = "no token to learn";

// How documents are read.
struct Reading {
  const Tokenizer& tokenizer;
  const chat::Template* chat_template;
  const ConversationOptions& options;
  const ProgressCall& progress;
};

std::shared_ptr<const ConversationData> read(const TextOptions& file, const ConversationKeys& keys,
                                             int length, const Reading& reading) {
  const auto documents_of = [&](const std::string& path) {
    ReadConversations all = read_conversations(find_row_files(path), reading.tokenizer, reading.chat_template,
                                               reading.options, reading.progress);
    tell_rest(path, all, kNothingLearnt);
    return std::move(all.documents);
  };
  std::vector<Document> train = documents_of(file.path);
  std::optional<std::vector<Document>> test;
  if (!file.test_path.empty()) test = documents_of(file.test_path);
  return std::make_shared<const ConversationData>(file.path, std::move(train), std::move(test),
                                                  file.validation_share, length, too_long_of(keys.too_long));
}

// The same from a file of the data folder, which is made where it is not there.
std::shared_ptr<const ConversationData> stream(const TextOptions& file, const ConversationKeys& keys,
                                               int length, const Reading& reading) {
  const auto files_of = [](const std::string& path) {
    if (path.empty()) return Json::array();
    const std::vector<std::string> files = conversation_files(find_row_files(path));
    Json identity = identity_of_files(files);
    // Tokens that were kept when the spaces around cells were left out are made again.
    for (const std::string& file : files) {
      if (!has_ending(file, ".jsonl") && !has_ending(file, ".json")) identity.push_back("with spaces");
    }
    return identity;
  };
  DocumentsToKeep what;
  what.key = kept_key({{"files", files_of(file.path)},
                       {"test_files", files_of(file.test_path)},
                       {"template", template_checksum(reading.chat_template)},
                       {"columns", reading.options.columns},
                       {"loss", reading.options.loss},
                       {"skip_broken", reading.options.skip_broken},
                       {"length", length},
                       {"too_long", keys.too_long},
                       {"share", file.test_path.empty() ? file.validation_share : 0}},
                      reading.tokenizer);
  what.vocabulary = reading.tokenizer.vocabulary();
  what.length = length;
  what.too_long = too_long_of(keys.too_long);
  what.share = file.validation_share;
  what.has_test = !file.test_path.empty();
  what.read = [&](const auto& take, bool is_test) {
    const std::string& path = is_test ? file.test_path : file.path;
    const ReadConversations all = read_conversations(
        find_row_files(path), reading.tokenizer, reading.chat_template, reading.options,
        [&](const Document& document) { take(document); }, reading.progress);
    tell_rest(path, all, kNothingLearnt);
  };
  PackedParts parts = kept_documents(what);
  check_parts(file.path, parts, parts.train.counts().documents > 0, parts.test.counts().documents > 0);
  return std::make_shared<const ConversationData>(file.path, std::move(parts));
}

class ConversationTask : public Task {
 public:
  void open(RunConfig& config, std::unique_ptr<Tokenizer> own, const ProgressCall& progress) override {
    RowFiles files = open_row_files(config, std::move(own));
    tokenizer_ = std::move(files.tokenizer);
    const TextOptions& text = config.data.text;
    const ConversationKeys& keys = config.data.conversations;
    const Reading reading{*tokenizer_, files.used(), files.options, progress};
    std::vector<Mixture::Part> parts;
    for (const TextOptions& file : each_file(text)) {
      const auto data = file.streams ? stream(file, keys, config.model.length, reading)
                                     : read(file, keys, config.model.length, reading);
      tell(data->summary() + "\n");
      documents_ += data->train().counts().documents + data->test().counts().documents;
      parts.push_back({data, text.mixture.empty() ? 1 : text.mixture[parts.size()].weight});
    }
    data_ = mixed(std::move(parts), size_);
  }
  void fit(ModelConfig& model) const override {
    fit_vocabulary(*tokenizer_, data_->name(), model);
    model.documents = true;
  }
  DataSize size() const override {
    constexpr std::int64_t kNumbers = 3;  // a token, a label, where its document starts
    DataSize size = size_;
    size.example_bytes = data_->labels() * kNumbers * std::int64_t{sizeof(std::int32_t)};
    size.learnt_tokens = data_->learnt_labels();
    return size;
  }
  std::shared_ptr<const DataSource> source(const Setup&, Pool&) const override { return data_; }
  Json identity() const override { return {{"documents", documents_}, {"crc32", data_->checksum()}}; }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }

 private:
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const Sequences> data_;
  DataSize size_;
  std::int64_t documents_ = 0;
};

}  // namespace

constinit const PathSet kConversationSet{
    .name = "conversations",
    .recipe = "chat_tune",
    .keys = {"template", "loss", "too_long", "columns", "skip_broken", "mixture", "stream"},
    .make = make_task<ConversationTask>};

}  // namespace lpmm
