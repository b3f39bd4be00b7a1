// Files of conversations: what is read, what is learnt, and what is refused.
#include "lpmm/data/conversations/conversations.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/conversations/chat_templates.h"
#include "lpmm/data/conversations/marks.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/data/learnt_text.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

constexpr const char* kTurn =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo é"}]})";
constexpr const char* kTwoTurns =
    R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})";
// Says nothing of what it writes; what was thought is left out before another question.
constexpr const char* kUnmarked = R"({%- set ns = namespace(last=0) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}<{{ m.role }}>
{%- if m.reasoning_content and loop.index0 > ns.last %}({{ m.reasoning_content }}){% endif %}
{{- m.content | trim }}</>
{%- endfor %}{% if add_generation_prompt %}<assistant>{% endif %})";

class ConversationsTest : public testing::Test {
 protected:
  std::string written(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  ReadConversations read(const std::string& text, const std::string& name = "a.jsonl") const {
    return read_conversations(written(name, text), *bytes_, &template_, options_);
  }
  // What is learnt of each document, with a | after each run of tokens.
  std::string learnt(const std::string& text, const std::string& name = "a.jsonl") const {
    return learnt_text(read(text, name).documents);
  }
  std::string text_of(const std::string& row) const {
    return show_conversations(written("a.jsonl", row), *bytes_, &template_, options_, 0, 1).at(0).text;
  }
  void expect_refused(const std::string& text, const std::string& part, const std::string& name = "a.jsonl") {
    const std::string why = said([&] { read(text, name); });
    EXPECT_NE(why.find(part), std::string::npos) << why;
  }

  Scratch folder_;
  std::unique_ptr<Tokenizer> bytes_ = make_byte_tokenizer();
  chat::Template template_ = *find_template("chatml", "");
  ConversationOptions options_;
};

TEST_F(ConversationsTest, EveryUsualShapeIsOneConversation) {
  EXPECT_EQ(text_of(kTurn), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo é<|im_end|>\n");
  const std::string made = text_of(kTurn);
  EXPECT_EQ(
      text_of(R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo é"}]})"),
      made);
  EXPECT_EQ(text_of(R"({"instruction": "Hi", "input": "", "output": "Yo é"})"), made);
  EXPECT_EQ(
      text_of(
          R"({"prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant", "content": [{"type": "text", "text": "Yo "}, {"type": "text", "value": "é"}]}]})"),
      made);
}

TEST_F(ConversationsTest, AnswersAreLearntAndNothingElse) {
  EXPECT_EQ(learnt(kTwoTurns), "b<|im_end|>|d<|im_end|>|");
  options_.loss = "last";
  EXPECT_EQ(learnt(kTwoTurns), "d<|im_end|>|");
  options_.loss = "all";
  EXPECT_EQ(learnt(kTurn), text_of(kTurn).substr(1) + "|");
  options_.loss = "some";
  EXPECT_THROW(read(kTurn), UsageError);
}

TEST_F(ConversationsTest, WithoutGenerationBlocksPrefixesTell) {
  template_ = chat::Template(kUnmarked, "T");
  EXPECT_EQ(learnt(kTwoTurns), "b</>|d</>|");
  // The first answer's thoughts are not in the text; as the last message they would be.
  EXPECT_EQ(
      learnt(
          R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "thinking": "t"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d", "reasoning_content": "u"}]})"),
      "b</>|(u)d</>|");
  // Calls between, which are rendered with their thoughts as long as they are the last ones.
  template_ = chat::Template(std::string(kUnmarked).replace(std::string(kUnmarked).find("</>"), 3,
                                                            "{{ m.tool_calls | tojson if m.tool_calls }}</>"),
                             "T");
  EXPECT_EQ(
      learnt(
          R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "thinking": "t", "tool_calls": [{"name": "f"}]}, {"role": "tool", "content": "7"}, {"role": "assistant", "content": "b", "thinking": "t"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})"),
      R"([{"type": "function", "function": {"name": "f"}}]</>|b</>|d</>|)");
  template_ = chat::Template(kUnmarked, "T");
  options_.loss = "last";
  EXPECT_EQ(learnt(kTwoTurns), "d</>|");
  expect_refused(R"({"messages": [{"role": "assistant", "content": "b"}]})", "line 1: begins with an answer");
}

TEST_F(ConversationsTest, WeightsLeaveAnswersOut) {
  const std::string row =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0}, {"role": "user", "content": "c", "loss_weight": 0.0}, {"role": "assistant", "content": "d", "weight": W}]})";
  const auto with = [&](const char* weight) { return std::string(row).replace(row.find("W}"), 1, weight); };
  EXPECT_EQ(learnt(with("1")), "d<|im_end|>|");
  EXPECT_EQ(read(with("0") + "\n" + kTurn).empty, 1);
  expect_refused(with("0.5"), "the weight of a message is 0.5");
  template_ = chat::Template(kUnmarked, "T");
  EXPECT_EQ(learnt(with("1.0")), "d</>|");
}

