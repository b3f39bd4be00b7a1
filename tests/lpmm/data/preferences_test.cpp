// Files of pairs of answers: what is read, what is learnt, what is refused, and which sequences pairs share.
#include "lpmm/data/preferences/preferences.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/conversations/chat_templates.h"
#include "lpmm/data/preferences/preference_data.h"
#include "tests/lpmm/data/learnt_text.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

constexpr const char *
    kPlain = R"({"prompt": "ab", "chosen": "cd", "rejected": "e"})",
   *kMessages =
       R"({"prompt": [{"role": "user", "content": "Hi"}], "chosen": [{"role": "assistant", "content": "Yo"}], "rejected": [{"role": "assistant", "content": "No"}]})";

class PreferencesTest : public testing::Test {
 protected:
  std::string written(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  ReadPreferences read(const std::string& text, const std::string& name = "a.jsonl") const {
    return read_preferences(written(name, text), *bytes_, &template_, options_);
  }
  ShownPreference shown_of(const std::string& row) const {
    return show_preferences(written("a.jsonl", row), *bytes_, &template_, options_, 0, 1).at(0);
  }
  void expect_same(const std::string& row) const {
    SCOPED_TRACE(row);
    const ShownPreference made = shown_of(row);
    EXPECT_EQ(made.chosen.text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n");
    EXPECT_EQ(made.rejected.text, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nNo<|im_end|>\n");
    EXPECT_EQ(learnt_text({made.chosen.document, made.rejected.document}), "Yo<|im_end|>|No<|im_end|>|");
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

TEST_F(PreferencesTest, EveryUsualShapeIsOnePair) {
  expect_same(kMessages);
  for (
      const char* row :
      {R"({"chosen": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}], "rejected": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "No"}]})",
       R"({"prompt": "Hi", "chosen": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}], "rejected": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "No"}]})",
       R"({"prompt": "Hi", "chosen": [{"role": "assistant", "content": "Yo"}], "rejected": [{"role": "assistant", "content": "No"}]})",
       R"({"conversations": [{"from": "human", "value": "Hi"}], "chosen": {"from": "gpt", "value": "Yo"}, "rejected": {"from": "gpt", "value": "No"}})",
       R"({"messages": [{"role": "user", "content": "Hi"}], "chosen": "Yo", "rejected": "No"})",
       R"({"question": "Hi", "chosen": "Yo", "rejected": "No"})",
       R"({"instruction": "Hi", "input": "", "chosen": "Yo", "rejected": "No"})"}) {
    expect_same(row);
  }
  EXPECT_EQ(shown_of(R"({"system": "S", "instruction": "a", "input": "b", "chosen": "c", "rejected": "d"})")
                .chosen.text,
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n<|im_start|>assistant\nc<|im_"
            "end|>\n");
}

TEST_F(PreferencesTest, TextsNeedNoTemplate) {
  const auto plain = [&](const char* row) {
    return learnt_text(read_preferences(written("p.jsonl", row), *bytes_, nullptr, options_).documents);
  };
  EXPECT_EQ(plain(kPlain), "cd|e|");
  EXPECT_EQ(plain(R"({"chosen": "Q: a A: one two", "rejected": "Q: a A: one tool x"})"), "two|tool x|");
  EXPECT_NE(said([&] { plain(kMessages); }).find("data.template = \"chatml\""), std::string::npos);
}

// The turns behind the shared prompt are learnt, on both sides.
TEST_F(PreferencesTest, AnswersOfThePromptAreNotLearnt) {
  EXPECT_EQ(
      learnt_text(
          read(
              R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "s"}, {"role": "assistant", "content": "c"}], "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}, {"role": "assistant", "content": "d"}]})")
              .documents),
      "b<|im_end|>|c<|im_end|>|d<|im_end|>|");
}

TEST_F(PreferencesTest, FilesOfEveryKindGiveTheSame) {
  const std::vector<Document> made = read(std::string(kPlain) + "\n\n" + kPlain).documents;
  const auto same = [&](const std::vector<Document>& other) {
    ASSERT_EQ(other.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(other[i].ids, made[i].ids);
      EXPECT_EQ(other[i].learnt, made[i].learnt);
    }
  };
  same(read("[" + std::string(kPlain) + "," + kPlain + "]", "b.json").documents);
  same(read("prompt,chosen,rejected\nab,cd,e\nab,cd,e\n", "c.csv").documents);
  const std::string packed = folder_ / "d.jsonl.gz";
  gzFile file = gzopen(packed.c_str(), "wb");
  gzputs(file, kPlain);
  gzclose(file);
  EXPECT_EQ(read_preferences(packed, *bytes_, nullptr, options_).read, 1);
  EXPECT_EQ(read_preferences(folder_.path(), *bytes_, nullptr, options_).read, 2 + 2 + 2 + 1);
  EXPECT_TRUE(holds_preferences(packed));
  EXPECT_FALSE(holds_preferences(written("e.jsonl", R"({"text": "a"})")));
}

TEST_F(PreferencesTest, NamedColumnsAreRead) {
  options_.columns = "q, good, bad";
  EXPECT_EQ(learnt_text(read(R"({"q": "ab", "good": "cd", "bad": "e", "id": 7})").documents), "cd|e|");
  EXPECT_EQ(read(R"({"q": "ab", "good": "cd", "bad": "e", "id": 7})").unused, std::vector<std::string>{"id"});
  expect_refused(R"({"q": "ab", "good": "cd"})", "has no column \"bad\"");
  options_.columns = "good,bad";
  EXPECT_EQ(learnt_text(read(R"({"good": "x a", "bad": "x b"})").documents), "a|b|");
  options_.columns = "good";
  EXPECT_THROW(read(kPlain), UsageError);
}

TEST_F(PreferencesTest, BrokenRowsAreNamedAndCounted) {
  const std::pair<const char*, const char*> broken[] = {
      {"{\"a\"", "is no JSON"},
      {"[1]", "is no JSON object"},
      {"{\"prompt\": \"a\", \"chosen\": \"b\"}",
       "has no chosen and rejected answers, but \"prompt, chosen\""},
      {R"({"prompt": "a", "chosen": "", "rejected": "b"})", "chosen is empty"},
      {R"({"prompt": "", "chosen": "a", "rejected": "b"})", "prompt is empty"},
      {R"({"prompt": "a", "chosen": 3, "rejected": "b"})", "chosen is no list of messages"},
      {R"({"prompt": "a", "chosen": [], "rejected": []})", "chosen is no list of messages"},
      {R"({"chosen": "a", "rejected": "b"})", "do not begin with the same words"},
      {R"({"chosen": {"role": "assistant", "content": "a"}, "rejected": {"role": "assistant", "content": "b"}})",
       "has answers without a prompt"},
      {R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "rejected": [{"role": "user", "content": "r"}, {"role": "assistant", "content": "a"}]})",
       "they have no prompt"},
      {R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "rejected": [{"role": "user", "content": "q"}]})",
       "the rejected conversation has no answer of its own"},
      {R"({"prompt": "x", "chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]})",
       "prompt is not what both conversations begin with"},
      {R"({"prompt": "x", "chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "rejected": "b"})",
       "begins with its prompt, the other with its answer"},
      {R"({"messages": [], "chosen": "a", "rejected": "b"})", "messages is no list"},
      {R"({"messages": [{"role": "user", "content": "q"}], "chosen": {"from": "ghost", "value": "a"}, "rejected": "b"})",
       "from \"ghost\""},
      {R"({"question": 3, "chosen": "a", "rejected": "b"})", "question is number"}};
  for (const auto& [row, why] : broken) {
    options_.skip_broken = false;
    const std::string text = fmt::format("{}\n{}\n{}", kPlain, row, kMessages);
    expect_refused(text, why);
    expect_refused(text, "a.jsonl: line 2: ");
    options_.skip_broken = true;
    const ReadPreferences all = read(text);
    EXPECT_EQ(all.read, 3) << row;
    EXPECT_EQ(all.broken, 1) << row;
    EXPECT_EQ(all.documents.size(), 4U) << row;
  }
  expect_refused("{}", "no row can be read as a pair of answers");
  expect_refused("", "is empty");
}

