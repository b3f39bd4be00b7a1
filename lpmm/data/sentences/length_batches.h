// Batches of examples that differ in length.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "lpmm/data/batch.h"

namespace lpmm {

// An epoch takes its batches from examples of about the same length: drawn order, those that are filled up to
// one of `lengths` together; what is left over in the end goes with the next longer ones. All of it is a pure
// function of (seed, epoch, index).
class LengthBatches {
 public:
  // `examples`: the length of each, at most the longest of `lengths`, which are ascending.
  LengthBatches(std::vector<int> lengths, std::vector<int> examples);

  struct Filled {
    std::vector<std::int32_t> examples;
    int length = 0;  // that all of them are filled up to
    // The examples of a microbatch, and how many of them count: the first ones. Others fill it up.
    std::pair<std::vector<std::int32_t>, std::int64_t> part(const BatchPlan& plan, int microbatch) const;
  };
  // All microbatches of a step. With plan.keeps_last the last one of an epoch may have fewer examples.
  Filled batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index) const;
  // The length that a stretch of test examples is padded to.
  static int filled(std::span<const int> lengths, int longest);

 private:
  using Epoch = std::vector<std::vector<std::int32_t>>;  // the examples of each batch
  std::shared_ptr<const Epoch> epoch_of(const BatchPlan& plan, std::int64_t epoch) const;

  std::vector<int> lengths_, examples_;
  // The last epoch that was asked for.
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Epoch> epoch_;
  mutable std::int64_t epoch_number_ = -1;
  mutable std::uint64_t epoch_seed_ = 0;
  mutable int epoch_batch_ = 0;
  mutable bool epoch_keeps_last_ = false;
};

}  // namespace lpmm
