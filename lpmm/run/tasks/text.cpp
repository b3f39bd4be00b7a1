// One long text for language models, read in windows.
#include <fmt/format.h>

#include <filesystem>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/gpt2_files.h"
#include "lpmm/data/text_data.h"
#include "lpmm/program/family.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/tasks/tasks.h"

namespace lpmm {
namespace {

class TextTask : public Task {
 public:
  void open(RunConfig& config, std::unique_ptr<Tokenizer> own, const ProgressCall& progress) override {
    const TextOptions& text = config.data.text;
    if (own == nullptr && !text.mixture.empty()) refuse_counted(text, "but data.mixture has several");
    std::shared_ptr<const Tokenizer> tokenizer = std::move(own);
    std::vector<Mixture::Part> parts;
    for (const TextOptions& file : each_file(text)) {
      const auto data = std::make_shared<const TextData>(file, tokenizer, progress);
      tokenizer = tokenizer_ = data->tokenizer();
      tokens_ += data->size();
      parts.push_back({data, text.mixture.empty() ? 1 : text.mixture[parts.size()].weight});
    }
    data_ = mixed(std::move(parts), size_);
  }
  void fit(ModelConfig& model) const override { fit_vocabulary(*tokenizer_, data_->name(), model); }
  DataSize size() const override {
    DataSize size = size_;
    size.example_bytes = data_->labels() * 2 * std::int64_t{sizeof(std::int32_t)};
    return size;
  }
  std::shared_ptr<const DataSource> source(const Setup&, Pool&) const override { return data_; }
  Json identity() const override { return {{"tokens", tokens_}, {"crc32", data_->checksum()}}; }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const Sequences> data_;
  DataSize size_;
  std::int64_t tokens_ = 0;
};

// GPT-2's files need not be there to plan for a text: its bytes stand for its tokens.
std::unique_ptr<Tokenizer> bytes_for_gpt2(RunConfig& config) {
  const TextOptions& text = config.data.text;
  const bool needs_files =
      text.tokenizer == kGpt2Tokenizer && config.train.init.empty() && !text.path.ends_with(".tokens");
  if (!needs_files || std::filesystem::exists(std::filesystem::path(gpt2_folder(text)) / kGpt2Tokens)) {
    return nullptr;
  }
  tell(
      fmt::format("no tokenizer in {}: every byte of the text is counted as a token, about four times too "
                  "many; `lpmm data get gpt2-bpe` downloads it\n",
                  gpt2_folder(text)));
  if (config.model.integer(kVocabulary) == 0) config.model.set(kVocabulary, kGpt2Vocabulary);
  return make_byte_tokenizer();
}

constexpr const PathSet* kOtherSets[] = {&kConversationSet, &kPreferenceSet};

std::vector<std::string_view> names_of_sets() {
  std::vector names{kTextTask.by_path};
  for (const PathSet* other : kOtherSets) names.push_back(other->name);
  return names;
}

// Without a text of its own, any other may be evaluated later: bytes have no unknown characters. Several
// texts have no characters of one.
void choose_bytes(RunConfig& config, bool names_tokenizer) {
  const auto& data = config.data;
  const bool has_no_text = data.set == kTextTask.by_path && data.text.path.empty();
  const bool wants_bytes = has_no_text || kTextTask.other(data.set) != nullptr;
  if (wants_bytes && !names_tokenizer) config.data.text.tokenizer = "bytes";
}

}  // namespace

constinit const TaskRow kTextTask{.reads = "text",
                                  .by_path = "text",
                                  .keys_by_path = {"blocks", "words", "mixture", "stream"},
                                  .also_by_path = kOtherSets,
                                  .has_tokens = true,
                                  .continues = true,
                                  .is_judged_by_loss = true,
                                  .tests_own_part = true,
                                  .sets = names_of_sets,
                                  .make = make_task<TextTask>,
                                  .complete = choose_bytes,
                                  .stand_in = bytes_for_gpt2};

}  // namespace lpmm
