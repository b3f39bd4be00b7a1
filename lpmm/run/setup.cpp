#include "lpmm/run/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lpmm/base/error.h"
#include "lpmm/data/image_sets.h"
#include "lpmm/files/files.h"
#include "lpmm/program/family.h"
#include "lpmm/run/checkpoint.h"

namespace lpmm {
namespace {

bool is_text(const RunConfig& config) {
  return config.data.set == "text";
}

bool is_sentences(const RunConfig& config) {
  return is_sentence_set(config.data.set);
}

// What a set holds, in a word.
std::string_view held_by(const RunConfig& config) {
  return is_text(config) ? "text" : is_sentences(config) ? "sentences" : "images";
}

// Counts and shapes, without pixels.
ImageData describe(const RunConfig& config) {
  const auto& data = config.data;
  if (data.set != kDrawnSet) return describe_images(data.set, data.text.path);
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
  if (!is_text(config) && !is_sentences(config)) return config;
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

// Of the checkpoint that the parameters come from; null where the configuration decides.
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

Setup::Setup(const RunConfig& given, std::unique_ptr<Tokenizer> tokenizer, const ProgressCall& progress)
    : config(without_data(given)) {
  if (is_sentences(config)) {
    open_sentences(tokenizer != nullptr ? std::move(tokenizer) : initial_tokenizer(config));
  } else if (is_text(config)) {
    open_text(tokenizer != nullptr ? std::move(tokenizer) : initial_tokenizer(config), progress);
  } else {
    size = use_images(describe(config), config.model);
  }
}

Setup::Setup(const RunConfig& given, const Setup& other) : config(without_data(given)) {
  const auto& data = config.data;
  const auto& known = other.config.data;
  const bool is_same = data.set == known.set && data.text == known.text && data.cosine == known.cosine &&
                       data.test_file == known.test_file && config.train.init == other.config.train.init;
  if (is_sentences(config) && other.sentences != nullptr && is_same) {
    config.model.classes = other.config.model.classes;
    config.model.set(kVocabulary, std::int64_t{other.config.model.integer(kVocabulary)});
    sentences = other.sentences;
    tokenizer = other.tokenizer;
    size = other.size;
  } else if (is_sentences(config)) {
    open_sentences(initial_tokenizer(config));
  } else if (!is_text(config)) {
    size = use_images(describe(config), config.model);
  } else if (other.text != nullptr && other.text->options() == config.data.text &&
             other.config.train.init == config.train.init) {
    use(other.text);
  } else {
    open_text(initial_tokenizer(config), {});
  }
}

void Setup::open_text(std::unique_ptr<Tokenizer> tokenizer, const ProgressCall& progress) {
  use(std::make_shared<const TextData>(config.data.text, std::move(tokenizer), progress));
}

void Setup::use(std::shared_ptr<const TextData> opened) {
  text = std::move(opened);
  tokenizer = std::shared_ptr<const Tokenizer>(text, text->tokenizer());
  const std::int64_t vocabulary = tokenizer->vocabulary();
  if (config.model.integer(kVocabulary) == 0) config.model.set(kVocabulary, vocabulary);
  if (config.model.integer(kVocabulary) < vocabulary) {
    throw UsageError(fmt::format("model.vocabulary = {}, but the tokens of {} go up to {}",
                                 config.model.integer(kVocabulary), text->name(), vocabulary - 1));
  }
  size = {text->train_examples(), text->test_examples(), text->bytes(), text->loading_bytes(),
          text->labels() * 2 * std::int64_t{sizeof(std::int32_t)}};
}

void Setup::open_sentences(std::unique_ptr<Tokenizer> given) {
  ModelConfig& model = config.model;
  const SentenceSet set = load_sentences(config.data.set, config.data.text.path, config.data.test_file);
  model.classes = set.is_number ? 1 : static_cast<int>(set.labels.size());
  if (config.data.cosine) model.classes = 0;
  if (given == nullptr && !names_tokenizer_files(config.data.text)) {
    throw UsageError(
        fmt::format("data.tokenizer = \"{}\": models of sentences read what a tokenizer.json or BERT's "
                    "vocab.txt puts together; "
                    "name one, or with train.init an imported model that has one",
                    config.data.text.tokenizer));
  }
  tokenizer = given != nullptr ? std::move(given) : load_tokenizer(tokenizer_files(config.data.text));
  const std::int64_t vocabulary = tokenizer->vocabulary();
  if (model.integer(kVocabulary) == 0) model.set(kVocabulary, vocabulary);
  if (model.integer(kVocabulary) < vocabulary) {
    throw UsageError(fmt::format("model.vocabulary = {}, but the tokenizer has {} tokens",
                                 model.integer(kVocabulary), vocabulary));
  }
  sentences =
      std::make_shared<const SentenceData>(set, tokenizer, filled_lengths(model.length), config.data.cosine);
  constexpr std::int64_t kNumbers = 3;  // ids, types, an answer
  size = {sentences->train_examples(), sentences->test_examples(), sentences->bytes(),
          sentences->bytes() + set.bytes(), kNumbers * model.length * std::int64_t{sizeof(std::int32_t)}};
}

std::int64_t steps_of(const Setup& setup) {
  const auto& train = setup.config.train;
  return train.steps > 0 ? train.steps : train.epochs * (setup.size.train_examples / train.batch);
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

std::unique_ptr<Tokenizer> saved_tokenizer(const std::string& checkpoint, const RunConfig& config) {
  const auto saved = checkpoint_run(checkpoint);
  const auto found = saved.find("tokenizer");
  if (found == saved.end()) return nullptr;
  try {
    return make_tokenizer(*found, tokenizer_files(config.data.text));
  } catch (const std::exception& e) {
    throw RunError(fmt::format("{}/state.json: {}", checkpoint, error_text(e)));
  }
}

std::shared_ptr<const DataSource> load_data(const Setup& setup, Pool& pool) {
  if (setup.text != nullptr) return setup.text;
  if (setup.sentences != nullptr) return setup.sentences;
  const auto& data = setup.config.data;
  return std::make_shared<const ImageData>(
      data.set == kDrawnSet
          ? draw_images(data.train_images, data.test_images, data.draw_seed, pool, data.side)
          : load_images(data.set, data.text.path));
}

}  // namespace lpmm
