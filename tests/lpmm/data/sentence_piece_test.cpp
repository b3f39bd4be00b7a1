// SentencePiece models against stored encodings of its Python package, and training.
#include "lpmm/data/tokenizers/sentence_piece/sentence_piece.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/files/files.h"
#include "tests/lpmm/data/sentence_pieces.h"
#include "tests/lpmm/said.h"
#include "tests/lpmm/scratch.h"

namespace lpmm {
namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

// Forty lines to train on, in the file "text".
std::string write_text_of(const Scratch& scratch, const std::string& line) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += line;
  write_text(scratch / "text", text);
  return text;
}

TEST(SentencePiece, SaysInOneLineWhatIsMissing) {
  if (missing_library().empty()) GTEST_SKIP() << "the library is there";
  EXPECT_NE(missing_library().find("libsentencepiece-dev"), std::string::npos);
  EXPECT_THROW(train_sentence_piece({}, {}), RunError);
}

TEST(SentencePiece, EncodesAndDecodesAsStored) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  const Scratch scratch;
  const auto stored =
      nlohmann::json::parse(std::ifstream(LPMM_SOURCE_DIR "/tests/golden/tokenizer_encodings.json"));
  ASSERT_EQ(stored["sentencepiece"].size(), 2U);
  for (const auto& c : stored["sentencepiece"]) {
    write_text(scratch / "tokenizer.model", from_hex(c["model"]));
    const auto t = load_tokenizer(scratch.path());
    EXPECT_EQ(t->end_of_text(), 2);
    std::string all;
    for (std::size_t i = 0; i < stored["texts"].size(); ++i) {
      const auto text = stored["texts"][i].get<std::string>();
      const auto ids = c["ids"][i].get<std::vector<std::int32_t>>();
      EXPECT_EQ(t->encode(text), ids) << c["type"] << ": " << text;
      EXPECT_EQ(t->decode(ids), c["decoded"][i].get<std::string>()) << c["type"] << ": " << text;
      all += text + "\n";
    }
    std::vector<std::int32_t> pieces;
    for (std::size_t at = 0; at < all.size();)
      at = t->encode_from(all, at, std::min(at + 50, all.size()), pieces);
    EXPECT_EQ(pieces, t->encode(all));
    EXPECT_EQ(make_tokenizer(t->describe(), scratch.path())->describe(), t->describe());
    EXPECT_THROW(t->encode("a\xFF"), UsageError);
  }
}

TEST(SentencePiece, RefusesWhatIsNoModel) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  const Scratch scratch;
  for (const char* text : {"", "no model at all",
                           "\x0A\x05\x0A\x03"
                           "abc\x80"}) {
    write_text(scratch / "a.model", text);
    try {
      load_tokenizer(scratch / "a.model");
      ADD_FAILURE() << "accepted";
    } catch (const RunError& e) {
      const std::string what = e.what();
      EXPECT_NE(what.find("a.model: is no SentencePiece model"), std::string::npos) << what;
      EXPECT_EQ(what.find(".cc("), std::string::npos) << what;
    }
  }
}

// ---- character maps, as SentencePiece writes them

std::string uint32_bytes(std::uint32_t value) {
  std::string bytes;
  for (unsigned i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(value >> 8 * i));
  return bytes;
}

// A field of a protobuf message.
std::string field(int number, const std::string& bytes) {
  std::string all(1, static_cast<char>(number << 3 | 2));
  std::size_t size = bytes.size();
  for (; size > 127; size >>= 7) all.push_back(static_cast<char>(size | 128));
  return all + static_cast<char>(size) + bytes;
}

// Maps a, aa, and so on up to `longest` to the first text: the nth node's children are in the nth 256 units.
struct Charsmap {
  static constexpr std::size_t kBase = 2, kBlock = 256;
  explicit Charsmap(std::size_t longest) : units((longest + 1) * kBlock, 1U << 31) {
    units[0] = kBase << 10;
    for (std::size_t n = 0; n < longest; ++n) link(n * kBlock + (kBase ^ 'a'), (n + 1) * kBlock + kBase);
  }
  void link(std::size_t at, std::size_t base) {
    units[at] = static_cast<std::uint32_t>((at ^ base) << 10 | 1 << 8 | 'a');
  }
  std::string bytes() const {
    std::string all = uint32_bytes(static_cast<std::uint32_t>(4 * units.size()));
    for (const std::uint32_t unit : units) all += uint32_bytes(unit);
    return all + texts;
  }
  std::vector<std::uint32_t> units;
  std::string texts = std::string("the\0", 4);
};

