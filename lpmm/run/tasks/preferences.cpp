// Pairs of answers for language models, packed into sequences, of which one is preferred.
#include <fmt/format.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/preferences/preference_data.h"
#include "lpmm/data/preferences/preferences.h"
#include "lpmm/files/files.h"
#include "lpmm/run/tasks/row_files.h"
#include "lpmm/run/tasks/task.h"
#include "lpmm/run/tasks/tasks.h"

namespace lpmm {
namespace {

constexpr int kPair = 2;  // documents that stay together

void check_keys(const ConversationKeys& keys, const PreferenceLoss& loss) {
  if (loss.smoothing >= 0.5) {
    throw UsageError(
        fmt::format("data.label_smoothing = {}: from a half on no answer is preferred, or the rejected one "
                    "is, and the model "
                    "would learn nothing or the opposite; take less than 0.5",
                    loss.smoothing));
  }
  if (keys.loss != kLossAnswers) {
    throw UsageError(fmt::format(
        "data.loss = {}: of pairs of answers only the answers are learnt; leave it out, or set \"{}\"",
        keys.loss, kLossAnswers));
  }
  if (too_long_of(keys.too_long) == TooLong::kSplit) {
    throw UsageError(
        "data.too_long = split: the parts of a pair would be compared without what they answer; take cut or "
        "drop, or a longer data.length");
  }
}

std::string told(std::uint32_t checksum) {
  return fmt::format("crc32 {:08x}", checksum);
}

class PreferenceTask : public Task {
 public:
  void open(RunConfig& config, std::unique_ptr<Tokenizer> own, const ProgressCall& progress) override {
    const ConversationKeys& keys = config.data.conversations;
    loss_ = config.data.preferences;
    check_keys(keys, loss_);
    RowFiles files = open_row_files(config, std::move(own));
    tokenizer_ = std::move(files.tokenizer);
    const TextOptions& text = config.data.text;
    const auto read = [&](const std::string& path) {
      ReadPreferences all =
          read_preferences(find_row_files(path), *tokenizer_, files.used(), files.options, progress);
      tell_rest(path, all, "equal answers or no token to learn");
      return std::move(all.documents);
    };
    std::vector<Document> train = read(text.path);
    std::optional<std::vector<Document>> test;
    if (!text.test_path.empty()) test = read(text.test_path);
    data_ = std::make_shared<const PreferenceData>(
        text.path,
        pack_parts(text.path, std::move(train), std::move(test), text.validation_share, config.model.length,
                   too_long_of(keys.too_long), kPair),
        std::map<std::string, std::string>{
            {"tokenizer", told(crc32(tokenizer_->describe().dump()))},
            {"template", files.used() == nullptr ? "none" : told(template_checksum(files.used()))},
            {"log_probability", loss_.is_mean ? "mean" : "sum"}});
    tell(summary_of(text.path, data_->parts()) + "\n");
  }
  void fit(ModelConfig& model) const override {
    fit_vocabulary(*tokenizer_, data_->name(), model);
    model.documents = true;
    model.preferences = loss_;
  }
  DataSize size() const override {
    constexpr std::int64_t kNumbers = 3;  // a token, a label, where its document starts
    const PackedParts& parts = data_->parts();
    DataSize size{data_->train_examples(), data_->test_examples(), data_->bytes(), parts.loading_bytes,
                  data_->labels() * kNumbers * std::int64_t{sizeof(std::int32_t)}};
    size.learnt_tokens = parts.train.counts().learnt;
    return size;
  }
  std::shared_ptr<const DataSource> source(const Setup&, Pool&) const override { return data_; }
  Json identity() const override {
    return {{"pairs", data_->reference_size()}, {"crc32", data_->parts().checksum()}};
  }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }

 private:
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const PreferenceData> data_;
  PreferenceLoss loss_;
};

}  // namespace

constinit const PathSet kPreferenceSet{.name = "preferences",
                                       .recipe = "dpo_tune",
                                       .keys = {"template", "loss", "too_long", "columns", "skip_broken",
                                                "beta", "label_smoothing", "log_probability"},
                                       .make = make_task<PreferenceTask>};

}  // namespace lpmm
