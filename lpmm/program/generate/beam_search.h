// Beam search: for each source the translation that a model of pairs thinks likeliest, among those that the
// few best beginnings lead to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/compute.h"
#include "lpmm/base/progress.h"
#include "lpmm/memory/model_memory.h"
#include "lpmm/program/program.h"

namespace lpmm {

struct BeamOptions {
  int beams = 5;              // beginnings that are kept; 1: the likeliest token each time
  double length_penalty = 1;  // a translation of n tokens has log probability / n^length_penalty
  int most = 0;               // tokens of a translation, its end too; 0: three times the source's and 10
  std::int32_t start = 0, end = 0;
  std::int64_t vocabulary = 0;  // of the model's tokens only the first so many are told; 0: all
};

// The beams of one sentence, as transformers' generate() keeps them: of the 2 * beams likeliest continuations
// those that end become translations, where they are among the first `beams`, and the best of the others go
// on. It is done when `beams` translations are there and the best beam, at its length, is behind all.
class Beams {
 public:
  Beams(const BeamOptions& options, int most);
  // The next token of each beam, from the logits after the ones before, (beams, vocabulary); parents[i] is
  // the beam that beam i goes on from.
  void step(std::span<const float> logits, std::span<std::int32_t> parents, std::span<std::int32_t> tokens);
  bool is_done() const { return is_done_; }
  const std::vector<std::int32_t>& best() const { return finished_.front().tokens; }  // without the end

 private:
  struct Beam {
    std::vector<std::int32_t> tokens;
    float score = 0;
  };
  struct Candidate {
    float score;
    std::int32_t beam, token;
  };
  std::vector<Candidate> candidates(std::span<const float> logits) const;
  void finish(Beam beam);

  BeamOptions options_;
  std::int64_t most_, length_ = 0;
  std::vector<Beam> running_, finished_;  // the best first
  bool is_done_ = false;
};

// The translations of sources, each with its end, as tokens without one. `lengths`: what sources may be
// filled up to. Throws UsageError for a source that is longer; Interrupted.
std::vector<std::vector<std::int32_t>> beam_search(const Model& model, const ModelMemory& memory,
                                                   Device& device, ValueType compute,
                                                   std::span<const int> lengths,
                                                   std::span<const std::vector<std::int32_t>> sources,
                                                   const BeamOptions& options, int context,
                                                   const ProgressCall& progress = {});
// The most that it takes besides the model, for sources of so many tokens.
std::int64_t beam_search_bytes(const Model& model, ValueType compute, Device& device,
                               std::span<const int> lengths, std::span<const int> sources,
                               const BeamOptions& options, int context, int vocabulary);

}  // namespace lpmm
