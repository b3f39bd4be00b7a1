// `lpmm data show`: conversations, or pairs of answers, as a model reads them, before they are trained on.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "experiments/commands/arguments.h"
#include "experiments/commands/runs/loaded_model.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/terminal.h"
#include "lpmm/data/conversations/chat_templates.h"
#include "lpmm/data/conversations/conversations.h"
#include "lpmm/data/preferences/preferences.h"
#include "lpmm/data/text_data.h"
#include "lpmm/files/files.h"
#include "lpmm/files/temporary_folder.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/setup.h"
#include "lpmm/run/tasks/tasks.h"
#include "models/families.h"

namespace lpmm {
namespace {

namespace fs = std::filesystem;

struct ShowArguments {
  std::string path, init, tokenizer, chat_template, set;
  ConversationOptions options;
  std::int64_t first = 1, count = 1;
  bool json = false;
};

// The tokenizer of a run or a folder, and the folder of its chat template.
struct Reads {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string folder;  // the folder of the model's files; empty if there is none
};

Reads reads_of(const ShowArguments& o) {
  if (!o.init.empty()) {
    const std::string checkpoint = find_checkpoint(o.init);
    const RunConfig config = load_config(config_beside(checkpoint), with_families({}));
    Reads reads{saved_tokenizer(checkpoint, config), model_files_of(checkpoint)};
    if (reads.tokenizer == nullptr) throw no_tokenizer(checkpoint);
    return reads;
  }
  if (o.tokenizer == "bytes") return {make_byte_tokenizer(), ""};
  if (o.tokenizer == kGpt2Tokenizer) return {load_gpt2_tokenizer(gpt2_folder({})), ""};
  const std::string files = find_tokenizer_files(o.tokenizer);
  const fs::path path(files);
  return {load_tokenizer(files), fs::is_directory(path) ? files : path.parent_path().string()};
}

// Rows are read twice, which standard input is not.
void keep_input(const std::string& path) {
  File kept(path, File::Mode::kNew);
  std::vector<char> piece(1 << 20);
  while (std::cin.read(piece.data(), std::ssize(piece)), std::cin.gcount() > 0) {
    kept.write(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(std::cin.gcount()))));
  }
}

std::string with_marks(const Document& document, const Tokenizer& tokenizer, bool colours) {
  std::string out;
  const std::span<const std::int32_t> ids(document.ids);
  for (std::size_t at = 0; at < ids.size();) {
    std::size_t end = at;
    while (end < ids.size() && document.learnt[end] == document.learnt[at]) ++end;
    const std::string text = printable(tokenizer.decode(ids.subspan(at, end - at), at == 0));
    const bool is_learnt = document.learnt[at] != 0;
    out += !is_learnt ? text : colours ? fmt::format("\x1b[32m{}\x1b[0m", text) : fmt::format("[[{}]]", text);
    at = end;
  }
  return out;
}

// A bar for each twentieth of the longest length.
std::string bars(const std::vector<std::int64_t>& sorted) {
  constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::size_t kColumns = 20, kHeights = 8;
  std::vector<std::size_t> counts(kColumns);
  const auto longest = static_cast<std::size_t>(sorted.back());
  for (const std::int64_t length : sorted) {
    ++counts[std::min(kColumns - 1, static_cast<std::size_t>(length) * kColumns / (longest + 1))];
  }
  const std::size_t most = std::ranges::max(counts);
  std::string out;
  for (const std::size_t count : counts) out += kBars[(count * kHeights + most - 1) / most];
  return out;
}

// What the files hold, and the rows that are shown, each of one document or of both answers.
struct Shown {
  ReadCounts counts;
  std::vector<Document> documents;
  std::vector<std::vector<ShownConversation>> rows;
  bool has_pairs = false;
};

