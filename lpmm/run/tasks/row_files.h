// How data of rows is read, conversations and pairs of answers: by which tokenizer, chat template and
// options.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lpmm/chat/template.h"
#include "lpmm/data/conversations/conversations.h"
#include "lpmm/data/tokenizer.h"
#include "lpmm/run/config.h"

namespace lpmm {

struct RowFiles {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::optional<chat::Template> chat_template;
  ConversationOptions options;

  const chat::Template* used() const { return chat_template ? &*chat_template : nullptr; }
};

// As the configuration says, with the tokenizer `own` where it is not null. Throws UsageError for keys that
// such data does not have.
RowFiles open_row_files(const RunConfig& config, std::unique_ptr<Tokenizer> own);
// The checksum of the template and the other one for tools; 0: there is none.
std::uint32_t template_checksum(const chat::Template* chat_template);
// The path of files that are there. Throws RunError.
std::string find_row_files(const std::string& path);
// Says what of the files is not learnt from, of which `things`.
void tell_rest(const std::string& path, const ReadCounts& all, std::string_view empty);

}  // namespace lpmm
