// `lpmm chat` and the options of `lpmm sample`, as a user types them.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/experiments/talking.h"

namespace lpmm {
namespace {
using nlohmann::json;

class Chat : public TalkingTest {
 protected:
  Outcome chat(const std::string& questions, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"chat",          path("mine"), "--file",   write("questions", questions),
                                    "--temperature", "0",          "--tokens", "12"};
    all.insert(all.end(), more.begin(), more.end());
    return run_lpmm(all);
  }
};

TEST_F(Chat, AnswersLinesAsOneConversation) {
  train_talker();
  const Outcome both = chat("say aa\r\n\nsay bbb\n", {"--json"});
  ASSERT_EQ(both.code, 0) << both.err;
  const json messages = both.json()["messages"];
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[0], json({{"role", "user"}, {"content", "say aa"}}));
  EXPECT_EQ(messages[3]["role"], "assistant");
  // The state kept from the first turn changes nothing: the same conversation is computed anew.
  json before = messages;
  before.erase(3);
  const Outcome again = chat(before.dump(), {"--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["messages"], messages);
  EXPECT_EQ(chat(json{{"messages", before}}.dump(), {"--json"}).out, again.out);
  // As text: an answer and a line end for each question.
  const Outcome text = chat("say aa\nsay bbb\n");
  EXPECT_EQ(text.out, messages[1]["content"].get<std::string>() + "\n" +
                          messages[3]["content"].get<std::string>() + "\n");
  EXPECT_EQ(messages[1]["content"].get<std::string>().find("<|im_end|>"), std::string::npos);
  const Outcome with_system = chat("say aa\n", {"--json", "--system", "Be brief."});
  EXPECT_EQ(with_system.json()["messages"][0], json({{"role", "system"}, {"content", "Be brief."}}));
}

TEST_F(Chat, SaysWhenTheContextIsFull) {
  train_talker();
  const Outcome full = chat("say aa\nsay bbb\nsay c\nsay aaaa\n", {"--json", "--context", "128"});
  ASSERT_EQ(full.code, 0) << full.err;
  EXPECT_NE(full.err.find("the context of 128 tokens is full: the oldest 2 messages are left out"),
            std::string::npos)
      << full.err;
  EXPECT_EQ(full.json()["messages"].back()["role"], "assistant");
  expect_failure(chat(std::string(200, 'a')), 1, {"context of 192", "it may take 180"});
}

TEST_F(Chat, WhatCannotBeAnsweredIsNamed) {
  train_talker();
  expect_failure(chat("[{\"role\": \"user\""), 1, {"questions", "begins as JSON"});
  expect_failure(chat("[1]"), 1, {"questions", "no list of messages"});
  expect_failure(chat(R"([{"role": "assistant", "content": "a"}])"), 1, {"last message is an answer"});
  expect_failure(
      chat(R"([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}])", {"--system", "c"}), 2,
      {"both have a system message"});
  expect_failure(chat("a\n", {"--context", "1000"}), 2, {"1000", "192"});
  expect_failure(chat("a\n", {"--template", "nosuch"}), 2, {"nosuch", "chatml"});
  expect_failure(run_lpmm({"chat", path("mine"), "--min-p", "2"}), 2, {"min_p is 2", "from 0 to 1"});
  expect_failure(run_lpmm({"sample", path("mine"), "--top-p", "-1"}), 2, {"top_p is -1", "from 0 to 1"});
  expect_failure(run_lpmm({"sample", path("mine"), "--repetition-penalty", "0"}), 2,
                 {"repetition_penalty is 0", "0.001"});
}

TEST_F(Chat, SampleEndsAtAStopTextAndAvoidsWhatItHas) {
  train_talker();
  const auto sample = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"sample", path("mine"), "--prompt", "say abc", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run_lpmm(all);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.json();
  };
  const std::string whole = sample({"--tokens", "40", "--temperature", "0"})["text"];
  ASSERT_GT(whole.size(), 12U);
  const std::string stop = whole.substr(8, 2);
  EXPECT_EQ(sample({"--tokens", "40", "--temperature", "0", "--stop", stop, "--stop", "nosuch text"})["text"],
            whole.substr(0, whole.find(stop)));
  EXPECT_EQ(sample({"--tokens", "40", "--top-k", "1"})["text"], whole);
  EXPECT_EQ(sample({"--tokens", "40", "--min-p", "1"})["text"], whole);
  EXPECT_NE(sample({"--tokens", "40", "--temperature", "0", "--repetition-penalty", "1.5"})["text"], whole);
}

TEST_F(Chat, ARunKeepsTheTemplateThatItWasTrainedWith) {
  train_talker();
  const auto shown_of = [&](const std::string& run) {
    const Outcome shown = run_lpmm({"data", "show", path("my.jsonl"), "--init", path(run), "--json"});
    EXPECT_EQ(shown.code, 0) << shown.err;
    return shown.json()["conversations"][0]["text"].get<std::string>();
  };
  const auto train_on = [&](const std::string& run, const std::string& from, const std::string& named) {
    const Outcome trained = run_lpmm({"train", path("mine.toml"), "--preset", "fp32", "--init", path(from),
                                      "--set", "data.template='" + named + "'", "--out", path(run)});
    EXPECT_EQ(trained.code, 0) << trained.err;
    return trained.err;
  };
  const std::string chatml = "<|im_start|>user\nsay aa<|im_end|>\n<|im_start|>assistant\naa<|im_end|>\n";
  EXPECT_EQ(shown_of("mine"), chatml);
  EXPECT_NE(train_on("next", "mine", "").find("are rendered by "), std::string::npos);
  EXPECT_EQ(shown_of("next"), chatml);
  const std::string own = "{% for m in messages %}[{{ m.content }}]{% endfor %}";
  train_on("other", "next", write("own.jinja", own));
  std::filesystem::remove(path("own.jinja"));
  std::filesystem::remove_all(path("next"));
  EXPECT_EQ(shown_of("other"), "[say aa][aa]");
  const Outcome asked = run_lpmm({"chat", path("other"), "--file", write("questions", "say aa\n")});
  EXPECT_EQ(asked.code, 0) << asked.err;
  const Outcome tested = run_lpmm({"eval", path("other")});
  EXPECT_EQ(tested.code, 0) << tested.err;
  ASSERT_EQ(run_lpmm({"export", path("other"), "--hf", "--out", path("hf")}).code, 0);
  EXPECT_EQ(read_file(path("hf/chat_template.jinja")), own);
  ASSERT_EQ(run_lpmm({"export", path("other"), "--gguf", "--out", path("other.gguf")}).code, 0);
  EXPECT_NE(read_file(path("other.gguf")).find(own), std::string::npos);
}

// Runs the program at a terminal, where Ctrl-C is typed.
class Terminal {
 public:
  explicit Terminal(std::vector<std::string> arguments) {
    process_ = forkpty(&end_, nullptr, nullptr, nullptr);
    if (process_ != 0) return;
    arguments.insert(arguments.begin(), LPMM_PROGRAM);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(LPMM_PROGRAM, argv.data());
    _exit(98);
  }
  ~Terminal() { close(end_); }
  void type(const std::string& text) const {
    EXPECT_EQ(write(end_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // All that appears up to `text`, or to the end.
  std::string read_until(const std::string& text) const {
    std::string said;
    for (char c = 0; !said.ends_with(text) && (c = next()) != '\0';) said += c;
    return said;
  }
  char next() const {
    char c = 0;
    return read(end_, &c, 1) == 1 ? c : '\0';
  }
  int wait() const {
    int status = 0;
    waitpid(process_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  int end_ = -1;
  pid_t process_ = -1;
};

TEST_F(Chat, AtATerminalCtrlCStopsAnAnswerAndThenTheProgram) {
  train_talker(1 << 15);
  // Nothing ends an answer of this template.
  const std::string endless =
      write("endless.jinja", "{% for m in messages %}{{ m.content + '\n' }}{% endfor %}");
  const Terminal terminal({"chat", path("mine"), "--tokens", "30000", "--context", "32768", "--temperature",
                           "0", "--template", endless});
  EXPECT_NE(terminal.read_until("> ").find("/reset"), std::string::npos);
  terminal.type("say aa\n");
  terminal.read_until("say aa\r\n");
  EXPECT_NE(terminal.next(), '\0');  // it writes
  terminal.type("\x03");
  EXPECT_NE(terminal.read_until("\r\n> "), "");
  terminal.type("/nosuch\n");
  EXPECT_NE(terminal.read_until("\n> ").find("there are /reset and /exit"), std::string::npos);
  terminal.type("/reset\n");
  terminal.read_until("> ");
  terminal.type("\x03");
  EXPECT_EQ(terminal.wait(), 130);
}

}  // namespace
}  // namespace lpmm