Shown read_to_show(const ShowArguments& o, const Tokenizer& tokenizer, const chat::Template* used) {
  Shown shown;
  shown.has_pairs =
      o.set.empty() ? o.options.columns.empty() && holds_preferences(o.path) : o.set == kPreferenceSet.name;
  if (!shown.has_pairs) {
    ReadConversations all = read_conversations(o.path, tokenizer, used, o.options);
    shown.counts = all;
    shown.documents = std::move(all.documents);
    for (auto& one : show_conversations(o.path, tokenizer, used, o.options, o.first - 1, o.count)) {
      shown.rows.push_back({std::move(one)});
    }
    return shown;
  }
  if (o.options.loss != kLossAnswers) throw UsageError("--loss: of pairs of answers only these are learnt");
  ReadPreferences all = read_preferences(o.path, tokenizer, used, o.options);
  shown.counts = all;
  shown.documents = std::move(all.documents);
  for (auto& one : show_preferences(o.path, tokenizer, used, o.options, o.first - 1, o.count)) {
    shown.rows.push_back({std::move(one.chosen), std::move(one.rejected)});
  }
  return shown;
}

nlohmann::ordered_json counts_of(const Shown& all, const std::vector<std::int64_t>& lengths) {
  const auto at = [&](double share) {
    return lengths.empty()
               ? 0
               : lengths[static_cast<std::size_t>(share * static_cast<double>(lengths.size() - 1))];
  };
  const ReadCounts& c = all.counts;
  nlohmann::ordered_json counts = {{"read", c.read}, {"documents", all.documents.size()}};
  if (all.has_pairs) counts["pairs"] = all.documents.size() / 2;
  counts.update({{"broken", c.broken},
                 {"empty", c.empty},
                 {"tokens", c.tokens},
                 {"learnt", c.learnt},
                 {"median_length", at(0.5)},
                 {"length_95", at(0.95)},
                 {"longest", at(1)},
                 {"unused_columns", c.unused},
                 {"reasons", c.reasons}});
  return counts;
}

void print_counts(const Shown& shown, const std::vector<std::int64_t>& lengths) {
  const nlohmann::ordered_json counts = counts_of(shown, lengths);
  const ReadCounts& all = shown.counts;
  const std::string what = shown.has_pairs ? fmt::format("{} pairs of answers", shown.documents.size() / 2)
                                           : fmt::format("{} documents", shown.documents.size());
  fmt::print(
      "{} rows: {}, {} empty, {} broken\n{} tokens, {} of them learnt ({:.1f} %)\n", all.read, what,
      all.empty, all.broken, all.tokens, all.learnt,
      100 * static_cast<double>(all.learnt) / static_cast<double>(std::max<std::int64_t>(1, all.tokens)));
  if (!lengths.empty()) {
    fmt::print("tokens of a document: half up to {}, 95 % up to {}, longest {}   0 |{}| {}\n",
               counts["median_length"].dump(), counts["length_95"].dump(), lengths.back(), bars(lengths),
               lengths.back());
  }
  if (!all.unused.empty())
    fmt::print("columns that are not read: {}\n", printable(fmt::format("{}", fmt::join(all.unused, ", "))));
  for (const std::string& reason : all.reasons) fmt::print("broken: {}\n", printable(reason));
}

nlohmann::ordered_json json_of(const ShownConversation& one) {
  return {
      {"place", one.place}, {"text", one.text}, {"ids", one.document.ids}, {"learnt", one.document.learnt}};
}