TEST_F(ConversationsTest, ToolsAndCallsComeInAnyForm) {
  template_ = chat::Template(
      "{{ tools | tojson }}{% for m in messages %}[{{ m.role }} {{ m.content }} {{ m.tool_calls | tojson if "
      "m.tool_calls }}]"
      "{% endfor %}{% if add_generation_prompt %}[assistant {% endif %}",
      "T");
  const std::string call = R"([{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}])";
  EXPECT_EQ(
      text_of(
          R"({"conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"}, {"from": "observation", "value": "7"}, {"from": "gpt", "value": "x"}], "tools": "[{\"name\": \"f\"}]"})"),
      R"([{"type": "function", "function": {"name": "f"}}][user q ][assistant  )" + call +
          "][tool 7 ][assistant x ]");
  EXPECT_EQ(
      text_of(
          R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}], "tools": "[]"})"),
      "null[user q ][assistant  " + call + "]");
}

TEST_F(ConversationsTest, TextsNeedNoTemplate) {
  const auto read_plain = [&](const std::string& row) {
    return read_conversations(written("p.jsonl", row), *bytes_, nullptr, options_).documents.at(0).learnt;
  };
  using Marks = std::vector<std::uint8_t>;
  EXPECT_EQ(read_plain(R"({"text": "abc"})"), (Marks{0, 1, 1}));
  EXPECT_EQ(read_plain(R"({"prompt": "ab", "completion": "cd"})"), (Marks{0, 0, 1, 1}));
  options_.loss = "all";
  EXPECT_EQ(read_plain(R"({"prompt": "ab", "completion": "cd"})"), (Marks{0, 1, 1, 1}));
  EXPECT_NE(said([&] { read_plain(kTurn); }).find("data.template = \"chatml\""), std::string::npos);
}

TEST_F(ConversationsTest, FilesOfEveryKindGiveTheSame) {
  const std::string made = learnt(std::string(kTurn) + "\n\n" + kTurn);
  EXPECT_EQ(learnt("\xEF\xBB\xBF" + std::string(kTurn) + "\r\n" + kTurn + "\r\n"), made);
  EXPECT_EQ(learnt("[" + std::string(kTurn) + "," + kTurn + "]", "b.json"), made);
  EXPECT_EQ(learnt("instruction,input,output\nHi,,Yo é\nHi,,Yo é\n", "c.csv"), made);
  options_.loss = "all";
  const auto text = [&](const char* name, const std::string& rows) {
    return bytes_->decode(
        read_conversations(written(name, rows), *bytes_, nullptr, options_).documents.at(0).ids);
  };
  EXPECT_EQ(text("s.csv", "prompt,completion\nIn Rome, I am\n"),
            text("s.jsonl", R"({"prompt": "In Rome", "completion": " I am"})"));
  options_.loss = "answers";
  for (const char* name : {"s.csv", "s.jsonl"}) std::filesystem::remove(folder_ / name);
  const std::string packed = folder_ / "d.jsonl.gz";
  gzFile file = gzopen(packed.c_str(), "wb");
  gzputs(file, kTurn);
  gzclose(file);
  EXPECT_EQ(read_conversations(packed, *bytes_, &template_, options_).read, 1);
  std::filesystem::remove(folder_ / "a.jsonl");
  written("README.md", "of the folder");
  EXPECT_EQ(read_conversations(folder_.path(), *bytes_, &template_, options_).read, 2 + 2 + 1);
  written("z.txt", "a");
  EXPECT_THROW(read_conversations(folder_.path(), *bytes_, &template_, options_), RunError);
}

