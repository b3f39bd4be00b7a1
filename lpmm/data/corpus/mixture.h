// Several sets of sequences in one, each with a weight.
//
// Of the places of a run, counted through all epochs, each set has the share that its weight has of all
// weights. Places of one set are spread evenly: among any n neighbouring places of m sets those of one set
// are less than 2 + m away from its share of n. The k-th place of a set has sequence k of it, in the order
// that is drawn for each pass over the set, so that every sequence comes once before one comes again. All
// this is integer arithmetic on (seed, epoch, place). A sequence is of one set: documents of several never
// share one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lpmm/data/corpus/sequences.h"

namespace lpmm {

// Which set a place belongs to, and how many places of it come before.
class MixtureOrder {
 public:
  // Shares are kept in 2^-24ths. Throws UsageError for a share that is less, naming the place of its weight.
  explicit MixtureOrder(std::span<const double> weights);
  std::pair<std::size_t, std::int64_t> at(std::int64_t place) const;
  // How many of the first `places` are of the set.
  std::int64_t count(std::size_t set, std::int64_t places) const;

 private:
  static constexpr std::int64_t kWhole = std::int64_t{1} << 24;
  std::int64_t due(std::size_t set, std::int64_t time) const;  // places of it until then
  std::int64_t due(std::int64_t time) const;                   // of all
  std::vector<std::int64_t> shares_;                           // of kWhole, which is their sum
};

// What a set of a mixture brings into an epoch.
struct MixtureShare {
  std::string name;
  double weight = 1;
  std::int64_t sequences = 0;  // that it has to train on
  std::int64_t taken = 0;      // that are taken of it in the first epoch
  std::int64_t tests = 0;      // that it has to test on
};

class Mixture : public Sequences {
 public:
  struct Part {
    std::shared_ptr<const Sequences> data;
    double weight = 1;
  };
  // Sets with sequences of one length, at least one. A set with nothing to train on is in the tests alone.
  // An epoch has as many sequences as all sets together; tests are on those of each set, one set after
  // another.
  explicit Mixture(std::vector<Part> parts);

  const std::string& name() const override { return name_; }
  std::int64_t train_examples() const override { return train_; }
  std::int64_t test_examples() const override { return test_; }
  std::int64_t labels() const override { return parts_.front().data->labels(); }
  std::int64_t learnt_labels() const override { return learnt_; }  // of an epoch, on average
  std::int64_t test_items() const override;
  std::vector<TestPart> test_parts() const override;
  void append(std::uint64_t seed, std::int64_t epoch, std::int64_t place, bool counts,
              Batch& out) const override;
  std::int64_t counted(std::uint64_t seed, std::int64_t epoch, std::int64_t place) const override;
  void append_test(std::int64_t sequence, Batch& out) const override;
  std::int64_t bytes() const override;
  std::int64_t loading_bytes() const override;
  std::uint32_t checksum() const override;

  std::vector<MixtureShare> shares() const;
  // For people: what of each is taken.
  std::string summary() const;

 private:
  struct Place {
    const Sequences& data;
    std::int64_t pass, place;
  };
  Place find(std::int64_t epoch, std::int64_t place) const;

  std::vector<Part> parts_;
  std::vector<std::size_t> trained_;  // the parts that the order's sets are
  MixtureOrder order_;
  std::string name_;
  std::int64_t train_ = 0, test_ = 0, learnt_ = 0;
};

}  // namespace lpmm
