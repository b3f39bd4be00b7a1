// Tables that people bring: CSV, TSV, JSON.
#include "lpmm/data/table.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

using Cells = std::vector<std::string>;

class TableTest : public testing::Test {
 protected:
  Table read(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return read_table(folder_ / name);
  }
  void expect_refused(const std::string& name, const std::string& text, const char* part) const {
    const std::string what = said([&] { read(name, text); });
    EXPECT_NE(what.find(part), std::string::npos) << what;
  }
  Scratch folder_;
};

TEST_F(TableTest, QuotesHoldWhatSeparatesCells) {
  const Table table =
      read("a.csv",
           "\xEF\xBB\xBFtext,label\r\n\"good, \"\"fine\"\"\",pos\r\n\r\n\"two\nlines\" ,neg\n plain , x ");
  EXPECT_EQ(table.names, (Cells{"text", "label"}));
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0].cells, (Cells{"good, \"fine\"", "pos"}));
  EXPECT_EQ(table.rows[1].cells, (Cells{"two\nlines", "neg"}));
  EXPECT_EQ(table.rows[2].cells, (Cells{"plain", "x"}));
  EXPECT_EQ(table.rows[0].line, 2);
  EXPECT_EQ(table.rows[1].line, 4);
  EXPECT_EQ(table.rows[2].line, 6);
  EXPECT_EQ(table.place_of("label"), 1);
  EXPECT_EQ(table.place_of("TEXT"), 0);
  EXPECT_EQ(table.place_of("none"), -1);
}

TEST_F(TableTest, TheFirstLineSaysWhatSeparates) {
  EXPECT_EQ(read("a.csv", "text;label\na, b;1\n").rows[0].cells, (Cells{"a, b", "1"}));
  EXPECT_EQ(read("a.csv", "\"a;b\",label\nx;y,1\n").rows[0].cells, (Cells{"x;y", "1"}));
  EXPECT_EQ(read("a.csv", "text\tlabel\na, b\t1\n").rows[0].cells, (Cells{"a, b", "1"}));
}

TEST_F(TableTest, InATabSeparatedFileAQuoteMayBeText) {
  const Table table =
      read("a.tsv", "text\tlabel\n\"Hello\" he said\t1\n\"a \"\"b\"\"\"\t2\n\"open\t3\na\"b\t4\n");
  EXPECT_EQ(table.rows[0].cells[0], "\"Hello\" he said");
  EXPECT_EQ(table.rows[1].cells[0], "a \"b\"");
  EXPECT_EQ(table.rows[2].cells[0], "\"open");
  EXPECT_EQ(table.rows[3].cells[0], "a\"b");
  std::ofstream(folder_ / "g.tsv") << "\"x\"\t1\t2\ny\n";
  const Table plain = read_plain_tsv(folder_ / "g.tsv", false);
  EXPECT_EQ(plain.rows[0].cells, (Cells{"\"x\"", "1", "2"}));
  EXPECT_EQ(plain.rows[1].cells, (Cells{"y"}));
  EXPECT_TRUE(plain.names.empty());
}