int run_show(const ShowArguments& o) {
  if (!o.init.empty() && !o.tokenizer.empty())
    throw UsageError("--init and --tokenizer both say how a text is read");
  ShowArguments given = o;
  if (given.tokenizer.empty()) given.tokenizer = "bytes";
  std::optional<TemporaryFolder> input;
  if (o.path == "-") {
    given.path = input.emplace("input") / "rows.jsonl";
    keep_input(given.path);
  }
  const Reads reads = reads_of(given);
  const std::optional<chat::Template> chat_template = find_template(o.chat_template, reads.folder);
  const chat::Template* used = chat_template ? &*chat_template : nullptr;
  const Shown all = read_to_show(given, *reads.tokenizer, used);
  std::vector<std::int64_t> lengths;
  for (const Document& document : all.documents) lengths.push_back(std::ssize(document.ids));
  std::ranges::sort(lengths);
  if (o.json) {
    nlohmann::ordered_json shown = nlohmann::ordered_json::array();
    for (const auto& row : all.rows) {
      shown.push_back(!all.has_pairs ? json_of(row[0])
                                     : nlohmann::ordered_json{{"chosen", json_of(row[0])},
                                                              {"rejected", json_of(row[1])}});
    }
    nlohmann::ordered_json answer = counts_of(all, lengths);
    answer["template"] = used == nullptr ? "" : used->name();
    answer[all.has_pairs ? "preferences" : "conversations"] = std::move(shown);
    print_answer(answer, true);
    return kDone;
  }
  print_counts(all, lengths);
  fmt::print("template: {}\n", used == nullptr ? "none" : printable(used->name()));
  const bool colours = isatty(STDOUT_FILENO) != 0;
  for (const auto& row : all.rows) {
    for (const ShownConversation& one : row) {
      const char* which = !all.has_pairs ? "" : &one == row.data() ? "chosen, " : "rejected, ";
      fmt::print("\n{}: {}{} tokens, {} of them learnt, {}\n{}\n", printable(one.place), which,
                 one.document.ids.size(), std::ranges::count(one.document.learnt, 1),
                 colours ? "in green" : "in [[ ]]", with_marks(one.document, *reads.tokenizer, colours));
    }
  }
  return kDone;
}

}  // namespace

void add_data_show_command(CLI::App& data, Action& action) {
  auto o = std::make_shared<ShowArguments>();
  CLI::App* command = data.add_subcommand(
      "show",
      "Show conversations, or pairs of answers, as a model reads them, and which tokens are "
      "learnt");
  command
      ->add_option("FILE", o->path,
                   "conversations or pairs of answers: .jsonl, .json, .csv, .tsv, also as .gz, or a folder "
                   "of them; - for JSON lines from standard input")
      ->required();
  command
      ->add_option("--set", o->set,
                   "what it holds, as data.set: conversations or preferences (default: as its first row)")
      ->check(CLI::IsMember({kConversationSet.name, kPreferenceSet.name}));
  command->add_option("--init", o->init, "run or checkpoint whose tokenizer and chat template are taken")
      ->check(kNotEmpty)
      ->type_name("RUN");
  command
      ->add_option("--tokenizer", o->tokenizer,
                   "in place of --init: bytes, gpt2, or a file or folder of a tokenizer (default: bytes)")
      ->check(kNotEmpty);
  command
      ->add_option(
          "--template", o->chat_template,
          fmt::format("chat template: a .jinja file, a model's folder, or {} (default: the model's own)",
                      fmt::join(chat_template_names(), ", ")))
      ->check(kNotEmpty);
  command
      ->add_option("--columns", o->options.columns,
                   "columns of other names: MESSAGES, or QUESTION,ANSWER; with --set preferences "
                   "PROMPT,CHOSEN,REJECTED")
      ->check(kNotEmpty);
  command->add_option("--loss", o->options.loss, "what is learnt: answers, all, or the last answer")
      ->check(CLI::IsMember({kLossAnswers, kLossAll, kLossLast}))
      ->capture_default_str();
  command->add_flag("--skip-broken", o->options.skip_broken,
                    "leave out rows that cannot be read, and count them");
  command->add_option("--first", o->first, "row to begin with, from 1")
      ->check(CLI::Range(1, 1 << 30).description(""))
      ->capture_default_str();
  command->add_option("--count", o->count, "rows to show; 0: only counts")
      ->check(CLI::Range(0, 1 << 30).description(""))
      ->capture_default_str();
  command->add_flag("--json", o->json,
                    "print one JSON object: counts, and text, ids and learnt of each shown row");
  command->footer(
      R"(A row is {"messages": [{"role", "content"}...]}, ShareGPT's {"conversations": [{"from", "value"}...]},
Alpaca's {"instruction", "input", "output"}, {"prompt", "completion"} or {"text"}; "tools" and "system" beside them. Of pairs
of answers it is {"prompt", "chosen", "rejected"}, texts or lists of messages; or "conversations" in place of "prompt".
Examples:
  lpmm data show my.jsonl --init runs/base
  lpmm data show my.jsonl --tokenizer Qwen3-0.6B/ --first 10 --count 3
  lpmm data show my.jsonl --template chatml --count 0)");
  on_selected(*command, action, o, run_show);
}

}  // namespace lpmm
