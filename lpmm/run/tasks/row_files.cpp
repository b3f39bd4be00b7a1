#include "lpmm/run/tasks/row_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "lpmm/base/error.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/data/conversations/chat_templates.h"
#include "lpmm/data/images.h"
#include "lpmm/data/table.h"
#include "lpmm/data/text_data.h"
#include "lpmm/files/files.h"
#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/tasks/task.h"

namespace lpmm {
namespace {

std::unique_ptr<const Tokenizer> row_tokenizer(std::unique_ptr<Tokenizer> own, const RunConfig& config) {
  if (own != nullptr) return own;
  const TextOptions& text = config.data.text;
  check_tokenizer(text);
  refuse_counted(text, fmt::format("but {} are many", config.data.set));
  return make_text_tokenizer(text, "");
}

// The folder of the model that the run starts from; empty: it keeps no files, or the run begins anew.
std::string files_of_start(const RunConfig& config) {
  return config.train.init.empty() ? "" : model_files_of(find_checkpoint(config.train.init));
}

}  // namespace

RowFiles open_row_files(const RunConfig& config, std::unique_ptr<Tokenizer> own) {
  const TextOptions& text = config.data.text;
  if (text.path.empty() && text.mixture.empty()) {
    throw UsageError(fmt::format(
        "data.set = {} needs data.path: a .jsonl, .json, .csv or .tsv file, or a folder{}", config.data.set,
        task_of(config.model).takes("mixture", config.data.set) ? "; or data.mixture, several of them" : ""));
  }
  const ConversationKeys& keys = config.data.conversations;
  RowFiles files{row_tokenizer(std::move(own), config),
                 find_template(keys.chat_template, files_of_start(config)),
                 {.columns = text.columns, .loss = keys.loss, .skip_broken = keys.skip_broken}};
  if (files.chat_template)
    tell(fmt::format("conversations are rendered by {}\n", printable(files.chat_template->name())));
  return files;
}

std::uint32_t template_checksum(const chat::Template* chat_template) {
  std::string texts;
  for (const auto* t = chat_template; t != nullptr; t = t->for_tools()) {
    texts += t->source() + '\0' + t->tokens().dump() + '\0';
  }
  return crc32(texts);
}

std::string find_row_files(const std::string& path) {
  std::string found = find_data(path);
  if (found.empty()) throw RunError(fmt::format("{}: no such file or folder", path));
  return found;
}

void tell_rest(const std::string& path, const ReadCounts& all, std::string_view empty) {
  tell_left_out(path, all.broken, all.read, all.reasons);
  if (all.empty > 0) {
    tell(fmt::format("{}: {} of {} have {} and are left out\n", path, all.empty, all.read, empty));
  }
  if (all.unused.empty()) return;
  tell(fmt::format("{}: columns that are not read: {}\n", path,
                   printable(fmt::format("{}", fmt::join(all.unused, ", ")))));
}

}  // namespace lpmm
