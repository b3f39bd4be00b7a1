// `lpmm chat`: a conversation with a model.
#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>

#include "experiments/commands/arguments.h"
#include "experiments/commands/text/chat_format.h"
#include "experiments/commands/text/sampling_options.h"
#include "lpmm/base/error.h"
#include "lpmm/base/exit_code.h"
#include "lpmm/base/interrupt.h"
#include "lpmm/base/terminal.h"
#include "lpmm/base/text.h"
#include "lpmm/files/files.h"

namespace lpmm {
namespace {

constexpr std::int64_t kMostQuestionBytes = 16 << 20;  // all questions that are read at once

struct ChatArguments {
  std::string path, chat_template, system, file;
  WriteOptions write{.tokens = 1024};
  std::optional<std::int64_t> context;
  int threads = 0;
  bool average = false, json = false;
};

class Conversing {
 public:
  Conversing(TextWriter& writer, const ChatFormat& format, const ChatArguments& o)
      : writer_(writer), format_(format), options_(o.write), system_(o.system), is_shown_(!o.json) {
    options_.begins = true;
    options_.stops.insert(options_.stops.end(), format.stops().begin(), format.stops().end());
    reset();
  }
  void reset() {
    messages_ = Json::array();
    if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
  }
  const Json& messages() const { return messages_; }
  void add(Json messages) {
    for (Json& one : messages) messages_.push_back(std::move(one));
  }
  // Throws what the template and the tokenizer say of it, and leaves the question out then.
  void ask(const std::string& question) {
    Json before = messages_;
    messages_.push_back({{"role", "user"}, {"content", question}});
    try {
      answer();
    } catch (...) {
      messages_ = std::move(before);
      throw;
    }
  }
  // Writes the answer to the last message. An interrupt ends it; what is there by then is kept.
  void answer() {
    const std::vector<std::int32_t> prompt = fitting_prompt();
    const Written written = writer_.write(
        prompt, options_,
        [&](const WrittenToken& token) {
          show(printable(token.text));
          return !InterruptGuard::asked();
        },
        [] { return !InterruptGuard::asked(); });
    show("\n");
    if (written.ended == Ended::kContext) {
      tell(fmt::format("the answer ends here: the context of {} tokens is full\n", writer_.context()));
    }
    if (written.ended == Ended::kTokens) {
      tell(fmt::format("the answer ends here: it has {} tokens (--tokens)\n", options_.tokens));
    }
    messages_.push_back({{"role", "assistant"}, {"content", written.text}});
  }

 private:
  void show(const std::string& text) const {
    if (!is_shown_) return;
    fmt::print("{}", text);
    flush_output();
  }
  // Leaves out the oldest turns until a quarter of the context, or --tokens, is left for the answer.
  std::vector<std::int32_t> fitting_prompt() {
    const std::int64_t most = writer_.context() - std::min(options_.tokens, writer_.context() / 4);
    std::vector<std::int32_t> prompt = format_.prompt(messages_);
    const std::size_t first = !messages_.empty() && messages_[0]["role"] == "system" ? 1 : 0;
    std::size_t left_out = 0;
    const auto erase = [&] {
      messages_.erase(first);
      ++left_out;
    };
    while (std::ssize(prompt) > most && messages_.size() > first + 1) {
      erase();
      while (messages_.size() > first + 1 && messages_[first]["role"] != "user") erase();
      prompt = format_.prompt(messages_);
    }
    if (left_out > 0) {
      tell(fmt::format("the context of {} tokens is full: the oldest {} messages are left out\n",
                       writer_.context(), left_out));
    }
    if (std::ssize(prompt) > most) {
      throw RunError(fmt::format(
          "the question has {} tokens with what the template adds; of a context of {} it may take {}",
          prompt.size(), writer_.context(), most));
    }
    return prompt;
  }

  TextWriter& writer_;
  const ChatFormat& format_;
  WriteOptions options_;
  std::string system_;
  bool is_shown_;
  Json messages_;
};

// The messages of a text that begins as JSON; nothing where it does not.
std::optional<Json> messages_in(const std::string& text, const std::string& name) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || (text[first] != '[' && text[first] != '{')) return std::nullopt;
  Json said;
  try {
    said = parse_json(text);
  } catch (const std::exception& error) {
    throw RunError(fmt::format("{}: begins as JSON does, but is none: {}", name, error.what()));
  }
  if (said.is_object() && said.contains("messages")) said = Json(said["messages"]);
  const auto is_text = [](const Json& one, const char* key) {
    return one.contains(key) && one[key].is_string();
  };
  const auto is_message = [&](const Json& one) {
    return one.is_object() && is_text(one, "role") && is_text(one, "content");
  };
  if (!said.is_array() || said.empty() || !std::all_of(said.begin(), said.end(), is_message)) {
    throw RunError(
        fmt::format("{}: is no list of messages, [{{\"role\": \"user\", \"content\": \"...\"}}]", name));
  }
  if (said.back()["role"] == "assistant") {
    throw RunError(fmt::format("{}: its last message is an answer; there is nothing to answer", name));
  }
  return said;
}

