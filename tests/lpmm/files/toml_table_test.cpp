// The one reader of TOML: what it gives, and how it says what is wrong.
#include "lpmm/files/toml_table.h"

#include <gtest/gtest.h>

#include <functional>

#include "lpmm/base/error.h"

namespace lpmm {
namespace {

std::string usage_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "no error";
}
std::string said_of(const std::string& text) {
  return usage_error([&] { TomlTable::parse(text, "a.toml"); });
}
void expect_in(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "\"" << message << "\" lacks \"" << part << "\"";
  }
}

TEST(TomlTable, ReadsEveryKindOfValue) {
  const TomlTable t = TomlTable::parse(
      "s = 'x'\nb = true\ni = 3\nr = 2.5\nss = ['a', 'b']\nis = [1, 2]\nrs = [1, 0.5]\n"
      "v = ['sr', 1, 0.1, true]\n[inner]\nk = 1\n[[list]]\nk = 2\n[[list]]\nk = 3\n",
      "a.toml");
  EXPECT_EQ(t.text("s"), "x");
  EXPECT_EQ(t.boolean("b"), true);
  EXPECT_EQ(t.integer("i", 0, 9), 3);
  EXPECT_EQ(t.number("r"), 2.5);
  EXPECT_EQ(t.number("i"), 3.0);
  EXPECT_EQ(t.texts("ss"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(t.integers("is", 0, 9), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(t.numbers("rs", 0, 1), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(t.plain_values("v"), (std::vector<std::string>{"sr", "1", "0.1", "true"}));
  EXPECT_EQ(t.table("inner").integer("k", 0, 9), 1);
  ASSERT_EQ(t.tables("list").size(), 2U);
  EXPECT_EQ(t.tables("list")[1].integer("k", 0, 9), 3);
  EXPECT_FALSE(t.text("none") || t.integer("none", 0, 1) || t.numbers("none") || t.plain_values("none"));
  EXPECT_FALSE(t.table("none").text("k"));
  EXPECT_TRUE(t.tables("none").empty());
  t.refuse_unknown();
}

TEST(TomlTable, ErrorsNamePlaceKeyAndWhatWasExpected) {
  const TomlTable t = TomlTable::parse(
      "# a file\ni = 'x'\nn = nan\nbig = 12\nw = 'lin'\nl = [1, 'x']\ne = []\n[inner]\nk = "
      "1.5\n[[list]]\n\nk = "
      "9\n",
      "a.toml");
  expect_in(usage_error([&] { (void)t.integer("i", 0, 9); }), {"a.toml:2: i is an integer, not", "string"});
  expect_in(usage_error([&] { (void)t.number("n"); }), {"a.toml:3: n = nan"});
  expect_in(usage_error([&] { (void)t.integer("big", 0, 9); }), {"a.toml:4: big = 12", "from 0 to 9"});
  const std::string_view words[] = {"linear", "cosine"};
  expect_in(usage_error([&] { (void)t.choice("w", words); }),
            {"a.toml:5", "linear, cosine", "did you mean linear?"});
  expect_in(usage_error([&] { (void)t.texts("l"); }), {"a.toml:6: l is an array of strings"});
  expect_in(usage_error([&] { (void)t.plain_values("e"); }), {"a.toml:7: e has no value"});
  expect_in(usage_error([&] { (void)t.table("inner").integer("k", 0, 9); }),
            {"a.toml:9: inner.k", "an integer"});
  expect_in(usage_error([&] { (void)t.tables("list")[0].integer("k", 0, 1); }), {"a.toml:12: list.k = 9"});
  expect_in(usage_error([&] { (void)t.table("i"); }), {"a.toml:2: i is a table, [i]"});
  expect_in(usage_error([&] { (void)t.tables("inner"); }),
            {"a.toml:8: inner is an array of tables, [[inner]]"});
  expect_in(usage_error([&] { t.refuse("big", "is odd"); }), {"a.toml:4: is odd"});
}

TEST(TomlTable, RefusesWhatNobodyAskedFor) {
  const auto complaint = [](const std::string& text) {
    const TomlTable t = TomlTable::parse(text, "a.toml");
    (void)t.table("train").integer("batch", 0, 9);
    for (const TomlTable& item : t.tables("list")) (void)item.integer("k", 0, 9);
    t.skip("free");
    return usage_error([&] { t.refuse_unknown(); });
  };
  EXPECT_EQ(complaint("[train]\nbatch = 1\n[[list]]\nk = 1\n[free]\nx = 1\ny.z = 2\n"), "no error");
  EXPECT_EQ(complaint("[train]\n[free]\n"), "no error");
  expect_in(complaint("[train]\nbacth = 1\n"), {"a.toml:2: unknown key train.bacth", "train.batch?"});
  expect_in(complaint("[trian]\nbatch = 1\n"), {"a.toml:2: unknown key trian.batch", "train.batch?"});
  expect_in(complaint("[[list]]\nk = 1\n[[list]]\nkk = 1\n"), {"a.toml:4: unknown key list.kk", "list.k?"});
  expect_in(complaint("[other]\n"), {"a.toml:1: unknown key other"});
}

TEST(TomlTable, SettingsChangeTheFile) {
  TomlTable t = TomlTable::parse("[train]\nbatch = 1\nepochs = 2\n", "a.toml");
  t.set("train.batch=7", "--set train.batch=7");
  t.set("memory.rounding=sr", "--rounding sr");
  t.erase("train.epochs");
  t.erase("nothing.there");
  EXPECT_EQ(t.table("train").integer("batch", 0, 9), 7);
  EXPECT_EQ(t.table("memory").text("rounding"), "sr");
  EXPECT_FALSE(t.table("train").has("epochs"));
  EXPECT_EQ(t.place("train.batch"), "--set train.batch=7");
  expect_in(usage_error([&] { t.set("train.batch.x=1", "--set train.batch.x=1"); }), {"batch is no table"});
}

// toml++ itself has undefined behaviour on some letters past ASCII, asserts on [=], and reads bytes that are
// not UTF-8 in its own way.
TEST(TomlTable, RefusesTextThatTomlPlusPlusCannotRead) {
  EXPECT_EQ(said_of("\xEF\xBB\xBF"
                    "a = 1\n"),
            "no error");  // a byte-order mark
  EXPECT_EQ(said_of("a = 'gr\xC3\xBCn'\n"), "no error");
  expect_in(said_of("a = 1\n[=]\n"), {"a.toml:2: ", "key"});
  for (const std::string letter : {"\xC6\xB5", "\xEF\xBB\xBE", "\xEF\xBA\xBF", "\xE2\xB1\xA0"}) {
    expect_in(said_of("a = 1\n" + letter + " = 2\n"), {"a.toml:2: "});
    expect_in(said_of("a = 1\na " + letter), {"a.toml:2: "});
    expect_in(said_of("a = 1\na = +\"x" + letter), {"a.toml:2: "});
    EXPECT_EQ(said_of("# " + letter + "\na = '" + letter + "'\n"), "no error");
  }
  expect_in(said_of("a = 1\n\n# \xFF\n"), {"a.toml:3: is not UTF-8"});
  expect_in(said_of("a = '\xED\xA0\x80'\n"), {"a.toml:1: is not UTF-8"});  // half a surrogate pair
  expect_in(said_of("a = '\xC3"), {"a.toml:1: is not UTF-8"});
  expect_in(said_of(std::string((1 << 20) + 1, '\n')), {"a.toml: has more than 1048576 bytes"});
  TomlTable t = TomlTable::parse("", "a.toml");
  t.set("a.b=\xC6\xB5", "--set a.b");  // a bare word is a string
  EXPECT_EQ(t.table("a").text("b"), "\xC6\xB5");
}

// The parser goes as deep as a key has parts.
TEST(TomlTable, AKeyOfTooManyPartsIsRefused) {
  std::string deep = "a";
  for (int i = 0; i < 50000; ++i) deep += ".a";
  expect_in(said_of(deep + " = 1\n"), {"a.toml: a key has more than 16 parts"});
  expect_in(said_of("[" + deep + "]\n"), {"more than 16 parts"});
  expect_in(said_of("a = {" + deep + " = 1}\n"), {"more than 16 parts"});
  std::string quoted = "\"a\"";
  for (int i = 0; i < 50000; ++i) quoted += " . 'a\"'";
  expect_in(said_of(quoted + " = 1\n"), {"more than 16 parts"});
  TomlTable t = TomlTable::parse("", "a.toml");
  EXPECT_THROW(t.set(deep + "=1", "--set"), UsageError);
  const std::string dots(50000, '.');
  EXPECT_EQ(
      said_of("a = \"" + dots + "\\\"" + dots + "\" # " + dots + "\nb = '''" + dots + "'\n" + dots + "'''\n"),
      "no error");
  EXPECT_EQ(
      said_of("a = [1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5]\n"),
      "no error");
}

TEST(TomlTable, NearestKeyPrefersTheSameWordInAnotherTable) {
  const std::string_view keys[] = {"train.batch", "optimizer.learning_rate", "optimizer.momentum"};
  const std::pair<std::string_view, std::string_view> words[] = {{"lr", "optimizer.learning_rate"},
                                                                 {"gone", "no.key"}};
  EXPECT_EQ(nearest_key("train.lr", keys, words), "optimizer.learning_rate");
  EXPECT_EQ(nearest_key("momentum", keys, words), "optimizer.momentum");
  EXPECT_EQ(nearest_key("train.bath", keys, words), "train.batch");
  EXPECT_EQ(nearest_key("trainer.gone", keys, words), "");  // not one that is not there
  EXPECT_EQ(nearest_key("optimizer.colour", keys, words), "");
  EXPECT_EQ(nearest_key("opt.momentun", keys, words), "optimizer.momentum");
  EXPECT_EQ(nearest_key("anywhere.batch", keys, words), "train.batch");
}

}  // namespace
}  // namespace lpmm
