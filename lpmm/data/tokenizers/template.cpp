#include "lpmm/data/tokenizers/template.h"

#include <fmt/format.h>

#include <algorithm>

#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

using Item = SentenceTemplate::Item;
Item special(std::int32_t id, std::int32_t type = 0) {
  return {{id}, 0, type};
}

Item sentence(int which, std::int32_t type) {
  return {{}, which, type};
}

std::vector<Item> read_items(const Part& part, const char* key) {
  std::vector<Item> items;
  bool seen[2] = {};
  for (const Part& one : part.list(key)) {
    const bool is_sentence = one.has("Sequence");
    const Part body = one.at(is_sentence ? "Sequence" : "SpecialToken");
    Item item;
    item.type = static_cast<std::int32_t>(body.integer("type_id", 0, 1 << 16, 0));
    const std::string id = body.text("id");
    if (is_sentence) {
      if (id != "A" && id != "B") throw body.refusal(fmt::format("{} is neither A nor B", shown(id)));
      item.sentence = id == "B" ? 1 : 0;
      if (seen[item.sentence]) throw body.refusal("comes twice");
      seen[item.sentence] = true;
    } else {
      const Part token = part.at("special_tokens").at(id.c_str());
      item.ids = token.ids("ids");
    }
    items.push_back(std::move(item));
  }
  const bool pair = std::string_view(key) == "pair";
  if (!seen[0] || seen[1] != pair) {
    throw part.refusal(fmt::format("{} has not the sentence{}", key, pair ? "s A and B" : " A alone"));
  }
  return items;
}

// Reduces the numbers of ids of two sentences until both fit into `room`.
void shorten(std::size_t& first, std::size_t& second, std::size_t room) {
  if (first + second <= room) return;
  std::size_t& shorter = first <= second ? first : second;
  std::size_t& longer = first <= second ? second : first;
  longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = room - room / 2;
  }
}

}  // namespace

SentenceTemplate::SentenceTemplate() : single_{sentence(0, 0)}, pair_{sentence(0, 0), sentence(1, 1)} {}

SentenceTemplate::SentenceTemplate(const Part& file) : SentenceTemplate() {
  if (file.has("post_processor")) read(file.at("post_processor"));
}

SentenceTemplate SentenceTemplate::bert(std::int32_t cls, std::int32_t sep) {
  SentenceTemplate made;
  made.single_ = {special(cls), sentence(0, 0), special(sep)};
  made.pair_ = {special(cls), sentence(0, 0), special(sep), sentence(1, 1), special(sep, 1)};
  return made;
}

void SentenceTemplate::read(const Part& part) {
  constexpr std::string_view kKnown[] = {"TemplateProcessing", "BertProcessing", "RobertaProcessing",
                                         "ByteLevel", "Sequence"};
  const std::string type = part.text("type");
  if (type == "ByteLevel") return;  // mends offsets, which are not kept here
  if (type == "TemplateProcessing") {
    single_ = read_items(part, "single");
    pair_ = read_items(part, "pair");
  } else if (type == "BertProcessing") {
    *this = bert(part.named_id("cls"), part.named_id("sep"));
  } else if (type == "RobertaProcessing") {
    const Item cls = special(part.named_id("cls")), sep = special(part.named_id("sep"));
    single_ = {cls, sentence(0, 0), sep};
    pair_ = {cls, sentence(0, 0), sep, sep, sentence(1, 0), sep};
  } else if (type == "Sequence") {
    bool filled = false;
    for (const Part& one : part.list("processors")) {
      if (one.text("type") == "ByteLevel") continue;
      if (filled) throw one.refusal("a second one that adds tokens is not supported");
      read(one);
      filled = true;
    }
  } else {
    throw unsupported(part, "post-processor", type, kKnown);
  }
}

std::vector<std::int32_t> SentenceTemplate::before() const {
  std::vector<std::int32_t> before;
  for (std::size_t i = 0; !single_[i].ids.empty(); ++i) {
    before.insert(before.end(), single_[i].ids.begin(), single_[i].ids.end());
  }
  return before;
}

std::int32_t SentenceTemplate::largest() const {
  std::int32_t most = -1;
  for (const auto* items : {&single_, &pair_}) {
    for (const Item& item : *items) {
      for (const std::int32_t id : item.ids) most = std::max(most, id);
    }
  }
  return most;
}

Sentences SentenceTemplate::fill(std::vector<std::int32_t> first,
                                 std::optional<std::vector<std::int32_t>> second, std::size_t longest) const {
  const std::vector<Item>& items = second ? pair_ : single_;
  std::size_t added = 0;
  for (const Item& item : items) added += item.ids.size();
  std::vector<std::int32_t> sentences[] = {std::move(first),
                                           second ? std::move(*second) : std::vector<std::int32_t>()};
  Sentences out;
  if (longest > 0) {
    if (added > longest) {
      throw UsageError(fmt::format("{} ids hold no sentence: {} go into what is around it", longest, added));
    }
    std::size_t kept[] = {sentences[0].size(), sentences[1].size()};
    if (second) {
      shorten(kept[0], kept[1], longest - added);
    } else {
      kept[0] = std::min(kept[0], longest - added);
    }
    for (const int i : {0, 1}) {
      out.is_cut = out.is_cut || kept[i] < sentences[i].size();
      sentences[i].resize(kept[i]);
    }
  }
  for (const Item& item : items) {
    const std::vector<std::int32_t>& ids = item.ids.empty() ? sentences[item.sentence] : item.ids;
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.types.resize(out.ids.size(), item.type);
  }
  return out;
}

}  // namespace lpmm