TEST_F(ConversationsTest, NamedColumnsAreRead) {
  options_.columns = "q, a";
  EXPECT_EQ(text_of(R"({"q": "Hi", "a": "Yo é"})"),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo é<|im_end|>\n");
  expect_refused(R"({"q": "Hi"})", "has no column \"a\"");
  options_.columns = "dialog";
  EXPECT_EQ(learnt(R"({"dialog": [{"from": "user", "value": "a"}, {"from": "bot", "value": "b"}]})"),
            "b<|im_end|>|");
  options_.columns = "a,b,c";
  EXPECT_THROW(read(kTurn), UsageError);
}

TEST_F(ConversationsTest, BrokenRowsAreNamedAndCounted) {
  const std::pair<const char*, const char*> broken[] = {
      {"{\"a\"", "line 2: is no JSON"},
      {"[1]", "line 2: is no JSON object; a list of them is a .json"},
      {"{}", "has none of messages"},
      {"{\"x\": 1}", "but \"x\"; data.columns"},
      {"\"hello\"", "line 2: is a text, no JSON object"},
      {"{\"text\": \"\"}", "text is empty"},
      {"{\"text\": \"a\xff\"}", "is no JSON"},
      {"{\"messages\": 3}", "messages is no list"},
      {"{\"messages\": []}", "messages is no list"},
      {"{\"messages\": [3]}", "a message is no object"},
      {"{\"messages\": [{\"content\": \"a\"}]}", "is from \"\""},
      {"{\"messages\": [{\"role\": 1, \"content\": \"a\"}]}", "role is number"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": 1}]}", "a content is number"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "has no answer"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
       "\"\"}]}",
       "an answer is empty"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}", "the type \"image\""},
      {"{\"conversations\": [{\"from\": \"ghost\", \"value\": \"a\"}]}", "from \"ghost\""},
      {"{\"conversations\": [], \"chosen\": {}, \"rejected\": {}}", "pairs of answers"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": \"[\"}",
       "tools holds what is no JSON"},
      {"{\"instruction\": \"a\", \"output\": \"\"}", "an answer is empty"},
      {"{\"instruction\": \"a\", \"output\": 3}", "output is number"}};
  for (const auto& [row, why] : broken) {
    options_.skip_broken = false;
    const std::string text = std::string(kTurn) + "\n" + row + "\n" + kTurn;
    expect_refused(text, why);
    expect_refused(text, "a.jsonl: line 2: ");
    options_.skip_broken = true;
    const ReadConversations all = read(text);
    EXPECT_EQ(all.read, 3) << row;
    EXPECT_EQ(all.broken, 1) << row;
    EXPECT_EQ(all.documents.size(), 2U) << row;
    ASSERT_EQ(all.reasons.size(), 1U) << row;
  }
  const char* csv = "text\na\nb,c\nd\n";
  EXPECT_EQ(read_conversations(written("c.csv", csv), *bytes_, nullptr, options_).broken, 1);
  options_.skip_broken = false;
  EXPECT_NE(said([&] {
              read_conversations(written("c.csv", csv), *bytes_, nullptr, options_);
            }).find("c.csv: line 3: has 2 cells"),
            std::string::npos);
  options_.skip_broken = true;
  expect_refused("{}", "no row can be read");
  expect_refused(std::string("a\0b", 3), "zero byte");
  expect_refused("", "is empty");
  expect_refused("{\"text\": \"" + std::string((std::size_t{16} << 20) + 1, 'a') + "\"}",
                 "line 1 is longer than 16 MB");
  expect_refused("{}\n{}", "b.json: is no list of objects; a file of an object per line is a .jsonl",
                 "b.json");
  expect_refused("a", "ends in .jsonl", "b.txt");
}

TEST_F(ConversationsTest, TemplatesThatRefuseAreQuoted) {
  template_ = chat::Template("{{ raise_exception('No system messages') }}", "chat_template.jinja");
  expect_refused(kTurn, "line 1: chat_template.jinja: line 1: the template refuses this: No system messages");
}

TEST_F(ConversationsTest, OtherColumnsAreListed) {
  EXPECT_EQ(read(R"({"id": 1, "text": "abc", "source": "web", "system": ""})").unused,
            (std::vector<std::string>{"id", "source"}));
}

TEST_F(ConversationsTest, BuiltInTemplatesMarkTheirAnswers) {
  constexpr const char* kNumbers =
      R"({"system": "90", "conversations": [{"from": "user", "value": "10"}, {"from": "gpt", "value": "20"}, {"from": "user", "value": "30"}, {"from": "gpt", "value": "40"}]})";
  for (const std::string_view name : chat_template_names()) {
    template_ = *find_template(std::string(name), "");
    const std::string text = learnt(kNumbers);
    EXPECT_TRUE(text.find("20") < text.find('|') && text.find("40") > text.find('|')) << name << ": " << text;
    for (const char* other : {"90", "10", "30"}) {
      EXPECT_EQ(text.find(other), std::string::npos) << name << ": " << text;
      EXPECT_NE(text_of(kNumbers).find(other), std::string::npos) << name;
    }
  }
  expect_refused(
      R"({"text": "a"})"
      "\n"
      R"({"conversations": [{"from": "user", "value": "a"}, {"from": "function_call", "value": "{\"name\": \"f\"}"}]})",
      "line 2: the template zephyr: line 1: the template refuses this: it has no place for tools");
  EXPECT_NE(said([] { find_template("chatlm", ""); }).find("did you mean chatml?"), std::string::npos);
}

