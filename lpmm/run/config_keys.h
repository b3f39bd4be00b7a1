// The one list of a configuration's sections and keys, each with its range and one line of help. A visitor
// walks over it: the reader, the writer, the list that `lpmm config` prints.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "lpmm/data/sentences/sentence_sets.h"
#include "lpmm/files/toml_table.h"
#include "lpmm/memory/roles.h"
#include "lpmm/program/family.h"
#include "lpmm/run/config.h"

namespace lpmm::config_keys {

constexpr std::int64_t kMostSteps = 0xFFFFFFFE;  // the noise counts steps in 32 bits
constexpr double kMostAverage = 0.999999;
constexpr double kLeastWeight = 1e-6, kMostWeight = 1e6;
constexpr std::int64_t kAnyWhole = std::numeric_limits<std::int64_t>::max();

template <class T>
using Choices = std::vector<std::pair<std::string_view, T>>;

inline Choices<std::optional<Rounding>> rounding_choices() {
  Choices<std::optional<Rounding>> choices;
  for (std::size_t i = 0; i < kCommonRoundings.size(); ++i) {
    choices.emplace_back(kCommonRoundings[i], static_cast<Rounding>(i));
  }
  return choices;
}

inline Choices<std::string> device_choices() {
  Choices<std::string> names;
  for (const std::string_view name : kDeviceNames) names.emplace_back(name, name);
  return names;
}

inline Choices<std::string> data_choices(const FamilyList& families) {
  Choices<std::string> names;
  for (const TaskRow* task : families.tasks()) {
    for (const std::string_view name : task->sets()) names.emplace_back(name, name);
  }
  return names;
}

inline Choices<RuleName> rule_choices() {
  Choices<RuleName> names;
  for (const std::string_view name : rule_names()) names.emplace_back(name, RuleName::find(name).value());
  return names;
}

// The key that every item of a list has, and its text.
template <class Item>
std::pair<std::string_view, std::string_view> needed(const Item& item) {
  if constexpr (requires { item.pattern; }) {
    return {"pattern", item.pattern};
  } else {
    return {"path", item.path};
  }
}

// The names of these keys in other programs.
inline constexpr std::pair<std::string_view, std::string_view> kOtherWords[] = {
    {"lr", "optimizer.learning_rate"},
    {"wd", "optimizer.weight_decay"},
    {"decay", "optimizer.weight_decay"},
    {"eps", "optimizer.epsilon"},
    {"optimizer.name", "optimizer.rule"},
    {"optimizer", "optimizer.rule"},
    {"momentum", "optimizer.momentum"},  // not the spec of that role
    {"clip", "optimizer.clip_norm"},
    {"grad_clip", "optimizer.clip_norm"},
    {"max_grad_norm", "optimizer.clip_norm"},
    {"percentile_clipping", "optimizer.percentile_clip"},
    {"bs", "train.batch"},
    {"batch_size", "train.batch"},
    {"accumulation", "train.microbatches"},
    {"gradient_accumulation_steps", "train.microbatches"},
    {"precision", "train.compute"},
    {"dtype", "train.compute"},
    {"num_workers", "train.threads"},
    {"early_stopping", "train.patience"},
    {"max_steps", "train.steps"},
    {"lr_scheduler", "schedule.kind"},
    {"scheduler", "schedule.kind"},
    {"warmup", "schedule.warmup_steps"},
    {"dataset", "data.set"},
    {"policy", "memory.preset"},
    {"seq_len", "data.length"},
    {"block_size", "data.length"},
};

template <class Visitor, class Config>
void visit_model(Visitor& v, Config& c) {
  v.section("model");
  v.model(c.model, *c.families);  // its family says which keys there are
}

template <class Visitor, class Keys>
void visit_conversations(Visitor& v, Keys& keys) {
  const auto words = [](std::initializer_list<std::string_view> names) {
    Choices<std::string> choices;
    for (const std::string_view name : names) choices.emplace_back(name, name);
    return choices;
  };
  v.text("template", keys.chat_template,
         "conversations, preferences: the chat template that makes a text of messages: chatml, llama3 and "
         "others by name, a .jinja file or a model's folder; empty: that of train.init");
  v.choice("loss", keys.loss, words({"answers", "all", "last"}),
           "conversations: the tokens that are learnt, of the assistant's answers, of everything, or of the "
           "last answer");
  v.choice("too_long", keys.too_long, words({"cut", "drop", "split"}),
           "conversations of more than data.length tokens, and pairs of answers: cut off the end, leave them "
           "out, or (not of pairs) go on in another sequence");
  v.boolean(
      "skip_broken", keys.skip_broken,
      "conversations, preferences, sentences, pictures: leave out a row or a picture that cannot be read, "
      "and count it; false: stop there");
}

template <class Visitor, class Keys>
void visit_preferences(Visitor& v, Keys& keys) {
  v.number("beta", keys.beta, 1e-6, 1e6,
           "preferences: factor of the margin of a pair, of how much more probable than before training the "
           "chosen answer became than the rejected one; more stays nearer to the model that it starts from");
  v.number("label_smoothing", keys.smoothing, 0, 1,
           "preferences: share of the pairs that are taken to prefer the other answer, less than a half");
  v.choice("log_probability", keys.is_mean, Choices<bool>{{"sum", false}, {"mean", true}},
           "preferences: of an answer, the sum of its tokens' or their mean, which wants a beta of about 2");
}

// Which files the data is in.
template <class Visitor, class Options>
void visit_source(Visitor& v, Options& text) {
  v.text(
      "path", text.path,
      "text: file of text or of tokens, or a folder of .txt and .md; empty: licence texts of a Debian "
      "system. images: file, folder of pictures (CLASS/, or train/CLASS/ and "
      "test/CLASS/) or table of file and label. "
      "sentences: a .csv, .tsv, .jsonl or .json, or a folder of train and dev. pairs: folder of "
      "train.SOURCE, train.TARGET, dev... conversations and preferences: a .jsonl, .json, .csv or .tsv, or a "
      "folder of them. Save a .parquet, an .xlsx or another spreadsheet as one of these");
  v.list("mixture", text.mixture, [](auto& item, auto& file) {
    item.text("path", file.path, "text, conversations: one of several files to train on, as data.path");
    item.number("weight", file.weight, kLeastWeight, kMostWeight,
                "share of the sequences that this file has, over the sum of all weights");
  });
  v.text("test_path", text.test_path,
         "text, sentences, conversations, preferences: the file to test on, of pictures the folder of CLASS/ "
         "or the table; empty: a part of data.path, or for sentences the file that data.test_file names");
  v.boolean(
      "stream", text.streams,
      "text, conversations: make the tokens once, into a file of the folder of data sets, and read them "
      "from there: memory does not grow with the data");
}

template <class Visitor, class Data>
void visit_images(Visitor& v, Data& data) {
  v.boolean("augment", data.augment, "images: pad by 4, crop, flip");
  v.integer("train_images", data.train_images, 1, 10'000'000, "drawn: images to train on");
  v.integer("test_images", data.test_images, 1, 10'000'000, "drawn: images to test on");
  v.integer("draw_seed", data.draw_seed, 0, kAnyWhole,
            "drawn: seed of the images; pictures without a test folder: of the share");
  v.integer("side", data.side, kImageSide, kMostImageSide,
            "pixels of a side: drawn: a multiple of 32; of folders of pictures: 32 stands for what "
            "train.init has, if it is set");
}

template <class Visitor, class Config>
void visit_data(Visitor& v, Config& c) {
  v.section("data");
  v.choice("set", c.data.set, data_choices(*c.families),
           "what to train on; images: data.path; auto: cifar10 where it is found, else drawn");
  visit_images(v, c.data);
  visit_source(v, c.data.text);
  v.text(
      "columns", c.data.text.columns,
      "of a table: the columns to read, \"TEXT,LABEL\" or \"TEXT,TEXT,LABEL\", of pictures \"FILE,LABEL\", "
      "of conversations \"MESSAGES\", \"TEXT\" or \"QUESTION,ANSWER\", of preferences "
      "\"PROMPT,CHOSEN,REJECTED\"; empty: those of usual names, as text, file and label");
  v.text(
      "labels_between", c.data.text.labels_between,
      "sentences that have any number of labels: what stands between them, as \";\"; empty: one label each "
      "(lists of .jsonl need no word)");
  v.text("tokenizer", c.data.text.tokenizer,
         "text: characters, bytes, words, gpt2, or a tokenizer.json, vocab.txt or .model; not given: bytes "
         "without a path. conversations, preferences: the same but characters and words; not given: bytes. "
         "sentences: "
         "tokenizer.json or vocab.txt. pairs: one of both languages, with an end, "
         "or a folder of Marian's");
  v.text("tokenizer_folder", c.data.text.folder, "gpt2: folder of encoder.json and vocab.bpe");
  v.integer("words", c.data.text.words, 0, 1 << 24, "words: the most frequent, with <unk> and <eos>; 0: all");
  v.number("validation_share", c.data.text.validation_share, 0, 1,
           "share kept for tests where no file is: of a text its end, of sentences, conversations and "
           "preferences some "
           "that are drawn, of pictures some of each class");
  v.boolean("blocks", c.data.text.blocks,
            "text: each block of data.length tokens once per epoch, in place of windows drawn anywhere");
  v.integer("length", c.data.text.length, 0, 1 << 20,
            "text: tokens of a sequence; conversations, preferences: the same, which several of them fill; "
            "sentences: the "
            "most that are read of one; pairs: the most that one may have; 0: model.context");
  v.choice("test_file", c.data.test_file,
           Choices<std::string>{{kDevelopmentFile, std::string(kDevelopmentFile)},
                                {kTestFile, std::string(kTestFile)}},
           "sentences, pairs: the file to test on, test where it has answers");
  v.text("source", c.data.source, "pairs: language that is translated, the end of its files' names");
  v.text("target", c.data.target, "pairs: language that it is translated to");
  v.boolean("bleu", c.data.bleu, "pairs: translate the test set at every test, and score it by BLEU");
  v.boolean("cosine", c.data.cosine,
            "pairs of sentences: no head; compare the cosine of their embeddings with the score");
  visit_conversations(v, c.data.conversations);
  visit_preferences(v, c.data.preferences);
  v.choice("last_batch", c.data.keeps_last, Choices<bool>{{"drop", false}, {"keep", true}},
           "what is left of an epoch that is no whole batch: left out, or a step of its own");
}

template <class Visitor, class Config>
void visit_train(Visitor& v, Config& c) {
  v.section("train");
  v.integer("epochs", c.train.epochs, 0, 1'000'000, "times through the data; train.steps wins");
  v.integer("steps", c.train.steps, 0, kMostSteps, "updates in all; 0: by train.epochs");
  v.text("init", c.train.init, "run or checkpoint whose parameters a new run starts from");
  v.integer("batch", c.train.batch, 1, 1 << 20, "images or sequences per update");
  v.integer("microbatches", c.train.microbatches, 1, kMostMicrobatches,
            "parts a batch is computed in; more take less memory");
  v.integer("seed", c.train.seed, 0, kAnyWhole, "of initial values, order, noise");
  v.choice("compute", c.train.compute,
           Choices<ValueType>{{"bf16", ValueType::kBf16}, {"fp32", ValueType::kFp32}},
           "type of activations and products");
  v.choice("device", c.train.device, device_choices(),
           "auto: a GPU where there is one; cuda-emulated: a GPU's kernels, on the CPU and slow");
  v.integer("threads", c.train.threads, 0, 1024, "0: all processors; results do not depend on it");
  v.integer("eval_every_epochs", c.train.eval_every_epochs, 0, 1'000'000, "0: test only at the end");
  v.integer("max_failed_steps", c.train.max_failed_steps, 1, 1'000'000,
            "steps in a row with NaN or Inf that end the run");
  v.number(
      "average", c.train.average, 0, kMostAverage,
      "share of itself that an average of the weights, kept beside them, keeps at each update, as 0.999; "
      "eval, export and sample take it with --average; 0: none");
  v.integer("patience", c.train.patience, 0, 1'000'000,
            "tests in a row without a lower test loss that end the run; 0: none do");
}

template <class Visitor, class Config>
void visit_optimizer(Visitor& v, Config& c) {
  v.section("optimizer");
  v.choice("rule", c.optimizer.rule, rule_choices(), "how parameters are updated");
  v.learning_rate(c.optimizer, 0, kMostScalar, "the schedule's peak");
  v.number("weight_decay", c.optimizer.weight_decay, 0, kMostScalar,
           "pull of every parameter to 0; the rule says what it is added to");
  v.boolean("decay_vectors", c.optimizer.decay_vectors,
            "weight decay is also of tensors with one dimension, as norms and biases; false: as Trainer of "
            "transformers and timm have it");
  v.settings(c.optimizer);
  v.number("clip_norm", c.optimizer.clip_norm, 0, kMostScalar,
           "most that the gradient's norm may be; 0: any");
  v.integer("percentile_clip", c.optimizer.percentile_clip, 0, 99,
            "most that a tensor's gradient may be: so many of its last 100 norms were smaller; 0: any");
  v.list("group", c.optimizer.groups, [](auto& item, auto& group) {
    item.text("pattern", group.pattern, "tensors that this is for: \"bn*\"");
    item.number("learning_rate_scale", group.learning_rate_scale, 0, kMostScalar, "times the learning rate");
    item.number("weight_decay", group.weight_decay, -1, kMostScalar, "in place of the optimizer's; -1: that");
    item.boolean("frozen", group.frozen, "stored, but not trained");
  });
}

template <class Visitor, class Config>
void visit_schedule(Visitor& v, Config& c) {
  v.section("schedule");
  v.choice("kind", c.schedule.kind,
           Choices<ScheduleKind>{{"constant", ScheduleKind::kConstant},
                                 {"step", ScheduleKind::kStep},
                                 {"cosine", ScheduleKind::kCosine},
                                 {"linear", ScheduleKind::kLinear},
                                 {"inverse_square_root", ScheduleKind::kInverseSquareRoot}},
           "how the learning rate goes on after the warm-up");
  v.integer("warmup_steps", c.schedule.warmup_steps, 0, kMostSteps, "steps from 0 to the learning rate");
  v.number("final_scale", c.schedule.final_scale, 0, 1, "cosine, linear: share of the rate at the end");
  v.numbers("milestones", c.schedule.milestones, 0, 1, "step: shares of the run at which the rate falls");
  v.number("gamma", c.schedule.gamma, 0, kMostScalar, "step: times the rate at every milestone");
}

template <class Visitor, class Config>
void visit_memory(Visitor& v, Config& c) {
  v.section("memory");
  v.policy(c.policy, c.optimizer);
  v.boolean("error_feedback", c.policy.error_feedback,
            "give back through the momentum what rounding the parameter took");
  v.integer("min_elements", c.policy.min_elements, 0, kAnyWhole,
            "tensors with fewer elements stay fp32, unless an override names them");
  v.list("override", c.policy.overrides, [](auto& item, auto& o) {
    item.text("pattern", o.pattern, "tensors that this is for: \"fc*\"");
    for (const Role role : kEveryElementRole) {
      item.spec(role, o.specs[role], "spec of these tensors' role");
    }
    item.boolean("exempt", o.exempt, "keep these tensors in fp32");
  });
}

template <class Visitor, class Config>
void visit_files(Visitor& v, Config& c) {
  v.section("checkpoint");
  v.integer("every_steps", c.checkpoint.every_steps, 0, kMostSteps, "0: only at the end");
  v.integer("keep", c.checkpoint.keep, 0, 1'000'000, "the newest that stay; 0: all");
  v.boolean("final", c.checkpoint.final, "one at the end");
  v.boolean("keep_best", c.checkpoint.keep_best, "the one of the least test loss so far stays too");

  v.section("log");
  v.integer("every_steps", c.log.every_steps, 1, kMostSteps, "steps between two records of training");
  v.integer("underflow_every_steps", c.log.underflow_every_steps, 0, kMostSteps,
            "steps between two records of lost updates; 0: none");
  v.choice("tensors", c.log.tensors,
           Choices<TensorRecords>{{"last", TensorRecords::kLast}, {"all", TensorRecords::kAll}},
           "which records of lost updates tell of every tensor");
}

template <class Visitor, class Config>
void visit_watch(Visitor& v, Config& c) {
  v.section("watch");
  v.integer("every_steps", c.watch.every_steps, 0, kMostSteps,
            "steps between two measurements of every tensor's update; 0: no watch");
  v.boolean("every", c.policy.keeps_peaks,
            "keep of every parameter how far its update and its gradient went: 8 bits more each");
  v.integer("log_every_steps", c.watch.log_every_steps, 0, kMostSteps,
            "steps between two records of update statistics in the log; 0: none");
  v.integer("spikes", c.watch.spikes, 0, 1000,
            "spikes whose last steps, and the checkpoint before them, are kept");
}

template <class Visitor, class Config>
void visit_ranks(Visitor& v, Config& c) {
  v.section("ranks");
  v.integer(
      "slots", c.ranks.slots, 0, kMostMicrobatches,
      "sums of gradients that the microbatches of a step form; up to so many processes share a run, with "
      "equal results for any; 0: as many as it starts with (lpmm train --ranks)");
  v.integer("stage", c.ranks.stage, 1, 3,
            "1: every process has all weights; 3: it has its share, and takes the rest from the others as it "
            "reads them");
  v.boolean("reads", c.ranks.reads,
            "processes of one host read each other's memory where they can, rather than send what is wanted");
  v.boolean("nccl", c.ranks.nccl,
            "GPUs whose processes send do it by NCCL where that is found, rather than by the host's memory");
  v.integer("timeout_seconds", c.ranks.timeout_seconds, 1, 86'400,
            "seconds after which processes give up one that is silent; more than a test or a save takes");
}

template <class Visitor, class Config>
void visit(Visitor& v, Config& c) {
  visit_model(v, c);
  visit_data(v, c);
  visit_train(v, c);
  visit_optimizer(v, c);
  visit_schedule(v, c);
  visit_memory(v, c);
  visit_files(v, c);
  visit_watch(v, c);
  visit_ranks(v, c);
}

}  // namespace lpmm::config_keys
