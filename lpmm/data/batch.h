// Batches, and what they are made from. A batch is a pure integer function of (seed, epoch, index,
// microbatch), so prefetching owns no state and a resumed run sees the same examples.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sequence.h"

namespace lpmm {

// One microbatch, ready for the network: normalised fp32 NHWC images and their labels, or sequences of tokens
// and the token after each. In data of pairs, tokens continue `source`.
struct Batch {
  std::int64_t count = 0;            // examples: images or sequences
  std::vector<float> images;         // (count, height, width, channels)
  std::vector<std::int32_t> tokens;  // (count, length)
  std::vector<std::int32_t> source;  // of pairs: (count, length)
  // (count) or (count, length); of tokens a negative one counts for nothing. Labels or targets of fewer than
  // `count` examples are of the first ones; the others fill the batch up.
  std::vector<std::int32_t> labels;
  int length = 0;  // that all sequences are filled up to, where they differ; 0: the model's
  // (count): how many of the first positions of each sequence, of pairs of each source, are there; empty: all
  std::vector<std::int32_t> lengths;
  // Labels that count in all microbatches of the step together; 0: as many in each.
  std::int64_t step_labels = 0;
  std::vector<std::int32_t> types;  // (count, length): which sentence a token is of
  // (count, length): where the document of each position begins in its sequence, for models that keep
  // documents apart (ModelConfig::documents); empty: a sequence is one document
  std::vector<std::int32_t> starts;
  // Documents of which one is preferred to the other, in rows of all sequences. Where there are some, the
  // loss and step_labels are of them, not of tokens.
  std::vector<kernels::PreferencePair> preferences;
  // Used in place of labels: (count) for a model that predicts a number, or (count, classes), 1 for each
  // class that an example has.
  std::vector<float> targets;
};

struct BatchPlan {
  std::uint64_t seed = 0;
  int batch = 0;         // examples per step
  int microbatches = 1;  // divides batch
  bool augment = false;  // images: pad 4, crop, flip
  // An epoch ends with a batch of the examples that are left over. Others fill it up, which do not count
  // (Batch::labels).
  bool keeps_last = false;
  // The microbatches of each step that are made: `count` from `first` on; 0: all.
  int first = 0, count = 0;

  int examples() const { return batch / microbatches; }  // of a microbatch
  // Returns how many of a microbatch's examples count, where the epoch has `all`: the first ones.
  std::int64_t counted(std::int64_t all, std::int64_t index, int microbatch) const;
  // Batch::step_labels of such a batch, with so many labels per example; 0 where it is whole.
  std::int64_t step_labels(std::int64_t all, std::int64_t index, std::int64_t labels = 1) const;
};

// Test examples that follow each other and are from one place.
struct TestPart {
  std::string name;
  std::int64_t examples = 0;
};

// A training and a test set.
class ReferredData;
class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual const std::string& name() const = 0;
  virtual const char* unit() const = 0;             // of labels: "images", "tokens" or "sentences"
  virtual std::int64_t train_examples() const = 0;  // of an epoch
  virtual std::int64_t test_examples() const = 0;
  virtual std::int64_t labels() const = 0;  // of one example
  // The labels of an epoch that count, where the loss of some does not; 0: all count.
  virtual std::int64_t learnt_labels() const { return 0; }
  virtual std::int64_t test_items() const { return test_examples() * labels(); }  // in that unit, or:
  virtual const char* test_unit() const { return unit(); }
  // The test examples in order: of a mixture those of each file, whose losses are told apart.
  virtual std::vector<TestPart> test_parts() const { return {{name(), test_examples()}}; }
  // Microbatch `microbatch` of step `index` of `epoch`.
  virtual void make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                          Batch& out) const = 0;
  // The scores of the set besides loss and accuracy, from a model's outputs for all test examples in order;
  // empty where there are none.
  using Scores = std::vector<std::pair<std::string, double>>;
  virtual Scores score(std::span<const float> /*outputs*/) const { return {}; }
  virtual bool has_scores() const { return false; }
  // Test examples [first, first+count), in order, not augmented.
  virtual void make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const = 0;
  // Itself, where its loss compares with what the model said before it was trained, else null.
  virtual const ReferredData* referred() const { return nullptr; }
};

// Data whose loss is of pairs of answers (Batch::preferences), compared with a reference: what the model said
// of all of them before it was trained.
class ReferredData : public DataSource {
 public:
  const ReferredData* referred() const final { return this; }
  // Examples to ask a model of, those of training and then those of tests, and how many numbers it says of
  // all of them, in order.
  virtual std::int64_t all_examples() const = 0;
  virtual std::int64_t reference_size() const = 0;
  virtual void make_reference_batch(std::int64_t first, std::int64_t count, Batch& out) const = 0;
  // What a reference depends on besides the model: names and values.
  virtual std::map<std::string, std::string> reference_key() const = 0;
  // The same data with those numbers; until then they are 0.
  virtual std::shared_ptr<const DataSource> with_reference(std::vector<float> numbers) const = 0;
};

// Returns which of `count` examples comes at this place of an epoch's drawn order: a Feistel bijection of
// 0..count-1 (Luby & Rackoff 1988) with Philox as round function, walking on from places at or above `count`.
// No state is kept.
std::int64_t drawn_order(std::uint64_t seed, std::int64_t epoch, std::int64_t count, std::int64_t position);

// Steps in an epoch of so many examples: full batches only, or with `keeps_last` all.
constexpr std::int64_t steps_in(std::int64_t examples, std::int64_t batch, bool keeps_last) {
  return (examples + (keeps_last ? batch - 1 : 0)) / batch;
}
// The same of a set. Throws RunError where it is smaller than a batch.
std::int64_t steps_per_epoch(const DataSource& data, int batch, bool keeps_last = false);

// Prepares the next microbatches on a thread of its own. next() returns them in order from (epoch, index).
class Prefetcher {
 public:
  // Prepares only those microbatches of each step that the plan names.
  Prefetcher(const DataSource& data, BatchPlan plan, std::int64_t epoch, std::int64_t index);
  ~Prefetcher();
  const Batch& next();  // valid until the following call; rethrows what the thread threw

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lpmm
