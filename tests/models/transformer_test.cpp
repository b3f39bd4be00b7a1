// The translator: what transformers computed with small ones (tests/golden/make_marian_tiny.py and
// make_marian_text.py), the way there and back, beam search, steps of unequal microbatches.
#include <gtest/gtest.h>

#include "kernels/cpu.h"
#include "lpmm/files/files.h"
#include "lpmm/program/generate/beam_search.h"
#include "lpmm/program/generate/translate.h"
#include "lpmm/run/checkpoint.h"
#include "lpmm/run/stored_weights.h"
#include "models/families.h"
#include "models/published/layouts.h"
#include "models/published/published.h"
#include "tests/lpmm/data/sentence_pieces.h"
#include "tests/models/imported.h"
#include "tests/models/parameters.h"

namespace lpmm {
namespace {

const std::string kTinyMarian = LPMM_SOURCE_DIR "/tests/golden/marian_tiny";

// Against double precision: fp32 in PyTorch is 5e-4 off, and so are products of oneDNN; those of Eigen 1e-3.
double gradient_tolerance(const Device& device) {
  return device.compute_library().find("Eigen") == std::string::npos ? 5e-4 : 2e-3;
}

struct ExpectedPairs {
  SafetensorsFile file{kTinyMarian + "/expected.safetensors"};
  Batch batch;
  ExpectedPairs() {
    batch.count = 3;
    batch.length = 16;
    batch.source = values_of<std::int32_t>(file, "source");
    batch.tokens = values_of<std::int32_t>(file, "tokens");
    batch.labels = values_of<std::int32_t>(file, "labels");
    batch.lengths = values_of<std::int32_t>(file, "lengths");
    batch.step_labels = 9 + 16 + 5;
  }
};

ModelConfig tiny_marian() {
  return transformer_hugging_face().read(kTinyMarian);
}

class TransformerTest : public TemporaryFolderTest {
 protected:
  static Imported model(const ModelConfig& config = tiny_marian(), std::string_view device = "cpu") {
    return {transformer_hugging_face(), config, kTinyMarian, device};
  }
  ExpectedPairs expected_;
};

TEST_F(TransformerTest, SizesAreThoseOfTheNames) {
  const auto count = [](const char* name, std::int64_t vocabulary) {
    ModelConfig config = families().config(name);
    config.set(kVocabulary, vocabulary);
    config.set(kEnd, std::int64_t{0});
    config.set(kStart, std::int64_t{0});
    return parameters(*make_model(config));
  };
  // Layers of attention 4 w (w + 1) and MLP 2 w h + w + h, norms of 2 w; one embedding and a bias.
  const auto by_hand = [](std::int64_t n, std::int64_t w, std::int64_t h, std::int64_t v) {
    const std::int64_t attention = 4 * w * (w + 1) + 2 * w, mlp = 2 * w * h + w + h + 2 * w;
    return n * (3 * attention + 2 * mlp) + v * w + v;
  };
  EXPECT_EQ(count("transformer-tiny", 8000), by_hand(4, 128, 256, 8000));
  EXPECT_EQ(count("transformer-small", 100), by_hand(6, 512, 1024, 100));
  EXPECT_EQ(count("transformer-base", 100), by_hand(6, 512, 2048, 100));
  ModelConfig odd = tiny_marian();
  odd.set("heads", std::int64_t{3});
  EXPECT_THROW(make_model(odd), UsageError);
}

// Token by token, with what was kept, on both devices.
TEST_F(TransformerTest, LogitsAreThoseOfTransformers) {
  const std::vector<float> want = values_of<float>(expected_.file, "logits");
  for (const char* device : {"cpu", "cuda-emulated"}) {
    Imported m = model(tiny_marian(), device);
    const auto program = m.model->build_decoder(3, 16, ValueType::kFp32, m.device);
    Inference state;
    state.source = expected_.batch.source;
    state.source_lengths = expected_.batch.lengths;
    for (std::size_t t = 0; t < 16; ++t) {
      std::vector<std::int32_t> tokens;
      std::vector<float> wanted;
      for (std::size_t i = 0; i < 3; ++i) {
        tokens.push_back(expected_.batch.tokens[16 * i + t]);
        const auto row = want.begin() + static_cast<std::ptrdiff_t>((16 * i + t) * 47);
        wanted.insert(wanted.end(), row, row + 47);
      }
      program->infer(m.memory, tokens, state);
      expect_near_largest(state.logits, wanted, 1e-5, device + (" " + std::to_string(t)));
    }
  }
}

// Caches are as large as what will come, not as the model's context.
TEST_F(TransformerTest, CachesHaveRoomForTheTokensThatWillCome) {
  Imported m = model(tiny_marian());
  const auto program = m.model->build_decoder(3, 16, ValueType::kFp32, m.device);
  const auto state_of = [&](std::int64_t positions) {
    Inference state;
    state.source = expected_.batch.source;
    state.source_lengths = expected_.batch.lengths;
    state.positions = positions;
    return state;
  };
  Inference all = state_of(0), few = state_of(5);
  for (const std::int32_t token : {0, 3, 5, 7, 9}) {
    program->infer(m.memory, std::vector<std::int32_t>(3, token), all);
    program->infer(m.memory, std::vector<std::int32_t>(3, token), few);
    EXPECT_EQ(few.logits, all.logits);
  }
  EXPECT_THROW(program->infer(m.memory, std::vector<std::int32_t>(3, 1), few), RunError);
  program->infer(m.memory, std::vector<std::int32_t>(3, 1), all);
  const ModelConfig config = complete(tiny_marian());
  const std::int64_t row = 2 * 4 * config.integer("embedding"), layers = config.integer("decoder_layers");
  for (const Inference::Cache& cache : few.cache) {
    if (cache.position_bytes == 0) continue;  // a cache of the source
    EXPECT_EQ(cache.position_bytes, row);
    EXPECT_EQ(cache.sequence_bytes, 5 * row);
  }
  // Each layer keeps its own positions and the source's; the larger of the two is there once more, to
  // reorder.
  EXPECT_EQ(program->cache_bytes(5), layers * 3 * row * (5 + 16) + 3 * row * 16);
}

TEST_F(TransformerTest, TheLossIsOfTheLabelsThatAreThere) {
  ModelConfig config = tiny_marian();
  config.set("label_smoothing", 0.1);
  Imported m = model(config);
  const Buffers none({}, m.device);
  const auto program = m.model->build(3, ValueType::kFp32, m.device);
  const BatchResult got = program->evaluate(m.memory, none, expected_.batch);
  EXPECT_EQ(got.count, 30);
  EXPECT_NEAR(got.loss_sum / 30, values_of<float>(expected_.file, "loss")[0], 1e-5);
  // Tokens past the ends do not matter.
  Batch other = expected_.batch;
  for (std::size_t t = 11; t < 16; ++t) other.source[t] = 1;
  for (std::size_t t = 9; t < 16; ++t) other.tokens[t] = 2;
  EXPECT_EQ(program->evaluate(m.memory, none, other).loss_sum, got.loss_sum);
}

TEST_F(TransformerTest, GradientsOfEveryTensorAreThoseOfTransformers) {
  for (const auto& [device, recompute] : {std::pair{"cpu", false}, {"cpu", true}, {"cuda-emulated", false}}) {
    ModelConfig config = tiny_marian();
    config.set("label_smoothing", 0.1);
    config.set("recompute", recompute);
    Imported m = model(config, device);
    Buffers none({}, m.device);
    Step this_step = m.memory.begin_step({1});
    m.model->build(3, ValueType::kFp32, m.device)->train(m.memory, this_step, none, expected_.batch, 0);
    for (int t = 0; t < m.memory.tensors(); ++t) {
      const std::string& name = m.memory.info(t).name;
      expect_near_largest(m.gradient(t), values_of<float>(expected_.file, name), gradient_tolerance(m.device),
                          device + (" " + name), 1e-6);
    }
  }
}

// Microbatches of 9, 16 and 5 labels weigh as their labels do: the gradient is that of one batch.
TEST_F(TransformerTest, MicrobatchesWeighByTheirLabels) {
  ModelConfig config = tiny_marian();
  config.set("label_smoothing", 0.1);
  const auto device = make_device("cpu", 2);
  const auto m = make_model(config);
  ModelMemory memory(m->tensors(), make_policy("fp32"), {}, 1, 3, *device);
  transformer_hugging_face().load(kTinyMarian, memory);
  Buffers none({}, *device);
  const auto program = m->build(1, ValueType::kFp32, *device);
  Step this_step = memory.begin_step({1});
  for (int k = 0; k < 3; ++k) {
    const auto part = [&](const std::vector<std::int32_t>& all) {
      return std::vector<std::int32_t>(all.begin() + 16 * k, all.begin() + 16 * (k + 1));
    };
    Batch one;
    one.count = 1;
    one.length = 16;
    one.source = part(expected_.batch.source);
    one.tokens = part(expected_.batch.tokens);
    one.labels = part(expected_.batch.labels);
    one.lengths = {expected_.batch.lengths[static_cast<std::size_t>(k)]};
    one.step_labels = 30;
    program->train(memory, this_step, none, one, k);
  }
  for (int t = 0; t < memory.tensors(); ++t) {
    std::vector<float> got(static_cast<std::size_t>(memory.info(t).elements()));
    device->decode(memory.view(t, Role::kAccumulator), 0, std::ssize(got), got.data());
    expect_near_largest(got, values_of<float>(expected_.file, memory.info(t).name),
                        gradient_tolerance(*device), memory.info(t).name, 1e-6);
  }
}

// Everything packed, with dropout, in bf16.
TEST_F(TransformerTest, SameBitsForAnyThreads) {
  ModelConfig config = tiny_marian();
  config.set("dropout", 0.2);
  config.set("attention_dropout", 0.1);
  config.set("label_smoothing", 0.1);
  const auto run = [&](int threads) {
    const auto device = make_device("cpu", threads);
    const auto m = make_model(config);
    ModelMemory memory(m->tensors(), make_policy("lpmm-compact"), {}, 1, 1, *device);
    Buffers none({}, *device);
    m->initialize(memory, 1, {});
    const auto program = m->build(3, ValueType::kBf16, *device);
    std::vector<float> all;
    for (std::uint32_t step = 1; step <= 2; ++step) {
      Step this_step = memory.begin_step({step, 0.01});
      all.push_back(
          static_cast<float>(program->train(memory, this_step, none, expected_.batch, 0).read().loss_sum));
      std::move(this_step).commit();
    }
    for (int t = 0; t < memory.tensors(); ++t) {
      std::vector<float> v(static_cast<std::size_t>(memory.info(t).elements()));
      memory.decode(t, 0, v);
      all.insert(all.end(), v.begin(), v.end());
    }
    return all;
  };
  const std::vector<float> one = run(1);
  EXPECT_EQ(run(3), one);
  EXPECT_NE(one[0], one[1]);
}

TEST_F(TransformerTest, BeamsFindWhatGenerateFinds) {
  const std::vector<std::int32_t> all = values_of<std::int32_t>(expected_.file, "sources"),
                                  counts = values_of<std::int32_t>(expected_.file, "counts");
  std::vector<std::vector<std::int32_t>> sources;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(8 * i);
    sources.emplace_back(first, first + counts[i]);
  }
  Imported m = model();
  const std::vector<int> lengths = filled_lengths(24);
  for (const auto& [beams, penalty, name] :
       {std::tuple{5, 1.0, "found_5_1.0"}, {5, 0.6, "found_5_0.6"}, {1, 1.0, "found_1_1.0"}}) {
    SCOPED_TRACE(name);
    const std::vector<std::int32_t> found = values_of<std::int32_t>(expected_.file, name);
    const std::size_t width = found.size() / sources.size();
    const BeamOptions options{.beams = beams, .length_penalty = penalty, .most = 19, .start = 46, .end = 0};
    const auto got =
        beam_search(*m.model, m.memory, m.device, ValueType::kFp32, lengths, sources, options, 24);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto row = found.begin() + static_cast<std::ptrdiff_t>(i * width);
      EXPECT_EQ(got[i],
                std::vector<std::int32_t>(row, std::find(row, row + static_cast<std::ptrdiff_t>(width), 0)))
          << i;
    }
  }
  // Each sentence for itself, and in another order.
  const BeamOptions options{.most = 19, .start = 46, .end = 0};
  const auto together =
      beam_search(*m.model, m.memory, m.device, ValueType::kFp32, lengths, sources, options, 24);
  const std::vector<std::vector<std::int32_t>> last{sources[5]};
  EXPECT_EQ(beam_search(*m.model, m.memory, m.device, ValueType::kFp32, lengths, last, options, 24)[0],
            together[5]);
  const std::vector<std::vector<std::int32_t>> longest{std::vector<std::int32_t>(25, 3)};
  EXPECT_THROW(beam_search(*m.model, m.memory, m.device, ValueType::kFp32, lengths, longest, options, 24),
               UsageError);
}