TEST_F(ConversationsTest, ModelsBringTheirTemplates) {
  written(
      "tokenizer_config.json",
      R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": [{"name": "default", "template": "{{ bos_token }}d"}, {"name": "tool_use", "template": "t{{ eos_token }}"}, {"name": "rag", "template": "{"}]})");
  const chat::Template one = *template_in(folder_.path());
  EXPECT_EQ(one.render(Json::array(), nullptr).text, "<s>d");
  EXPECT_EQ(one.render(Json::array(), Json::array({Json::object()})).text, "t</s>");
  EXPECT_EQ(other_templates(folder_.path()), "");
  written("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "r"}]})");
  EXPECT_NE(said([&] { template_in(folder_.path()); }).find("name \"default\", but \"rag\": write"),
            std::string::npos);
  written("tokenizer_config.json", "{}");
  written("chat_template.json", "{}");
  EXPECT_EQ(other_templates(folder_.path()), "chat_template.json");
  written("tokenizer_config.json", R"({"bos_token": "<s>"})");
  written("chat_template.jinja", "own{{ bos_token }}");
  EXPECT_EQ(find_template("", folder_.path())->render(Json::array(), nullptr).text, "own<s>");
  EXPECT_FALSE(find_template("", ""));
  written("chat_template.jinja", "{% if %}");
  EXPECT_NE(said([&] { template_in(folder_.path()); }).find("chat_template.jinja: line 1:"),
            std::string::npos);
}

// What a run is trained with is what later readers of its files find, in place of what was there.
TEST_F(ConversationsTest, AFolderKeepsATemplateWithItsTokens) {
  const auto write_into = [](const std::string& folder, const char* name, const std::string& text) {
    make_folder(folder);
    write_text(folder + "/" + name, text);
  };
  const Json tools = Json::array({Json::object()});
  const std::string kept = folder_.path() + "/kept", other = folder_.path() + "/other";
  write_into(kept, "tokenizer_config.json",
             R"({"bos_token": "<s>", "eos_token": "</s>", "model_max_length": 9})");
  write_into(kept, "chat_template.jinja", "another");
  keep_template("chatml", kept);
  EXPECT_EQ(template_in(kept)->source(), find_template("chatml", kept)->source());
  write_into(other, "tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "\"|"})");
  write_into(other, "chat_template.jinja", "\nb{{ bos_token }}{{ eos_token }}");
  keep_template(other, kept);
  EXPECT_EQ(template_in(kept)->render(Json::array(), nullptr).text, "\nb<s>\"|");
  std::filesystem::remove(other + "/chat_template.jinja");
  write_into(
      other, "tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "d{{ eos_token is defined }}"}, {"name": "tool_use", "template": "t"}]})");
  keep_template(other, kept);
  EXPECT_EQ(template_in(kept)->render(Json::array(), nullptr).text, "dFalse");
  EXPECT_EQ(template_in(kept)->render(Json::array(), tools).text, "t");
  EXPECT_EQ(read_json(kept + "/tokenizer_config.json", 1 << 20)["model_max_length"], 9);
  EXPECT_EQ(kept_template("chatml", kept), "chatml");
  EXPECT_EQ(kept_template("gone.jinja", kept), kept);
  EXPECT_EQ(kept_template("gone.jinja", folder_.path()), "gone.jinja");  // of a run that kept none
}

TEST_F(ConversationsTest, TokensAreFoundWhereSpacesWereAddedOrTaken) {
  using Ends = std::vector<std::size_t>;
  const auto ends = [&](const std::string& text, const std::string& tokens) {
    return token_ends(text, bytes_->encode(tokens), *bytes_);
  };
  EXPECT_EQ(ends("abc", "abc"), (Ends{1, 2, 3}));
  EXPECT_EQ(ends("abc", " abc"), (Ends{0, 1, 2, 3}));
  EXPECT_EQ(ends("a  b", "ab"), (Ends{1, 4}));
  EXPECT_EQ(ends("abc", "abd"), Ends{});
}

}  // namespace
}  // namespace lpmm
