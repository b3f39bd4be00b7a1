#include "lpmm/data/tokenizers/decoder.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "lpmm/data/tokenizers/characters.h"
#include "lpmm/data/tokenizers/growth.h"
#include "lpmm/data/tokenizers/part.h"
#include "lpmm/data/tokenizers/regex.h"

namespace lpmm {
namespace {

Decoder bytes_decoder(const Part&) {
  return [](const std::string& token, bool, std::size_t) { return unspelled_bytes(token).value_or(token); };
}

// <0x0A> is a byte.
Decoder fallback_decoder(const Part&) {
  return [](const std::string& token, bool, std::size_t) {
    unsigned byte = 0;
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return token;
    const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
    const bool whole = error == std::errc() && end == token.data() + 5;
    return whole ? std::string(1, static_cast<char>(byte)) : token;
  };
}

Decoder replace_decoder(const Part& part) {
  return [find = make_finder(part, "pattern"), what = part.text("content")](
             const std::string& token, bool, std::size_t room) { return replaced(token, find, what, room); };
}

// Takes up to `start` and `stop` times `content` off the ends.
Decoder strip_decoder(const Part& part) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::string content = part.text("content");
  if (content.empty()) throw part.refusal("content is empty");
  return [content, start = part.integer("start", 0, kMost, 0), stop = part.integer("stop", 0, kMost, 0)](
             std::string_view token, bool, std::size_t) {
    for (std::int64_t i = 0; i < start && token.starts_with(content); ++i)
      token.remove_prefix(content.size());
    for (std::int64_t i = 0; i < stop && token.ends_with(content); ++i) token.remove_suffix(content.size());
    return std::string(token);
  };
}

Decoder metaspace_decoder(const Part& part) {
  const bool drops = part.has("prepend_scheme") ? part.text("prepend_scheme") != "never"
                                                : part.flag("add_prefix_space", true);
  return [find = text_finder(part.text("replacement", "\u2581")), drops](const std::string& token, bool first,
                                                                         std::size_t) {
    return replaced(token, find, first && drops ? "" : " ");
  };
}

Decoder whole_tokens(const Part&) {
  return [](std::string token, bool, std::size_t) { return token; };
}

// Behind Fuse there is one text, whose start alone is known while tokens come one by one.
Decoder fused_decoder(const Part& part) {
  const bool strips = part.text("type") == "Strip" && part.integer("stop", 0, 1 << 20, 0) == 0;
  if (!strips) throw part.refusal("behind Fuse, only a Strip at the start is supported");
  return [strip = strip_decoder(part)](const std::string& token, bool first, std::size_t room) {
    return first ? strip(token, first, room) : token;
  };
}

Decoder make_one_decoder(const Part& part);

Decoder decoders(const Part& part) {
  std::vector<Decoder> all;
  bool fused = false;
  for (const Part& one : part.list("decoders")) {
    all.push_back(fused ? fused_decoder(one) : make_one_decoder(one));
    fused = fused || one.text("type") == "Fuse";
  }
  return [all](std::string token, bool first, std::size_t room) {
    for (const Decoder& one : all) token = one(std::move(token), first, room);
    return token;
  };
}

struct DecoderRow {
  std::string_view name;
  Decoder (*make)(const Part&);
};
constexpr DecoderRow kDecoders[] = {
    {"ByteLevel", bytes_decoder},
    {"WordPiece",
     [](const Part& part) {
       return word_piece_decoder(part.text("prefix", "##"), part.flag("cleanup", true));
     }},
    {"ByteFallback", fallback_decoder},
    {"Fuse", whole_tokens},
    {"Replace", replace_decoder},
    {"Strip", strip_decoder},
    {"Metaspace", metaspace_decoder},
    {"Sequence", decoders},
};

Decoder make_one_decoder(const Part& part) {
  return [decode = make_by_type(part, "decoder", kDecoders), error = grows_too_much(part)](
             std::string token, bool first, std::size_t room) {
    token = decode(std::move(token), first, room);
    if (token.size() > room) throw error;
    return token;
  };
}

}  // namespace

Decoder make_decoder(const Part& file) {
  return file.has("decoder") ? make_one_decoder(file.at("decoder")) : whole_tokens(file);
}

std::string cleaned_up(std::string text) {
  constexpr std::string_view kNoSpaceBefore[][2] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kNoSpaceBefore) text = replaced(text, text_finder(std::string(from)), to);
  return text;
}

Decoder word_piece_decoder(const std::string& prefix, bool cleanup) {
  return [=](std::string token, bool first, std::size_t) {
    if (!first && token.starts_with(prefix)) {
      token.erase(0, prefix.size());
    } else if (!first) {
      token.insert(0, " ");
    }
    return cleanup ? replaced(cleaned_up(std::move(token)), text_finder(" do not"), " don't") : token;
  };
}

}  // namespace lpmm