TEST_F(PreferencesTest, EqualAnswersTeachNothing) {
  const ReadPreferences all = read(
      std::string(kPlain) + "\n" + R"({"prompt": "a", "chosen": "b", "rejected": "b"})" + "\n" +
      R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})");
  EXPECT_EQ(all.read, 3);
  EXPECT_EQ(all.empty, 2);
  EXPECT_EQ(all.documents.size(), 2U);
  EXPECT_EQ(all.tokens, 4 + 3);
  EXPECT_EQ(all.learnt, 2 + 1);
}

// A document whose tokens say which pair it is of, and of which the last few are learnt.
Document answer_document(int number, int tokens, int learnt_from) {
  Document d;
  for (int i = 0; i < tokens; ++i) {
    d.ids.push_back(100 * number + i);
    d.learnt.push_back(i >= learnt_from ? 1 : 0);
  }
  return d;
}
PreferenceData packed_pairs(const std::vector<std::pair<int, int>>& lengths, TooLong too_long,
                            double share = 0) {
  std::vector<Document> documents;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    documents.push_back(answer_document(static_cast<int>(2 * i), lengths[i].first, 2));
    documents.push_back(answer_document(static_cast<int>(2 * i + 1), lengths[i].second, 2));
  }
  return {"drawn", pack_parts("drawn", std::move(documents), {}, share, 16, too_long, 2), {}};
}