TEST(SentencePiece, RefusesDamagedCharsmaps) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  const Scratch scratch;
  const auto stored =
      nlohmann::json::parse(std::ifstream(LPMM_SOURCE_DIR "/tests/golden/tokenizer_encodings.json"));
  const std::string model = from_hex(stored["sentencepiece"][0]["model"]);
  // If a model has a field twice, the last one counts.
  const auto load = [&](const std::string& map, int spec = 3) {
    write_text(scratch / "a.model", model + field(spec, field(2, map)));
    return load_tokenizer(scratch / "a.model");
  };
  const auto refuses = [&](const std::string& map, const std::string& why, int spec = 3) {
    const std::string what = said([&] { load(map, spec)->encode(std::string(50, 'a')); });
    EXPECT_EQ(what.find(scratch / "a.model: its charsmap (precompiled_charsmap) is damaged: " + why), 0U)
        << why << "\nin: " << what;
  };
  EXPECT_EQ(load("")->encode("the"), load(Charsmap(1).bytes())->encode("a"));
  EXPECT_EQ(load("")->encode("thethe"), load(Charsmap(32).bytes())->encode(std::string(33, 'a')));
  refuses("abc", "it is cut off");
  refuses(uint32_bytes(0) + "the" + '\0', "it is cut off");
  refuses(uint32_bytes(1 << 20) + Charsmap(1).bytes().substr(4), "it is cut off");
  refuses(uint32_bytes(1020) + Charsmap(1).bytes().substr(4), "it is cut off");
  Charsmap map(1);
  map.texts = "the";
  refuses(map.bytes(), "its last text has no end");
  map.texts = std::string(2000, 'x') + '\0';
  refuses(map.bytes(), "a text in it is too long");
  map = Charsmap(1);
  map.units[256 + Charsmap::kBase] |= 4;
  refuses(map.bytes(), "its tree leads to a text that is not there");
  refuses(map.bytes(), "its tree leads to a text that is not there", 5);
  map = Charsmap(1);
  map.units[0] = 512U << 10;
  refuses(map.bytes(), "its tree leads out of it");
  map = Charsmap(1);
  map.link(Charsmap::kBase ^ 'a', 512);
  refuses(map.bytes(), "its tree leads out of it");
  map.link(Charsmap::kBase ^ 'a', Charsmap::kBase);
  refuses(map.bytes(), "its tree goes round in a circle");
  refuses(Charsmap(33).bytes(), "its tree is too deep");
}

// As in transformers: no space in front of a text, or none behind an added token. Runs from before these keys
// were read go on without them.
TEST(SentencePiece, SpacesAreThoseOfTheFileBeside) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  const Scratch scratch;
  write_text_of(scratch, "the quick brown fox jumps over the lazy dog\n");
  write_text(scratch / "tokenizer.model", train_sentence_piece({"bpe", 45}, {scratch / "text"}));
  const auto with = [&](const std::string& key) {
    write_text(scratch / "tokenizer_config.json",
               R"({"added_tokens_decoder": {"45": {"content": "<x>", "special": true}})" + key + "}");
    return load_tokenizer(scratch.path());
  };
  const auto old = with(""), spaced = with(R"(, "legacy": true, "add_prefix_space": true)"),
             first = with(R"(, "legacy": false)"), never = with(R"(, "add_prefix_space": false)");
  EXPECT_EQ(old->describe(), spaced->describe());
  const auto ids = [](const auto& tokenizer, const char* of) { return tokenizer->encode(of); };
  EXPECT_EQ(ids(first, "fox"), ids(old, "fox"));
  std::vector<std::int32_t> apart = ids(old, "fox");
  for (const std::int32_t id : ids(never, "<x>fox")) apart.push_back(id);
  EXPECT_EQ(ids(first, "fox<x>fox"), apart);
  EXPECT_NE(ids(old, "fox<x>fox"), apart);
  EXPECT_EQ(ids(never, "<x>fox"), ids(first, "<x>fox"));
  EXPECT_NE(ids(never, "fox"), ids(old, "fox"));
  for (const auto* tokenizer : {&old, &first, &never})
    EXPECT_EQ((*tokenizer)->decode(ids(*tokenizer, "the fox")), "the fox");
  const auto before = load_tokenizer(scratch.path(), SentencePieceAge::kSpaced)->describe();
  EXPECT_EQ(make_tokenizer(before, scratch.path())->encode("fox"), ids(old, "fox"));
  EXPECT_EQ(make_tokenizer(never->describe(), scratch.path())->encode("fox"), ids(never, "fox"));
}

