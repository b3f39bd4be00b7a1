#include "lpmm/run/tasks/task.h"

#include <fmt/format.h>

#include <algorithm>

#include "lpmm/base/error.h"
#include "lpmm/base/text.h"
#include "lpmm/data/conversations/chat_templates.h"
#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"

namespace lpmm {

void name_data(const DataRequest& request, RunConfig& config) {
  const TaskRow& row = task_of(config.model);
  const auto refuse = [&](const char* option) {
    throw UsageError(
        fmt::format("{} is not for models of {}, as {} is", option, row.reads, config.model.name));
  };
  if (request.tests_last && !row.has_test_file) refuse("--test");
  if (!request.task.empty() && row.name_task == nullptr) refuse("--task");
  if (request.tests_last) config.data.test_file = kTestFile;
  if (!request.columns.empty()) config.data.text.columns = request.columns;
  if (request.skips_broken) config.data.conversations.skip_broken = true;
  const bool is_also_by_path = row.other(config.data.set) != nullptr;
  // Another's chat template is that of the model that is evaluated.
  if (is_also_by_path && !request.checkpoint.empty()) {
    std::string& named = config.data.conversations.chat_template;
    named = kept_template(named, model_files_of(request.checkpoint));
    config.train.init = request.checkpoint;
  }
  if (row.name_task != nullptr) return row.name_task(request, config);
  if (request.data.empty()) return;
  const bool has_name = request.data != row.by_path && std::ranges::count(row.sets(), request.data) > 0;
  if (has_name || !is_also_by_path) config.data.set = has_name ? request.data : row.by_path;
  config.data.text.path = has_name ? "" : request.data;
  config.data.text.test_path.clear();
  config.data.text.mixture.clear();
  if (row.tests_own_part) config.data.text.validation_share = 1;  // all of it is new
}

std::unique_ptr<Tokenizer> configured_tokenizer(std::unique_ptr<Tokenizer> own, const TextOptions& text) {
  if (own != nullptr || !names_tokenizer_files(text)) return own;
  return load_tokenizer(find_tokenizer_files(text.tokenizer));
}

std::shared_ptr<const Sequences> mixed(std::vector<Mixture::Part> parts, DataSize& size) {
  std::shared_ptr<const Sequences> data = parts.front().data;
  if (parts.size() > 1) {
    const auto mixture = std::make_shared<const Mixture>(std::move(parts));
    size.mixture = mixture->shares();
    tell(mixture->summary() + "\n");
    data = mixture;
  }
  size.train_examples = data->train_examples();
  size.test_examples = data->test_examples();
  size.bytes = data->bytes();
  size.loading_bytes = data->loading_bytes();
  return data;
}

void fit_vocabulary(const Tokenizer& tokenizer, const std::string& name, ModelConfig& model) {
  const std::int64_t vocabulary = tokenizer.vocabulary();
  if (model.integer(kVocabulary) == 0) model.set(kVocabulary, vocabulary);
  if (model.integer(kVocabulary) < vocabulary) {
    throw UsageError(fmt::format("model.vocabulary = {}, but the tokens of {} go up to {}",
                                 model.integer(kVocabulary), name, vocabulary - 1));
  }
}

}  // namespace lpmm
