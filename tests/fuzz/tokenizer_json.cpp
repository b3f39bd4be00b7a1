// A tokenizer.json up to the first zero byte; the text that it encodes is what follows, and the input itself.
#include "lpmm/data/tokenizers/pipeline.h"
#include "tests/fuzz/input.h"

namespace {

lpmm::fuzz::MemoryFile json;

std::string make_json_folder() {
  std::string folder = lpmm::fuzz::memory_folder();
  lpmm::fuzz::place(folder, "tokenizer.json", json);
  return folder;
}

}  // namespace

LPMM_FUZZ_TARGET(bytes) {
  static const std::string folder = make_json_folder();
  const auto [first, second] = lpmm::fuzz::split(bytes);
  json.set(first);
  const auto tokenizer = lpmm::load_pipeline_tokenizer(folder);
  for (const std::string_view text : {lpmm::fuzz::text(second), lpmm::fuzz::text(first)}) {
    lpmm::fuzz::read([&] {
      const auto ids = tokenizer->encode(text);
      tokenizer->decode(ids);
      std::vector<std::int32_t> pieces;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = tokenizer->encode_from(text, at, std::min(at + 100, text.size()), pieces);
        lpmm::fuzz::must(end > at);
        at = end;
      }
      tokenizer->decode(pieces);
      lpmm::fuzz::must(tokenizer->encode_sentences(text, text, 64).ids.size() <= 64);
    });
  }
}
