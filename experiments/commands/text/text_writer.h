// A language model that goes on with a text, token by token.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/commands/runs/loaded_model.h"
#include "lpmm/program/generate/sampling.h"

namespace lpmm {

// The context of commands that keep a text, for models with more positions, unless a user sets another.
inline constexpr std::int64_t kUsualContext = 4096;
inline constexpr std::int64_t kWholeContext = 0;

struct WriteOptions {
  SamplingOptions sampling = {};
  std::int64_t tokens = 200;            // to write at most
  std::vector<std::string> stops = {};  // texts that end it, which are not written
  bool rolls = false;                   // goes on from its second half when the context is full
  bool begins = false;                  // the first token begins a text (Tokenizer::decode)
};

// The reason why it ended: an end token, a stop text, options.tokens, the context, or whoever takes tokens.
enum class Ended { kToken, kText, kTokens, kContext, kTaker };

struct WrittenToken {
  std::int32_t id = 0;
  std::span<const float> logits;  // those it was drawn from, (vocabulary), before options.sampling
  std::string_view text;          // the characters that are certain only now, all of them whole
};

struct Written {
  std::vector<std::int32_t> ids;  // with the token that ended it
  std::string text;
  Ended ended = Ended::kTokens;
};

// Writes texts, for one thread at a time.
class TextWriter {
 public:
  // Takes each token but one that ends the text, last of all the rest of the text with id -1 where there is
  // any; false ends it.
  using TakeToken = std::function<bool(const WrittenToken&)>;
  // Row i has the logits after ids[i].
  using TakeRow = std::function<void(std::size_t i, std::span<const float> logits)>;
  // Is asked between the pieces of a long text; false ends the reading.
  using GoesOn = std::function<bool()>;

  // `context`: positions to keep; kWholeContext: as many as the model has. Throws UsageError for more.
  // `averages`: of the weights that train.average kept, not the last ones.
  TextWriter(const std::string& path, int threads, std::optional<std::int64_t> context, bool averages);

  LoadedModel& loaded() { return loaded_; }
  const Tokenizer& tokenizer() { return loaded_.tokenizer(); }
  std::int64_t context() const { return context_; }
  // The tokens that end a text: those that the run says, and its tokenizer's.
  const std::vector<std::int32_t>& ends() const { return ends_; }
  void add_end(std::int32_t id) { ends_.push_back(id); }

  // Returns the logits after the last of `ids`, 1 to context() of them. A beginning that they share with the
  // last text is not computed again, unless `each` wants it. Empty if `goes_on` ended it.
  std::span<const float> read(std::span<const std::int32_t> ids, const GoesOn& goes_on = {},
                              const TakeRow& each = {});
  // The next text is computed as the first one would be, to the bit.
  void forget() { read_.clear(); }
  // Throws UsageError for options that are none, RunError for more `ids` than there is context, where it does
  // not roll.
  Written write(std::vector<std::int32_t> ids, const WriteOptions& options, const TakeToken& take,
                const GoesOn& goes_on = {});

 private:
  LoadedModel loaded_;
  std::int64_t context_;
  std::vector<std::int32_t> ends_;
  Inference state_;
  std::vector<std::int32_t> read_;  // whose keys and values are kept
};

}  // namespace lpmm