// The expected texts come from transformers' tokenizer and generate().
TEST_F(TransformerTest, TranslationsAreThoseOfTransformers) {
  if (!missing_library().empty()) GTEST_SKIP() << missing_library();
  const std::string folder = LPMM_SOURCE_DIR "/tests/golden/marian_text";
  const auto stored = parse_json(read_text(folder + "/expected.json", 1 << 20))["translations"];
  std::vector<std::string> texts, wanted;
  for (const auto& pair : stored) {
    texts.push_back(pair[0].get<std::string>());
    wanted.push_back(pair[1].get<std::string>());
  }
  ASSERT_GE(texts.size(), 13U);
  ModelConfig config = transformer_hugging_face().read(folder);
  config.length = config.integer(kContext);
  Imported m(transformer_hugging_face(), config, folder);
  const auto tokenizer = load_tokenizer(folder);
  EXPECT_EQ(
      translate(config, ValueType::kFp32, *m.model, m.memory, m.device, *tokenizer, texts, {.most = 19}),
      wanted);
}

TEST_F(TransformerTest, TheWayThereAndBackGivesTheSameFile) {
  const ModelConfig config = tiny_marian();
  Imported m = model();
  const StoredWeights stored(
      save_checkpoint(path("c"), 0, "transformer", m.memory, Buffers({}, m.device), {{"x", 1}}, 0));
  transformer_hugging_face().save(stored, config, path("hf"), m.device);
  const SafetensorsFile first(kTinyMarian + "/model.safetensors"), second(path("hf/model.safetensors"));
  ASSERT_EQ(first.entries().size(), second.entries().size());
  for (const SafetensorsEntry& entry : first.entries()) {
    EXPECT_EQ(values_of<float>(first, entry.name), values_of<float>(second, entry.name)) << entry.name;
    EXPECT_EQ(second.find(entry.name)->shape, entry.shape) << entry.name;
  }
  EXPECT_EQ(published_family(path("hf")).name, "transformer");
  EXPECT_EQ(transformer_hugging_face().read(path("hf")).settings, config.settings);
  ModelConfig without = config;
  without.set(kEnd, std::int64_t{-1});
  EXPECT_THROW(transformer_hugging_face().save(stored, without, path("x"), m.device), UsageError);
}

