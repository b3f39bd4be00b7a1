// Training and test sets of token sequences, any of which can be taken alone: by batches, and by mixtures.
#pragma once

#include <cstdint>

#include "lpmm/data/batch.h"

namespace lpmm {

// Empties a batch for sequences of tokens, and keeps its room.
void begin_sequences(Batch& batch);

// A batch has the sequences of neighbouring places of an epoch.
class Sequences : public DataSource {
 public:
  const char* unit() const override { return "tokens"; }
  void make_batch(const BatchPlan& plan, std::int64_t epoch, std::int64_t index, int microbatch,
                  Batch& out) const override;
  void make_test_batch(std::int64_t first, std::int64_t count, Batch& out) const override;

  // Adds the sequence at that place of an epoch, or one that stands in for it behind the end: `counts` is
  // false there, and none of its labels counts.
  virtual void append(std::uint64_t seed, std::int64_t epoch, std::int64_t place, bool counts,
                      Batch& out) const = 0;
  // Labels of it that count; asked for only where some of an epoch do not (learnt_labels).
  virtual std::int64_t counted(std::uint64_t seed, std::int64_t epoch, std::int64_t place) const = 0;
  virtual void append_test(std::int64_t sequence, Batch& out) const = 0;

  virtual std::int64_t bytes() const = 0;          // of memory
  virtual std::int64_t loading_bytes() const = 0;  // of memory, while it was read
  virtual std::uint32_t checksum() const = 0;
};

}  // namespace lpmm
