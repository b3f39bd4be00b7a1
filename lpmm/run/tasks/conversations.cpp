// Conversations for language models, packed into sequences.
#include <utility>

#include "lpmm/base/text.h"
#include "lpmm/data/conversations/conversation_data.h"
#include "lpmm/run/tasks/row_files.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/tasks/tasks.h"

namespace lpmm {
namespace {

class ConversationTask : public Task {
 public:
  void open(RunConfig& config, std::unique_ptr<Tokenizer> own, const ProgressCall& progress) override {
    RowFiles files = open_row_files(config, std::move(own));
    tokenizer_ = std::move(files.tokenizer);
    const TextOptions& text = config.data.text;
    const auto read = [&](const std::string& path) {
      ReadConversations all =
          read_conversations(find_row_files(path), *tokenizer_, files.used(), files.options, progress);
      tell_rest(path, all, "no token to learn");
      return std::move(all.documents);
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
