// Conversations for language models, packed into sequences.
#include <fmt/format.h>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/conversations/conversation_data.h"
#include "lpmm/data/images.h"
#include "lpmm/data/table.h"
#include "lpmm/files/files.h"
#include "lpmm/program/family.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/tasks/tasks.h"

namespace lpmm {
namespace {

std::unique_ptr<const Tokenizer> conversation_tokenizer(std::unique_ptr<Tokenizer> own,
                                                        const TextOptions& text) {
  if (own != nullptr) return own;
  check_tokenizer(text);
  if (text.tokenizer == "characters" || text.tokenizer == kWords) {
    throw UsageError(
        fmt::format("data.tokenizer = {}: conversations are read by bytes, {} or a file, or by "
                    "the tokenizer of train.init",
                    text.tokenizer, kGpt2Tokenizer));
  }
  return make_text_tokenizer(text, "");
}

std::vector<Document> read_documents(const std::string& path, const Tokenizer& tokenizer) {
  const Table table = read_table(path);
  const int place = table.place_of("text");
  std::vector<Document> documents;
  for (const Table::Row& row : table.rows) {
    Document d;
    d.ids = tokenizer.encode(row.cells[static_cast<std::size_t>(place)]);
    if (const auto end = tokenizer.end_of_text()) d.ids.push_back(*end);
    d.learnt.assign(d.ids.size(), 1);
    documents.push_back(std::move(d));
  }
  return documents;
}

class ConversationTask : public Task {
 public:
  void open(RunConfig& config, std::unique_ptr<Tokenizer> own, const ProgressCall&) override {
    const TextOptions& text = config.data.text;
    if (text.path.empty()) {
      throw UsageError(
          fmt::format("data.set = {} needs data.path: a .jsonl or .json file", kConversationSet));
    }
    if (text.blocks || text.words > 0) {
      throw UsageError("data.blocks and data.words are for data.set = text");
    }
    tokenizer_ = conversation_tokenizer(std::move(own), text);
    const auto read = [&](const std::string& path) {
      const std::string found = find_data(path);
      if (found.empty()) throw RunError(fmt::format("{}: no such file or folder", path));
      return read_documents(found, *tokenizer_);
    };
    std::vector<Document> train = read(text.path), test;
    if (!text.test_path.empty()) test = read(text.test_path);
    data_ = std::make_shared<const ConversationData>(text.path, std::move(train), std::move(test),
                                                     text.validation_share, config.model.length,
                                                     too_long_of(config.data.conversations.too_long));
    tell(data_->summary() + "\n");
  }
  void fit(ModelConfig& model) const override {
    fit_vocabulary(*tokenizer_, data_->name(), model);
    model.documents = true;
  }
  DataSize size() const override {
    constexpr std::int64_t kNumbers = 3;  // a token, a label, where its document starts
    DataSize size{data_->train_examples(), data_->test_examples(), data_->bytes(), data_->loading_bytes(),
                  data_->labels() * kNumbers * std::int64_t{sizeof(std::int32_t)}};
    size.learnt_tokens = data_->learnt_labels();
    return size;
  }
  std::shared_ptr<const DataSource> source(const Setup&, Pool&) const override { return data_; }
  Json identity() const override {
    return {{"documents", data_->train().counts().documents + data_->test().counts().documents},
            {"crc32", data_->checksum()}};
  }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }

 private:
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ConversationData> data_;
};

}  // namespace

std::shared_ptr<Task> make_conversation_task() {
  return std::make_shared<ConversationTask>();
}

}  // namespace lpmm