TEST(PreferenceData, BothAnswersAreDocumentsOfOneSequence) {
  const PreferenceData data = packed_pairs({{5, 4}, {9, 9}, {4, 6}, {3, 3}, {8, 4}}, TooLong::kDrop);
  Batch batch;
  data.make_reference_batch(0, data.all_examples(), batch);
  ASSERT_EQ(batch.preferences.size(), 5U);
  EXPECT_EQ(data.reference_size(), 5);
  for (const kernels::PreferencePair& pair : batch.preferences) {
    const auto token = [&](std::int64_t row) { return batch.tokens[static_cast<std::size_t>(row)]; };
    EXPECT_EQ(pair.chosen / 16, (pair.rejected_end - 1) / 16);
    EXPECT_EQ(pair.chosen_end, pair.rejected);
    EXPECT_EQ(token(pair.chosen) / 100 % 2, 0);
    EXPECT_EQ(token(pair.rejected) / 100, token(pair.chosen) / 100 + 1);
    EXPECT_EQ(batch.starts[static_cast<std::size_t>(pair.rejected)], pair.rejected % 16);
    for (std::int64_t row = pair.chosen; row < pair.rejected_end; ++row) {
      EXPECT_EQ(batch.labels[static_cast<std::size_t>(row)], token(row) % 100 == 0 ? -1 : token(row) + 1);
    }
  }
}

TEST(PreferenceData, PairsThatAreTooLongAreCutAlikeOrLeftOut) {
  const PreferenceData cut = packed_pairs({{30, 6}, {30, 30}, {3, 40}}, TooLong::kCut);
  Batch batch;
  cut.make_reference_batch(0, cut.all_examples(), batch);
  std::vector<std::pair<std::int64_t, std::int64_t>> slots;
  for (const auto& p : batch.preferences)
    slots.emplace_back(p.chosen_end - p.chosen, p.rejected_end - p.rejected);
  std::ranges::sort(slots);
  EXPECT_EQ(slots, (std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 14}, {8, 8}, {11, 5}}));
  EXPECT_EQ(cut.parts().train.counts().too_long, 3);
  const PreferenceData dropped = packed_pairs({{30, 6}, {5, 5}}, TooLong::kDrop);
  EXPECT_EQ(dropped.reference_size(), 1);
  EXPECT_THROW(packed_pairs({{30, 6}}, TooLong::kDrop), UsageError);
  // Where an answer begins behind the cut, the whole pair is left out.
  std::vector<Document> documents = {answer_document(0, 30, 25), answer_document(1, 6, 2),
                                     answer_document(2, 5, 2), answer_document(3, 5, 2)};
  const PackedParts parts = pack_parts("late", documents, {}, 0, 16, TooLong::kCut, 2);
  EXPECT_EQ(parts.train.documents(), 2);
  EXPECT_EQ(parts.train.counts().unlearnt, 1);
}

TEST(PreferenceData, ReferencesFollowTheirPairs) {
  std::vector<std::pair<int, int>> lengths(20, {4, 5});
  const PreferenceData data = packed_pairs(lengths, TooLong::kDrop, 0.25);
  EXPECT_EQ(data.test_items(), 5);
  ASSERT_EQ(data.reference_size(), 20);
  Batch batch;
  data.make_reference_batch(0, data.all_examples(), batch);
  std::vector<float> numbers;  // which pair it is of
  for (const auto& pair : batch.preferences) {
    EXPECT_EQ(pair.reference, 0);
    numbers.push_back(static_cast<float>(batch.tokens[static_cast<std::size_t>(pair.chosen)]));
  }
  const auto with = data.with_reference(numbers);
  const auto check = [&] {
    for (const auto& pair : batch.preferences) {
      EXPECT_EQ(pair.reference, batch.tokens[static_cast<std::size_t>(pair.chosen)]);
    }
  };
  std::int64_t pairs = 0, said = 0;
  for (int index = 0; index < 4; ++index) {
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      with->make_batch({.seed = 3, .batch = 2, .microbatches = 2, .keeps_last = true}, 0, index, microbatch,
                       batch);
      check();
      pairs += std::ssize(batch.preferences);
      if (microbatch == 0) said += batch.step_labels;
    }
  }
  EXPECT_EQ(pairs, 15);
  EXPECT_EQ(said, 15);
  with->make_test_batch(0, with->test_examples(), batch);
  check();
  EXPECT_EQ(batch.preferences.size(), 5U);
}

}  // namespace
}  // namespace lpmm
