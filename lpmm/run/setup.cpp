#include "lpmm/run/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/image_sets.h"
#include "lpmm/files/files.h"
#include "lpmm/program/family.h"
#include "lpmm/run/beside/model_files.h"
#include "lpmm/run/checkpoint.h"

namespace lpmm {
namespace {

bool is_text(const RunConfig& config) {
  return config.data.set == "text";
}

bool is_sentences(const RunConfig& config) {
  return is_sentence_set(config.data.set);
}

bool is_pairs(const RunConfig& config) {
  return is_pair_set(config.data.set);
}

bool is_images(const RunConfig& config) {
  return !is_text(config) && !is_sentences(config) && !is_pairs(config);
}

// What a set holds, in the words of what_is_read().
std::string_view held_by(const RunConfig& config) {
  return is_text(config)        ? "text"
         : is_sentences(config) ? "sentences"
         : is_pairs(config)     ? kReadsPairs
                                : "images";
}

// Counts and shapes, without pixels.
ImageData describe(const RunConfig& config) {
  const auto& data = config.data;
  if (data.set != kDrawnSet) return describe_images(data.set, data.text.path);
  check_drawn(data.train_images, data.test_images, data.side);
  ImageData drawn;
  drawn.train.height = drawn.train.width = data.side;
  drawn.train.count = data.train_images;
  drawn.test.count = data.test_images;
  return drawn;
}

// With all that can be told without the data; throws where the model cannot read it.
RunConfig without_data(RunConfig config) {
  if (config.data.set == "auto") config.data.set = has_cifar10(data_folder()) ? "cifar10" : kDrawnSet;
  if (what_is_read(config.model) != held_by(config)) {
    throw UsageError(fmt::format("model.name = {} reads {}, but data.set = {} holds {}", config.model.name,
                                 what_is_read(config.model), config.data.set, held_by(config)));
  }
  if (is_images(config)) return config;
  config.model = complete(config.model);
  const int context = config.model.integer(kContext);
  if (context < 1) {
    throw UsageError(
        fmt::format("model.context = {}: a {} has at least one position", context, config.model.name));
  }
  if (config.data.text.length == 0) config.data.text.length = context;
  config.model.length = config.data.text.length;
  return config;
}

// What sentences begin and end with, where the configuration does not say it: a translation begins with what
// the source ends with, but for tokenizers that say otherwise.
void take_ends(ModelConfig& model, const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) {
    throw UsageError(
        "data.tokenizer: a translator reads both languages by one SentencePiece .model, tokenizer.json, gpt2 "
        "or bytes, or by a folder of Marian's files; make one with lpmm data tokenizer, or name with "
        "train.init a model that has one");
  }
  const std::int64_t most = tokenizer->vocabulary();
  if (model.integer(kEnd) < 0) {
    const auto end = tokenizer->end_of_text();
    if (!end) {
      throw UsageError(
          fmt::format("model.{} = -1, but the tokenizer has no token that ends a text: name one", kEnd));
    }
    model.set(kEnd, std::int64_t{*end});
  }
  if (model.integer(kStart) < 0) {
    model.set(kStart, std::int64_t{tokenizer->before_translation().value_or(model.integer(kEnd))});
  }
  for (const std::string_view key : {kEnd, kStart}) {
    if (model.integer(key) >= std::max<std::int64_t>(most, model.integer(kVocabulary))) {
      throw UsageError(
          fmt::format("model.{} = {}: the tokens go up to {}", key, model.integer(key), most - 1));
    }
  }
}

// The tokenizer of the checkpoint that the parameters come from; null where the configuration decides.
std::unique_ptr<Tokenizer> initial_tokenizer(RunConfig& config) {
  if (config.train.init.empty()) return nullptr;
  const std::string checkpoint = find_checkpoint(config.train.init);
  take_tokenizer_files(config, checkpoint);
  return saved_tokenizer(checkpoint, config);
}

// The model reads what the data has.
DataSize use_images(const ImageData& data, ModelConfig& model) {
  model.height = data.train.height;
  model.width = data.train.width;
  model.channels = data.train.channels;
  model.classes = data.train.classes;
  const std::int64_t values = data.train.values(), held = data.train.mapped == nullptr ? values : 0;
  DataSize size;
  size.train_examples = data.train.count;
  size.test_examples = data.test.count;
  size.bytes = size.loading_bytes =
      (size.train_examples + size.test_examples) * (held + std::int64_t{sizeof(std::uint16_t)});
  size.example_bytes = values * std::int64_t{sizeof(float)} + std::int64_t{sizeof(std::int32_t)};
  return size;
}

}  // namespace

