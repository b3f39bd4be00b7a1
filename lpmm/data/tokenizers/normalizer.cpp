#include "lpmm/data/tokenizers/normalizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "lpmm/data/tokenizers/characters.h"
#include "lpmm/data/tokenizers/growth.h"
#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/tokenizers/regex.h"
#include "lpmm/data/tokenizers/sentence_piece/charsmap.h"
#include "lpmm/data/utf8.h"

namespace lpmm {
namespace {

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// Each character goes to `write(code, out)`.
template <class Write>
std::string map_characters(const std::string& text, const Write& write) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character c = first_character(std::string_view(text).substr(at));
    write(c.code, out);
    at += c.bytes;
  }
  return out;
}

// utf8proc_map, but in time n log n: that moves each mark of a run step by step to its place.
std::string unicode_form(std::string text, int options) {
  if (is_ascii(text)) return text;
  constexpr utf8proc_ssize_t kLongest = 32;  // what one character becomes; U+FDFA 18
  std::vector<utf8proc_int32_t> codes;
  const auto of = static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE);
  int last = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const auto used = codes.size();
    codes.resize(used + kLongest);
    const auto made = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), codes.data() + used,
                                              kLongest, of, &last);
    if (made < 0 || made > kLongest)
      throw UsageError("a text cannot be normalised: " + shown(text.substr(at)));
    codes.resize(used + static_cast<std::size_t>(made));
    at += c.bytes;
  }
  const auto order = [](utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; };
  const auto starts = [&](utf8proc_int32_t code) { return order(code) == 0; };
  for (auto run = codes.begin(); run != codes.end();) {
    const auto end = std::find_if(run, codes.end(), starts);
    std::ranges::stable_sort(run, end, {}, order);
    run = std::find_if_not(end, codes.end(), starts);
  }
  const auto count = utf8proc_normalize_utf32(codes.data(), std::ssize(codes), of);
  std::string out;
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    out += utf8(static_cast<char32_t>(codes[static_cast<std::size_t>(i)]));
  return out;
}

template <int kOptions>
Normalizer form_normalizer(const Part&) {
  return [](std::string text, std::size_t) { return unicode_form(std::move(text), kOptions); };
}

void write_lower(char32_t code, std::string& out) {
  if (code == 0x130) {  // the one that becomes two
    out += "i\u0307";
  } else {
    out += utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  }
}

std::string lowered(const std::string& text, std::size_t = 0) {
  return map_characters(text, write_lower);
}

Normalizer strip_accents_normalizer(const Part&) {
  return [](const std::string& text, std::size_t) {
    return map_characters(text, [](char32_t code, std::string& out) {
      if (!is_mark(code)) out += utf8(code);
    });
  };
}

Normalizer bert_part_normalizer(const Part& part) {
  const bool lowercase = part.flag("lowercase", true);
  return bert_normalizer(part.flag("clean_text", true), part.flag("handle_chinese_chars", true),
                         part.flag("strip_accents", lowercase), lowercase);
}

Normalizer prepend_normalizer(const Part& part) {
  return [what = part.text("prepend")](const std::string& text, std::size_t) {
    return text.empty() ? text : what + text;
  };
}

Normalizer replace_normalizer(const Part& part) {
  return [find = make_finder(part, "pattern"), what = part.text("content")](
             const std::string& text, std::size_t room) { return replaced(text, find, what, room); };
}

Normalizer strip_normalizer(const Part& part) {
  return [left = part.flag("strip_left", true), right = part.flag("strip_right", true)](
             const std::string& text, std::size_t) {
    std::size_t begin = 0, end = 0;  // of what is kept
    bool within = !left;
    for (std::size_t at = 0; at < text.size();) {
      const Character c = first_character(std::string_view(text).substr(at));
      const bool space = is_white_space(c.code);
      if (!space && !within) begin = at, within = true;
      at += c.bytes;
      if (!space || !right) end = at;
    }
    return within && begin < end ? text.substr(begin, end - begin) : std::string();
  };
}

// Spells bytes as the ByteLevel pre-tokenizer does, but of the whole text.
Normalizer byte_level_normalizer(const Part&) {
  return [](const std::string& text, std::size_t) { return spelled_bytes(text); };
}

// The spaces and controls of SentencePiece's nmt_*.
Normalizer nmt_normalizer(const Part&) {
  return [](const std::string& text, std::size_t) {
    return map_characters(text, [](char32_t c, std::string& out) {
      const bool is_dropped =
          (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
      const bool is_space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                            (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                            c == 0xFEFF || c == 0xFFFD;
      if (!is_dropped) out += is_space ? " " : utf8(c);
    });
  };
}

std::string from_base64(const Part& part, const char* key) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = part.text(key), bytes;
  const bool is_whole = text.size() % 4 == 0;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.pop_back();
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos || !is_whole) throw part.refusal(fmt::format("{} is no base64", key));
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 > 0) bytes.push_back(static_cast<char>(bits >> (6 - 2 * (i % 4)) & 0xFF));
  }
  return bytes;
}