// As in transformers, a model's controls are tokens in texts where there are settings beside it. Runs from
// before go on with them as texts.
TEST(SentencePiece, ControlsAreTokensWhereSettingsAreBeside) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  const Scratch scratch;
  write_text_of(scratch, "the quick brown fox jumps over the lazy dog <s>\n");
  write_text(scratch / "tokenizer.model", train_sentence_piece({"bpe", 50}, {scratch / "text"}));
  const auto alone = load_tokenizer(scratch.path());
  write_text(scratch / "tokenizer_config.json",
             R"({"add_prefix_space": false, "pad_token": "<p>", "unk_token": "<unk>"})");
  const auto beside = load_tokenizer(scratch.path());
  const auto part = [&](const char* of) {
    return load_tokenizer(scratch.path(), SentencePieceAge::kSpaced)->encode(of);
  };
  EXPECT_EQ(alone->encode("a <s>fox</s>"), part("a <s>fox</s>"));
  const std::vector<std::int32_t> ids = beside->encode("<s>the</s><unk><p>");
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(std::vector(ids.end() - 3, ids.end()), (std::vector<std::int32_t>{2, 0, 50}));
  EXPECT_LT(ids.size(), 8U);
  for (const auto age : {SentencePieceAge::kSpaced, SentencePieceAge::kAsked, SentencePieceAge::kControls}) {
    const auto then = load_tokenizer(scratch.path(), age);
    const auto now = make_tokenizer(then->describe(), scratch.path());
    EXPECT_EQ(now->encode("<s>the"), then->encode("<s>the"));
  }
}

TEST(SentencePiece, TrainsTheSameModelAgain) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  const Scratch scratch;
  const std::string text =
      write_text_of(scratch, "the quick brown fox jumps over the lazy dog, the newest of the lower dogs\n");
  for (const char* type : {"bpe", "unigram"}) {
    const SentencePieceOptions options{type, 35};
    const std::string model = train_sentence_piece(options, {scratch / "text"});
    EXPECT_EQ(model, train_sentence_piece(options, {scratch / "text"})) << type;
    write_text(scratch / "a.model", model);
    const auto t = load_tokenizer(scratch / "a.model");
    EXPECT_EQ(t->vocabulary(), 35) << type;
    const auto ids = t->encode("the lazy fox");
    EXPECT_LE(ids.size(), 12U) << type;
    EXPECT_EQ(t->decode(ids), "the lazy fox") << type;
    // Lines are read apart: the first ends a piece, and a whole text is its lines.
    std::vector<std::int32_t> line, all;
    EXPECT_EQ(t->encode_from(text, 0, 1, line), text.find('\n') + 1) << type;
    for (int i = 0; i < 40; ++i) all.insert(all.end(), line.begin(), line.end());
    EXPECT_EQ(t->encode(text), all) << type;
  }
  try {
    train_sentence_piece({"bpe", 5000}, {scratch / "text"});
    FAIL() << "no error";
  } catch (const UsageError& e) {  // not where in SentencePiece's source it was found
    const std::string what = e.what();
    EXPECT_EQ(what.find(".cc"), std::string::npos) << what;
    EXPECT_EQ(what.find("vocab_size"), std::string::npos) << what;
    EXPECT_NE(what.find("no bpe tokenizer of 5000 pieces"), std::string::npos) << what;
  }
  EXPECT_THROW(train_sentence_piece({"bpe", 50}, {scratch / "none"}), RunError);
  // A text that lies in two files, one of them compressed.
  const std::size_t half = text.find('\n', text.size() / 2) + 1;
  write_text(scratch / "first", text.substr(0, half));
  gzFile second = gzopen((scratch / "second.gz").c_str(), "wb");
  gzwrite(second, text.data() + half, static_cast<unsigned>(text.size() - half));
  gzclose(second);
  EXPECT_EQ(train_sentence_piece({"bpe", 35}, {scratch / "first", scratch / "second"}),
            train_sentence_piece({"bpe", 35}, {scratch / "text"}));
}

}  // namespace
}  // namespace lpmm
