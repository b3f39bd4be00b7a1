// Batches, and what they are made from. A batch is a pure integer function of (seed, epoch, index,
// microbatch), so prefetching owns no state and a resumed run sees the same examples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lpmm {

// One microbatch, ready for the network: normalised fp32 NHWC images and their labels, or sequences of tokens
// and the token after each. Of pairs, tokens go on from `source`.
struct Batch {
  std::int64_t count = 0;            // examples: images or sequences
  std::vector<float> images;         // (count, height, width, channels)
  std::vector<std::int32_t> tokens;  // (count, length)
  std::vector<std::int32_t> source;  // of pairs: (count, length)
  // (count) or (count, length); a negative one counts for nothing, where the model's loss leaves that open
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
  std::vector<float> targets;  // (count): in place of labels, of a model that tells a number
};

struct BatchPlan {
  std::uint64_t seed = 0;
  int batch = 0;         // examples per step
  int microbatches = 1;  // divides batch
  bool augment = false;  // images: pad 4, crop, flip
};

// A training and a test set.
class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual const std::string& name() const = 0;
  virtual const char* unit() const = 0;             // of labels: "images", "tokens" or "sentences"
  virtual std::int64_t train_examples() const = 0;  // of an epoch
  virtual std::int64_t test_examples() const = 0;
  virtual std::int64_t labels() const = 0;  // of one example
  // Of an epoch, where the loss of some does not count; 0: all count.
  virtual std::int64_t learnt_labels() const { return 0; }
  virtual std::int64_t test_items() const { return test_examples() * labels(); }  // in that unit
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
};

// Which of `count` examples comes at this place of an epoch's drawn order: a Feistel bijection of 0..count-1
// (Luby & Rackoff 1988) with Philox as round function, walking on from places at or above `count`. No state
// is kept.
std::int64_t drawn_order(std::uint64_t seed, std::int64_t epoch, std::int64_t count, std::int64_t position);

// Steps in an epoch: full batches only. Throws RunError where the set is smaller than a batch.
std::int64_t steps_per_epoch(const DataSource& data, int batch);

// Prepares the next microbatches on a thread of its own. next() returns them in order from (epoch, index).
class Prefetcher {
 public:
  Prefetcher(const DataSource& data, BatchPlan plan, std::int64_t epoch, std::int64_t index);
  ~Prefetcher();
  const Batch& next();  // valid until the following call; rethrows what the thread threw

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lpmm