TEST_F(TransformerTest, WhatItCannotReadIsSaid) {
  const auto said = [&](const char* key, const Json& value) -> std::string {
    Json config = parse_json(read_text(kTinyMarian + "/config.json", 1 << 20));
    config[key] = value;
    write_text(path("config.json"), config.dump());
    try {
      transformer_hugging_face().read(path("model.safetensors"));
    } catch (const RunError& e) {
      return e.what();
    }
    return "no error";
  };
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, Json>>{{"normalize_before", true},
                                                 {"scale_embedding", false},
                                                 {"activation_function", "gelu"},
                                                 {"static_position_embeddings", false},
                                                 {"decoder_ffn_dim", 21},
                                                 {"eos_token_id", 47},
                                                 {"decoder_start_token_id", nullptr},
                                                 {"decoder_vocab_size", 50},
                                                 {"tie_word_embeddings", false}}) {
    EXPECT_NE(said(key, value).find(key), std::string::npos) << said(key, value);
  }
  Imported m = model();
  const Buffers none({}, m.device);
  const auto program = m.model->build(3, ValueType::kFp32, m.device);
  const auto refused = [&](const auto& change) {
    Batch batch = expected_.batch;
    change(batch);
    EXPECT_THROW(program->evaluate(m.memory, none, batch), RunError);
  };
  refused([](Batch& b) { b.lengths[1] = 0; });
  refused([](Batch& b) { b.lengths[1] = 17; });
  refused([](Batch& b) { b.source.clear(); });
  refused([](Batch& b) { b.source[3] = 47; });
  refused([](Batch& b) { b.labels[3] = 47; });
  EXPECT_THROW(m.model->build_decoder(3, 20, ValueType::kFp32, m.device), std::logic_error);  // no program
  EXPECT_THROW(make_model(families().config("mlp"))->build_decoder(3, 8, ValueType::kFp32, m.device),
               UsageError);
}

}  // namespace
}  // namespace lpmm