Setup::Setup(const RunConfig& given) : Setup(given, nullptr, {}) {}

Setup::Setup(const RunConfig& given, std::unique_ptr<Tokenizer> own, const ProgressCall& progress)
    : config(without_data(given)) {
  open(std::move(own), progress);
}

Setup::Setup(const RunConfig& given, const Setup& other) : config(without_data(given)) {
  const auto &data = config.data, &known = other.config.data;
  const bool is_same = data.set == known.set && data.text == known.text && data.cosine == known.cosine &&
                       data.test_file == known.test_file && data.source == known.source &&
                       data.target == known.target && config.train.init == other.config.train.init;
  if (!is_same || other.tokenizer == nullptr) {  // images are not read yet
    open(nullptr, {});
    return;
  }
  if (other.text != nullptr) use(other.text);
  if (other.sentences != nullptr) use(other.sentences, other.tokenizer);
  if (other.pairs != nullptr) use(other.pairs, other.tokenizer);
  size.bytes = other.size.bytes;  // with the tokenizer
}

void Setup::open(std::unique_ptr<Tokenizer> own, const ProgressCall& progress) {
  if (is_images(config)) {
    const ImageData described = describe(config);
    size = use_images(described, config.model);
    class_names = described.class_names;
    return;
  }
  const std::int64_t before = heap_bytes();
  read(std::move(own), progress);
  return_freed_memory();
  size.bytes = std::max(size.bytes, heap_bytes() - before);  // with the tokenizer
}

void Setup::read(std::unique_ptr<Tokenizer> own, const ProgressCall& progress) {
  if (own == nullptr) own = initial_tokenizer(config);
  if (is_text(config))
    return use(std::make_shared<const TextData>(config.data.text, std::move(own), progress));
  const std::string& named = config.data.text.tokenizer;
  if (own == nullptr && is_pairs(config) && (named == "bytes" || named == kGpt2Tokenizer)) {
    own = make_text_tokenizer(config.data.text, "");
  } else if (own == nullptr && names_tokenizer_files(config.data.text)) {
    own = load_tokenizer(find_tokenizer_files(config.data.text.tokenizer));
  }
  const std::shared_ptr<const Tokenizer> reads(std::move(own));
  if (is_pairs(config)) {
    take_ends(config.model, reads.get());
    const PairEnds ends{config.model.integer(kStart), config.model.integer(kEnd)};
    const auto& data = config.data;
    const PairSet set = load_pairs(data.set, data.text.path, data.source, data.target, data.test_file,
                                   !config.optimizer.frozen);
    return use(std::make_shared<const PairData>(set, *reads, ends, filled_lengths(config.model.length)),
               reads);
  }
  const SentenceSet set = load_sentences(config.data.set, config.data.text.path, config.data.test_file);
  use(std::make_shared<const SentenceData>(set, reads, filled_lengths(config.model.length),
                                           config.data.cosine),
      reads);
}

// The size of a set of sentences or pairs: three numbers for each token of a batch.
template <class Data>
static DataSize size_of(const Data& data) {
  constexpr std::int64_t kNumbers = 3;  // ids, types, an answer; or a token of each side, a label
  const int longest = data.longest();
  return {data.train_examples(),
          data.test_examples(),
          data.bytes(),
          data.loading_bytes(),
          kNumbers * longest * std::int64_t{sizeof(std::int32_t)},
          longest};
}

void Setup::use(std::shared_ptr<const TextData> opened) {
  text = std::move(opened);
  fit_vocabulary(std::shared_ptr<const Tokenizer>(text, text->tokenizer()), text->name());
  size = {text->train_examples(),
          text->test_examples(),
          text->bytes(),
          text->loading_bytes(),
          text->labels() * 2 * std::int64_t{sizeof(std::int32_t)},
          0};
}

void Setup::use(std::shared_ptr<const SentenceData> opened, std::shared_ptr<const Tokenizer> reads) {
  sentences = std::move(opened);
  config.model.classes = sentences->classes();
  class_names = sentences->class_names();
  check_types(config.model, *sentences);
  fit_vocabulary(std::move(reads), sentences->name());
  size = size_of(*sentences);
}

void Setup::use(std::shared_ptr<const PairData> opened, std::shared_ptr<const Tokenizer> reads) {
  pairs = std::move(opened);
  take_ends(config.model, reads.get());
  fit_vocabulary(std::move(reads), pairs->name());
  size = size_of(*pairs);
}