// As pandas writes them. Where it may be either, what is in quotes is no row that others would be lost in.
TEST_F(TableTest, InATabSeparatedFileACellMayHoldLineBreaks) {
  const auto cells = [&](const std::string& text, bool skips = false) {
    std::ofstream(folder_ / "b.tsv", std::ios::binary) << text;
    std::vector<Cells> rows;
    for (const Table::Row& row : read_table(folder_ / "b.tsv", {.skips_broken = skips}).rows)
      rows.push_back(row.cells);
    return rows;
  };
  using Rows = std::vector<Cells>;
  EXPECT_EQ(cells("text\tlabel\n\"one\n\n\"\"two\"\"\t\"\t0\r\nb\t1\n"),
            (Rows{{"one\n\n\"two\"\t", "0"}, {"b", "1"}}));
  EXPECT_EQ(cells("label\ttext\n0\t\"one\ntwo\"\n1\tb\n"), (Rows{{"0", "one\ntwo"}, {"1", "b"}}));
  const Table table = read("c.tsv", "text\tlabel\n\"a\nb\"\t0\n\"c\nd\"\t1\n");
  EXPECT_EQ(table.rows.at(1).line, 4);
  // Lines that are all rows are rows.
  EXPECT_EQ(cells("text\tlabel\n\"one\t0\n\ntwo\"\t1\n"), (Rows{{"\"one", "0"}, {"two\"", "1"}}));
  constexpr const char* kOpen = "has a cell that begins with a quote, which does not end on its line";
  expect_refused("a.tsv", "text\tlabel\na\t1\n\"b\nc\t2\n", (std::string("line 3 ") + kOpen).c_str());
  expect_refused("a.tsv", "label\ttext\n0\t\"one \"1\"\ntwo\n", "line 3 has 1 cells");
  expect_refused("a.tsv", "label\ttext\n0\t\"one\ntwo \"2\" x\"\n", kOpen);
  // No first half is kept, and no row is taken for text.
  EXPECT_EQ(cells("label\ttext\n0\t\"one\ntwo \"2\" x\"\n1\tb\n", true), (Rows{{"1", "b"}}));
  EXPECT_EQ(cells("text\tlabel\n\"b\nc\t2\nd\"\t1\n", true), (Rows{{"c", "2"}, {"d\"", "1"}}));
  expect_refused("a.tsv", "text\tlabel\n\"b\t1\t2\nc\t2\n", "line 2 has 3 cells, but the first line names 2");
  // Cells that many rows would share with one long line are not read by each of them.
  std::string chained = "x\ty\n";
  for (int i = 0; i < 20000; ++i) chained += "a\"\t\"c\n";
  expect_refused("a.tsv", chained + "z\"" + std::string(400'000, '\t') + "\n", "line 20002 has 400001 cells");
}

TEST_F(TableTest, ObjectsAreRows) {
  const char* lines =
      "{\"text\": \" a\\nb\", \"label\": 3, \"tags\": [1]}\n\n{\"label\": true, \"more\": null, \"text\": "
      "\"c\"}\n";
  const Table table = read("a.jsonl", lines);
  EXPECT_EQ(table.names, (Cells{"text", "label", "more"}));
  EXPECT_EQ(table.lists, (Cells{"tags"}));
  EXPECT_EQ(table.rows[0].cells, (Cells{"a\nb", "3", ""}));
  EXPECT_EQ(table.rows[1].cells, (Cells{"c", "true", ""}));
  EXPECT_EQ(table.rows[1].line, 3);
  EXPECT_EQ(read("a.json", "[{\"text\": \"a\", \"label\": 0.5}]").rows[0].cells, (Cells{"a", "0.5"}));
}

TEST_F(TableTest, WhatIsWrongIsNamedWithItsLine) {
  expect_refused("a.csv", "text,label\ngood, fine,pos\n", "line 2 has 3 cells, but the first line names 2");
  expect_refused("a.csv", "text,label\ngood, fine,pos\n", "a text with a , in it stands in quotes");
  expect_refused("a.csv", "text,label\na,1\nb\n",
                 "line 3 has 1 cells, but the first line names 2 columns; add");
  expect_refused("a.csv", "text,label\na,1\n\"b,1\nc,2\n", "line 3 opens a quote that nothing closes");
  expect_refused("a.csv", "text,label\n\"b\"c,1\n", "line 2 has a quote within a cell in quotes");
  expect_refused("a.csv", "text,label\na,1\n\xFF,2\n", "line 3 is not UTF-8 from byte 0");
  expect_refused("a.csv", "\n \n", "is empty");
  expect_refused("a.jsonl", "{\"a\": 1}\n[1]\n", "line 2 is no JSON object");
  expect_refused("a.jsonl", "{\"a\": 1}\n{\"a\"\n", "line 2 is no JSON: ");
  expect_refused("a.jsonl", "{\"a\": 1, \"a\": 2}\n", "line 1 is no JSON: ");
  expect_refused("a.jsonl", "[{\"a\": 1}]\n", "a list of them is a .json");
  for (const char* text : {"{\"a\": 1}", "{\"a\": 1}\n{\"a\": 2}\n", " \n3"}) {
    expect_refused("a.json", text,
                   "a.json: is no list of objects; a file of an object per line is a .jsonl: rename it");
  }
  expect_refused("a.json", "[{\"a\": 1}", "a.json: is no JSON: parse error at line 1");
}

TEST_F(TableTest, BrokenRowsAreLeftOutWithTheirLines) {
  const auto lines_of = [&](const std::string& name, const std::string& text, const Cells& firsts) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    const Table table = read_table(folder_ / name, {.skips_broken = true});
    Cells cells;
    for (const Table::Row& row : table.rows) cells.push_back(row.cells[0]);
    EXPECT_EQ(cells, firsts);
    std::vector<std::int64_t> lines;
    for (const BrokenRow& row : table.broken.rows) lines.push_back(row.line);
    return lines;
  };
  using Lines = std::vector<std::int64_t>;
  EXPECT_EQ(
      lines_of("a.csv", "text,label\na,1\nb\n\"two\nlines\xFF\",1\n\"c,1\nd,2\n\"e\"e,3\nf,g,h\n\"i\nj\",3\n",
               {"a", "d", "i\nj"}),
      (Lines{3, 5, 6, 8, 9}));
  EXPECT_EQ(lines_of("a.jsonl", "{\"a\": 1}\n[1]\n{\"a\"\n{\"a\": \"\xFF\"}\n\n{\"a\": 2}", {"1", "2"}),
            (Lines{2, 3, 4}));
  EXPECT_EQ(lines_of("a.json", "[{\"a\": 1}, 2]", {"1"}), Lines{2});
  EXPECT_NE(said([&] { lines_of("a.csv", "te\xFFxt,label\na,1\n", {}); }).find("line 1 is not UTF-8"),
            std::string::npos);
}

TEST_F(TableTest, QuotesThatDoNotMatchTakeNoTimeOfSquares) {
  std::string text = "text,label\na,x\n";
  for (int i = 0; i < 20000; ++i) text += "b\",c,\"x\n";
  std::ofstream(folder_ / "a.csv") << text;
  EXPECT_NE(said([&] {
              read_table(folder_ / "a.csv", {.skips_broken = true});
            }).find("in too many rows quotes do not match"),
            std::string::npos);
  std::ofstream(folder_ / "a.csv") << "text,label\na,x\nb,\"y\nc,x\nd\",y\n\"e\",x\n";
  const Table table = read_table(folder_ / "a.csv", {.skips_broken = true});
  ASSERT_EQ(table.broken.rows.size(), 1U);
  EXPECT_NE(table.broken.rows[0].why.find("has 3 cells up to line 5"), std::string::npos);
}

TEST_F(TableTest, SpacesStayWhereTheyAreKept) {
  read("a.csv", "a, b \r\n\" x \", y \r\n   ,  \r\n");
  const Table table = read_table(folder_ / "a.csv", {.keeps_spaces = true});
  EXPECT_EQ(table.names, (Cells{"a", "b"}));
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows[0].cells, (Cells{" x ", " y "}));
}

TEST_F(TableTest, NamesSayWhatIsATable) {
  EXPECT_TRUE(is_table("a.csv.gz"));
  EXPECT_FALSE(is_table("a.csv.zip"));
  EXPECT_EQ(find_table(folder_ / "train"), "");
  read("train.json", "[]");
  read("train.csv", "a\n1\n");
  EXPECT_EQ(find_table(folder_ / "train"), folder_ / "train.csv");
}

}  // namespace
}  // namespace lpmm
