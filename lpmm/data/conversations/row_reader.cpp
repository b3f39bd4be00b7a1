#include "lpmm/data/conversations/row_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "lpmm/base/error.h"
#include "lpmm/data/conversations/marks.h"
#include "lpmm/data/table.h"

namespace lpmm {
namespace {

// No row is at fault, but the model.
class NoTemplate : public UsageError {
 public:
  using UsageError::UsageError;
};

Document tokens_of(const MarkedText& marked_text, const Tokenizer& tokenizer) {
  Document document;
  document.ids = tokenizer.encode(marked_text.text);
  const std::vector<std::size_t> ends = token_ends(marked_text.text, document.ids, tokenizer);
  document.learnt = learnt_tokens(marked_text, document.ids, ends, tokenizer);
  return document;
}

// A text, or a prompt with its completion: no template, but what the tokenizer has around texts.
Document plain(const MarkedText& text, const Tokenizer& tokenizer) {
  Document document = tokens_of(text, tokenizer);
  const std::vector<std::int32_t> before = tokenizer.before_text();
  const bool is_first_predicted = !before.empty() && text.spans[0].first == 0 && !document.ids.empty();
  if (is_first_predicted) document.learnt[0] = 1;
  document.ids.insert(document.ids.begin(), before.begin(), before.end());
  document.learnt.insert(document.learnt.begin(), before.size(), 0);
  if (const auto end = tokenizer.end_of_text()) {
    document.ids.push_back(*end);
    document.learnt.push_back(1);
  }
  return document;
}

}  // namespace

std::vector<std::string> named_columns(const std::string& columns, std::size_t least, std::size_t most,
                                       std::string_view usage) {
  if (columns.empty()) return {};
  std::vector<std::string> names = split_columns(columns);
  const bool is_so_many = names.size() >= least && names.size() <= most;
  if (is_so_many && std::ranges::find(names, "") == names.end()) return names;
  throw UsageError(fmt::format("data.columns = \"{}\"; {}", columns, usage));
}

void RowReader::read(const std::string& path, std::int64_t first, ReadCounts& counts,
                     const MakeRow& make) const {
  bool goes_on = true;
  const auto read_row = [&](const std::string& place, const Json& row) {
    std::string why;
    std::function<bool()> made;
    try {
      made = make(place, row);
    } catch (const NoTemplate& e) {
      throw UsageError(fmt::format("{}: {}", place, e.what()));
    } catch (const RunError& e) {
      why = fmt::format("{}: {}", place, e.what());
    } catch (const UsageError& e) {
      why = fmt::format("{}: {}", place, e.what());
    }
    if (made) return made();
    if (!options_.skip_broken) {
      throw RunError(fmt::format("{}; {}", why, kSkipRows));
    }
    ++counts.broken;
    if (counts.reasons.size() < kMostReasons) counts.reasons.push_back(why);
    return true;
  };
  const std::vector<std::string> files = conversation_files(path);
  tell_test_files(path, files);
  for (const std::string& file : files) {
    if (!goes_on) return;
    for_each_row(file, [&](const std::string& place, const Json& row) {
      if (counts.read++ < first) return true;
      goes_on = read_row(fmt::format("{}: {}", file, place), row);
      return goes_on;
    });
  }
  if (counts.broken == counts.read && counts.read > 0) {
    throw RunError(fmt::format("no row can be read as {}; {}", made_, counts.reasons[0]));
  }
}

ShownConversation RowReader::document(const Conversation& one, const std::string& place) const {
  if (one.messages.is_null()) {
    const std::string text = one.prompt + one.completion;
    const std::size_t first = options_.loss == kLossAll ? 0 : one.prompt.size();
    return {text, plain({text, {{first, text.size()}}}, tokenizer_), place};
  }
  if (template_ == nullptr) {
    throw NoTemplate(
        "the model has no chat template, which makes a text of messages; name one, as data.template = "
        "\"chatml\"");
  }
  MarkedText text = marked(one, *template_, options_);
  Document document = tokens_of(text, tokenizer_);
  return {std::move(text.text), std::move(document), place};
}

}  // namespace lpmm