// The model knows all tokens.
void Setup::fit_vocabulary(std::shared_ptr<const Tokenizer> of, const std::string& name) {
  tokenizer = std::move(of);
  const std::int64_t vocabulary = tokenizer->vocabulary();
  if (config.model.integer(kVocabulary) == 0) config.model.set(kVocabulary, vocabulary);
  if (config.model.integer(kVocabulary) < vocabulary) {
    throw UsageError(fmt::format("model.vocabulary = {}, but the tokens of {} go up to {}",
                                 config.model.integer(kVocabulary), name, vocabulary - 1));
  }
}

bool take_from_run(RunConfig& config, const RunConfig& run) {
  if (!config.train.init.empty()) return false;
  if (config.data.set == "auto") config.data.set = run.data.set;
  config = without_data(config);
  if (config.model.name != run.model.name) return true;  // another run, as a comparison will say
  for (const auto& [key, open] : {std::pair{kVocabulary, 0}, {kStart, -1}, {kEnd, -1}}) {
    for (const auto& [own, value] : run.model.settings) {
      if (own == key && config.model.integer(key) == open) config.model.set(key, value);
    }
  }
  return true;
}

std::unique_ptr<Model> make_model(const RunConfig& config) {
  const auto& overrides = config.policy.overrides;
  const bool keeps_some = std::any_of(overrides.begin(), overrides.end(), [](const PolicyOverride& o) {
    return o.specs[Role::kAccumulator].has_value();
  });
  return make_model(config.model, config.policy.apply_at_once && !keeps_some);
}

std::int64_t steps_of(const Setup& setup) {
  const auto& train = setup.config.train;
  return train.steps > 0 ? train.steps : train.epochs * (setup.size.train_examples / train.batch);
}

void make_init_absolute(RunConfig& config) {
  std::string& init = config.train.init;
  if (!init.empty()) init = std::filesystem::absolute(init).lexically_normal().string();
}

void take_tokenizer_files(RunConfig& config, const std::string& checkpoint) {
  namespace fs = std::filesystem;
  const fs::path own =
      fs::absolute(checkpoint).lexically_normal().parent_path().parent_path() / "config.toml";
  std::error_code error;
  if (names_tokenizer_files(config.data.text) || !fs::exists(own, error)) return;
  const TextOptions text = load_config(own.string(), {}).data.text;
  if (names_tokenizer_files(text)) config.data.text.tokenizer = text.tokenizer;
}

void check_types(const ModelConfig& model, const SentenceData& sentences) {
  const int types = sentences.types(), known = model.integer(kTypes);
  if (known == 0 || types <= known) return;  // with 0 it does not read them
  throw UsageError(
      fmt::format("model.types = {}, but the tokenizer tells {} kinds of sentences apart in {}: the model "
                  "cannot read pairs that it puts together",
                  known, types, sentences.name()));
}

void check_trained(const Setup& setup) {
  const RunConfig& config = setup.config;
  if (setup.sentences != nullptr && config.model.classes == 0) {
    throw UsageError(
        "this model only embeds sentences, which is not trained: data.set names what to tell of them, "
        "without "
        "data.cosine");
  }
  const std::int64_t examples = setup.size.train_examples, steps = steps_of(setup);
  if (examples < config.train.batch) {
    throw UsageError(fmt::format("train.batch = {} is more than the {} training examples of {}",
                                 config.train.batch, examples, config.data.set));
  }
  if (steps >= std::int64_t{1} << 32) {
    throw UsageError(fmt::format("{} steps are too many; the most are 2^32 - 1", steps));
  }
}

std::unique_ptr<Tokenizer> saved_tokenizer(const std::string& checkpoint, const RunConfig& config) {
  const auto saved = checkpoint_run(checkpoint);
  const auto found = saved.find("tokenizer");
  if (found == saved.end()) return nullptr;
  try {
    auto tokenizer = make_tokenizer(*found, saved_tokenizer_files(checkpoint, config.data.text));
    const int rows = complete(config.model).integer(kVocabulary);
    if (rows > 0) tokenizer->fit(rows);
    return tokenizer;
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{} (the tokenizer of {}/state.json)", error_text(e), checkpoint));
  }
}

std::shared_ptr<const DataSource> load_data(const Setup& setup, Pool& pool) {
  if (setup.text != nullptr) return setup.text;
  if (setup.sentences != nullptr) return setup.sentences;
  if (setup.pairs != nullptr) return setup.pairs;
  const auto& data = setup.config.data;
  return fit_images(setup, data.set == kDrawnSet ? draw_images(data.train_images, data.test_images,
                                                               data.draw_seed, pool, data.side)
                                                 : load_images(data.set, data.text.path));
}

}  // namespace lpmm