// Answers the messages or questions that a file or another program gives.
void converse_with_text(Conversing& conversing, const std::string& text, const std::string& name,
                        const ChatArguments& o) {
  const InterruptGuard guard;
  if (std::optional<Json> messages = messages_in(text, name)) {
    if (!o.system.empty() && messages->front()["role"] == "system") {
      throw UsageError(fmt::format("--system and {} both have a system message", name));
    }
    conversing.add(*std::move(messages));
    conversing.answer();
  } else {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (line.empty()) continue;
      conversing.ask(line);
      InterruptGuard::check();
    }
  }
  InterruptGuard::check();
  if (o.json) print_answer({{"messages", conversing.messages()}}, true);
}

std::string whole_input() {
  std::string text;
  for (char c = 0; std::cin.get(c);) {
    if (std::ssize(text) >= kMostQuestionBytes) {
      throw UsageError(fmt::format("standard input has more than {} bytes", kMostQuestionBytes));
    }
    text += c;
  }
  return text;
}

void converse_at_terminal(Conversing& conversing) {
  tell("Ctrl-C stops an answer, at the prompt it ends; /reset begins anew, /exit ends\n");
  for (std::string line; tell("> "), std::getline(std::cin, line);) {
    if (line == "/exit") return;
    if (line == "/reset") {
      conversing.reset();
      continue;
    }
    if (line.starts_with('/')) {
      tell(fmt::format("{}: there are /reset and /exit; begin with a space to ask it\n", printable(line)));
      continue;
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const InterruptGuard guard;
    try {
      conversing.ask(line);
    } catch (const RunError& error) {
      tell(fmt::format("{}\n", printable(error.what())));
    } catch (const UsageError& error) {
      tell(fmt::format("{}\n", printable(error.what())));
    }
  }
  fmt::print("\n");
}

int run_chat(const ChatArguments& o) {
  check_sampling(o.write.sampling);
  const bool is_terminal = o.file.empty() && isatty(STDIN_FILENO) != 0;
  if (o.json && is_terminal) throw UsageError("--json is for questions from --file or standard input");
  TextWriter writer(o.path, o.threads, o.context, o.average);
  const std::optional<ChatFormat> format = chat_format_of(writer, o.chat_template);
  if (!format) {
    throw UsageError(
        fmt::format("{}: has no chat template; name one by --template, as chatml, or let it go on with a "
                    "text by `lpmm sample`",
                    o.path));
  }
  Conversing conversing(writer, *format, o);
  if (is_terminal) {
    converse_at_terminal(conversing);
  } else if (o.file.empty()) {
    converse_with_text(conversing, whole_input(), "standard input", o);
  } else {
    converse_with_text(conversing, read_text(o.file, kMostQuestionBytes), o.file, o);
  }
  return kDone;
}

}  // namespace

void add_chat_command(CLI::App& program, Action& action) {
  auto o = std::make_shared<ChatArguments>();
  CLI::App* command = program.add_subcommand("chat", "Talk to a model of conversations");
  command->add_option("PATH", o->path, "a run's folder, its checkpoints folder or one checkpoint")
      ->required();
  command->add_option("--system", o->system, "message that comes before the conversation")->check(kNotEmpty);
  command
      ->add_option("--file", o->file,
                   "questions, one in each line, or JSON: messages, of which the last one "
                   "is answered (default: standard input)")
      ->check(kNotEmpty);
  add_template_option(*command, o->chat_template);
  command->add_option("--tokens", o->write.tokens, "of an answer at most")
      ->check(CLI::Range(1, 100000000).description(""))
      ->capture_default_str();
  add_context_option(*command, o->context);
  add_sampling_options(*command, o->write);
  add_average_option(*command, o->average);
  add_threads_option(*command, o->threads);
  command->add_flag("--json", o->json, "print one JSON object at the end: the messages");
  command->footer(
      R"(Answers appear as they are written, control characters as \xNN. At a terminal Ctrl-C stops an answer
and keeps what was said; at the prompt it ends the program, as /exit does. /reset begins anew. Where the
context is full, the oldest turns are left out, and it says so. Tokens are drawn as by `lpmm sample`.
Examples:
  lpmm chat runs/mine --system "You answer in one sentence."
  echo "What is a prime number?" | lpmm chat runs/mine --temperature 0)");
  on_selected(*command, action, o, run_chat);
}

}  // namespace lpmm
