#include "experiments/commands/text/text_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "lpmm/base/error.h"
#include "lpmm/program/family.h"
#include "lpmm/program/generate/stop_strings.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"

namespace lpmm {
namespace {

// Tokens that are computed at once: enough to share the decoding of weights.
constexpr std::size_t kReadPiece = 128;

}  // namespace

TextWriter::TextWriter(const std::string& path, int threads, std::optional<std::int64_t> context,
                       bool averages)
    : loaded_(path, threads, kTextTask, averages),
      context_(complete(loaded_.config.model).integer(kContext)) {
  const std::int64_t wanted = context.value_or(std::min(context_, kUsualContext));
  if (wanted > context_) {
    throw UsageError(fmt::format("a context of {} tokens: this model has {}", wanted, context_));
  }
  if (wanted != kWholeContext) context_ = wanted;
  state_.positions = context_;
  for (const auto& [name, ids] : stored_facts(checkpoint_run(loaded_.checkpoint)).tokens) {
    if (name == kEndToken) ends_ = ids;
  }
  if (const auto end = tokenizer().end_of_text()) ends_.push_back(*end);
}

std::span<const float> TextWriter::read(std::span<const std::int32_t> ids, const GoesOn& goes_on,
                                        const TakeRow& each) {
  std::size_t at = 0;
  state_.whole = std::ssize(ids);
  // LongRoPE: what is kept is rotated for texts of the other lengths.
  if (state_.short_length > 0 && state_.is_long != (state_.whole > state_.short_length)) read_.clear();
  if (!each) {
    // The last one is computed again: its logits are wanted.
    const std::size_t most = std::min(read_.size(), ids.size() - 1);
    while (at < most && read_[at] == ids[at]) ++at;
  }
  read_.resize(at);
  state_.position = static_cast<std::int64_t>(at);
  state_.all = static_cast<bool>(each);
  std::size_t vocabulary = 0;
  while (at < ids.size()) {
    if (goes_on && !goes_on()) return {};
    const auto piece = ids.subspan(at, std::min(kReadPiece, ids.size() - at));
    loaded_.infer(piece, state_);
    read_.insert(read_.end(), piece.begin(), piece.end());
    vocabulary = state_.all ? state_.logits.size() / piece.size() : state_.logits.size();
    for (std::size_t i = 0; state_.all && i < piece.size(); ++i) {
      each(at + i, std::span<const float>(state_.logits).subspan(i * vocabulary, vocabulary));
    }
    at += piece.size();
  }
  return std::span<const float>(state_.logits).last(vocabulary);
}

Written TextWriter::write(std::vector<std::int32_t> ids, const WriteOptions& o, const TakeToken& take,
                          const GoesOn& goes_on) {
  check_sampling(o.sampling);
  if (!o.rolls && std::ssize(ids) > context_) {
    throw RunError(
        fmt::format("{} tokens: the context has room for {}; take a shorter text", ids.size(), context_));
  }
  Written out;
  Utf8Stream characters;
  StopStrings stops(o.stops);
  std::size_t first = 0;  // the first token that the model looks back to
  const auto show = [&](std::int32_t id, std::span<const float> logits, const std::string& text) {
    out.text += text;
    return take({id, logits, text});
  };
  while (std::ssize(out.ids) < o.tokens) {
    if (std::ssize(ids) - static_cast<std::int64_t>(first) > context_) {
      if (!o.rolls) {
        out.ended = Ended::kContext;
        break;
      }
      first = ids.size() - static_cast<std::size_t>(std::max<std::int64_t>(1, context_ / 2));
    }
    const std::span<const float> logits = read(std::span<const std::int32_t>(ids).subspan(first), goes_on);
    // A vocabulary may have been padded: only tokens that mean something are drawn.
    const std::size_t known = std::min(logits.size(), static_cast<std::size_t>(tokenizer().vocabulary()));
    if (known == 0) {
      out.ended = Ended::kTaker;
      break;
    }
    ids.push_back(sample_token(logits.first(known), o.sampling, std::ssize(ids), ids));
    const bool begins = o.begins && out.ids.empty();
    out.ids.push_back(ids.back());
    if (std::ranges::find(ends_, ids.back()) != ends_.end()) {
      out.ended = Ended::kToken;
      break;
    }
    const std::string bytes = tokenizer().decode(std::span<const std::int32_t>(ids).last(1), begins);
    const bool goes = show(ids.back(), logits, stops.push(characters.push(bytes)));
    if (stops.found() || !goes) {
      out.ended = stops.found() ? Ended::kText : Ended::kTaker;
      break;
    }
  }
  std::string rest = stops.push(characters.finish());
  rest += stops.finish();
  if (!rest.empty() && !stops.found()) show(-1, {}, rest);
  return out;
}

}  // namespace lpmm