// Calls use() with each cluster of characters that a reader takes for one.
template <class Use>
void for_clusters(std::string_view text, const Use& use) {
  utf8proc_int32_t state = 0;
  std::size_t begin = 0;
  char32_t last = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character c = first_character(text.substr(at));
    const bool breaks =
        at > 0 && utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last),
                                                   static_cast<utf8proc_int32_t>(c.code), &state);
    if (breaks) {
      use(text.substr(begin, at - begin));
      begin = at;
    }
    last = c.code;
    at += c.bytes;
  }
  if (begin < text.size()) use(text.substr(begin));
}

// SentencePiece's map of characters as the `tokenizers` library applies it: to short clusters as a whole, of
// which the shortest start that the map knows stands for all.
Normalizer charsmap_normalizer(const Part& part) {
  constexpr std::size_t kShort = 5;
  const std::string map = from_base64(part, "precompiled_charsmap");
  const std::string_view why = map.empty() ? "it is empty" : charsmap_damage(map);
  if (!why.empty())
    throw part.refusal(fmt::format("precompiled_charsmap is damaged: {}; get the file again", why));
  return [map](const std::string& text, std::size_t room) {
    std::string out;
    for_clusters(text, [&](std::string_view cluster) {
      if (out.size() > room) return;  // make_one_normalizer refuses it
      const auto whole = cluster.size() <= kShort ? find_in_charsmap(map, cluster) : std::nullopt;
      if (whole) {
        out += *whole;
        return;
      }
      for (std::size_t at = 0; at < cluster.size();) {
        const std::string_view one = cluster.substr(at, first_character(cluster.substr(at)).bytes);
        out += find_in_charsmap(map, one).value_or(one);
        at += one.size();
      }
    });
    return out;
  };
}

Normalizer make_one_normalizer(const Part& part);

Normalizer sequence_normalizer(const Part& part) {
  std::vector<Normalizer> all;
  for (const Part& one : part.list("normalizers")) all.push_back(make_one_normalizer(one));
  return [all](std::string text, std::size_t room) {
    for (const Normalizer& one : all) text = one(std::move(text), room);
    return text;
  };
}

struct NormalizerRow {
  std::string_view name;
  Normalizer (*make)(const Part&);
};
constexpr NormalizerRow kNormalizers[] = {
    {"BertNormalizer", bert_part_normalizer},
    {"NFC", form_normalizer<UTF8PROC_COMPOSE>},
    {"NFD", form_normalizer<UTF8PROC_DECOMPOSE>},
    {"NFKC", form_normalizer<UTF8PROC_COMPOSE | UTF8PROC_COMPAT>},
    {"NFKD", form_normalizer<UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT>},
    {"Nmt", nmt_normalizer},
    {"Precompiled", charsmap_normalizer},
    {"Lowercase", [](const Part&) -> Normalizer { return lowered; }},
    {"StripAccents", strip_accents_normalizer},
    {"Prepend", prepend_normalizer},
    {"Replace", replace_normalizer},
    {"Strip", strip_normalizer},
    {"ByteLevel", byte_level_normalizer},
    {"Sequence", sequence_normalizer},
};

Normalizer make_one_normalizer(const Part& part) {
  return [normalize = make_by_type(part, "normalizer", kNormalizers), error = grows_too_much(part)](
             std::string text, std::size_t room) {
    text = normalize(std::move(text), room);
    if (text.size() > room) throw error;
    return text;
  };
}

}  // namespace

Normalizer make_normalizer(const Part& file) {
  if (!file.has("normalizer")) return [](std::string text, std::size_t) { return text; };
  return make_one_normalizer(file.at("normalizer"));
}

Normalizer bert_normalizer(bool clean_text, bool chinese, bool strip_accents, bool lowercase) {
  return [=](std::string text, std::size_t) {
    text = map_characters(text, [=](char32_t code, std::string& out) {
      if (clean_text && (code == 0 || code == 0xFFFD || is_bert_control(code))) return;
      const bool ideograph = chinese && is_bert_ideograph(code);
      if (ideograph) out += ' ';
      out += clean_text && is_white_space(code) ? " " : utf8(code);
      if (ideograph) out += ' ';
    });
    if (strip_accents) {
      text = map_characters(unicode_form(std::move(text), UTF8PROC_DECOMPOSE),
                            [](char32_t code, std::string& out) {
                              if (!is_nonspacing_mark(code)) out += utf8(code);
                            });
    }
    return lowercase ? lowered(text) : text;
  };
}

}  // namespace lpmm
