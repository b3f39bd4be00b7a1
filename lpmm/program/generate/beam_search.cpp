#include "lpmm/program/generate/beam_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>

#include "lpmm/base/error.h"
#include "lpmm/base/interrupt.h"

namespace lpmm {
namespace {

constexpr float kNever = -1e9F;
constexpr std::size_t kBeams = 80;  // at a time, of all sentences

std::size_t sentences_at_a_time(const BeamOptions& options) {
  return std::max<std::size_t>(1, kBeams / static_cast<std::size_t>(options.beams));
}

// Tokens of a translation, its end too.
int most_tokens(const BeamOptions& options, int source, int context) {
  return std::min(context, options.most > 0 ? options.most : 3 * source + 10);
}

// Sources that are filled up to one length and translated together.
struct Together {
  int length;
  std::vector<std::size_t> which;
};
std::vector<Together> together(std::span<const int> lengths, std::span<const int> sources,
                               const BeamOptions& options) {
  std::map<int, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto length = std::ranges::lower_bound(lengths, sources[i]);
    if (length == lengths.end()) {
      throw UsageError(fmt::format("sentence {} has {} tokens with its end, the model reads {}", i + 1,
                                   sources[i], lengths.back()));
    }
    by_length[*length].push_back(i);
  }
  std::vector<Together> all;
  const auto most = static_cast<std::ptrdiff_t>(sentences_at_a_time(options));
  for (const auto& [length, of_length] : by_length) {
    for (auto first = of_length.begin(); first != of_length.end();) {
      const auto end = first + std::min(most, of_length.end() - first);
      all.push_back({length, {first, end}});
      first = end;
    }
  }
  return all;
}

// log of the sum of exp(logit).
float log_sum(std::span<const float> logits) {
  const float most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float x : logits) sum += static_cast<double>(std::exp(x - most));
  return most + static_cast<float>(std::log(sum));
}

}  // namespace

Beams::Beams(const BeamOptions& options, int most)
    : options_(options), most_(most), running_(static_cast<std::size_t>(options.beams)) {
  // All beams begin alike: only the first one's continuations count.
  for (std::size_t i = 1; i < running_.size(); ++i) running_[i].score = kNever;
}

std::vector<Beams::Candidate> Beams::candidates(std::span<const float> logits) const {
  const std::size_t most = 2 * running_.size(), vocabulary = logits.size() / running_.size();
  const std::size_t told = options_.vocabulary > 0
                               ? std::min(vocabulary, static_cast<std::size_t>(options_.vocabulary))
                               : vocabulary;
  const auto is_before = [](const Candidate& a, const Candidate& b) { return a.score > b.score; };
  std::vector<Candidate> best;                            // a heap whose first is the worst
  float floor = -std::numeric_limits<float>::infinity();  // a score must be above it to be one of them
  const auto take = [&](const Candidate& c) {
    if (best.size() == most) {
      std::ranges::pop_heap(best, is_before);
      best.pop_back();
    }
    best.push_back(c);
    std::ranges::push_heap(best, is_before);
    if (best.size() == most) floor = best.front().score;
  };
  for (std::size_t b = 0; b < running_.size(); ++b) {
    const auto beam = static_cast<std::int32_t>(b);
    if (length_ + 1 == most_) {  // it must end here
      take({running_[b].score, beam, options_.end});
      continue;
    }
    const std::span<const float> row = logits.subspan(b * vocabulary, vocabulary);
    const float whole = log_sum(row), before = running_[b].score;
    for (std::size_t t = 0; t < told; ++t) {
      const float score = row[t] - whole + before;
      if (!(score > floor)) continue;
      const auto token = static_cast<std::int32_t>(t);
      if (token != options_.start || token == options_.end) take({score, beam, token});
    }
  }
  std::ranges::stable_sort(best, is_before);
  return best;
}

// Into the best `beams`, where it is one of them.
void Beams::finish(Beam beam) {
  beam.score /= static_cast<float>(std::pow(static_cast<double>(length_), options_.length_penalty));
  const auto at =
      std::ranges::find_if(finished_, [&](const Beam& other) { return beam.score > other.score; });
  finished_.insert(at, std::move(beam));
  if (finished_.size() > running_.size()) finished_.pop_back();
}

void Beams::step(std::span<const float> logits, std::span<std::int32_t> parents,
                 std::span<std::int32_t> tokens) {
  const std::vector<Candidate> best = candidates(logits);
  ++length_;
  const std::size_t beams = running_.size();
  std::vector<Beam> next;
  for (std::size_t i = 0; i < best.size(); ++i) {
    const Candidate& c = best[i];
    Beam beam{running_[static_cast<std::size_t>(c.beam)].tokens, c.score};
    if (c.token == options_.end) {
      if (i < beams) finish(std::move(beam));
      continue;
    }
    if (next.size() == beams) continue;
    parents[next.size()] = c.beam;
    tokens[next.size()] = c.token;
    beam.tokens.push_back(c.token);
    next.push_back(std::move(beam));
  }
  is_done_ = length_ == most_ || next.size() < beams || (beams == 1 && !finished_.empty());
  if (is_done_) {
    // Logits that are no numbers continue nothing.
    if (finished_.empty()) finished_.push_back(running_.front());
    return;
  }
  running_ = std::move(next);
  const float reachable = running_.front().score /
                          static_cast<float>(std::pow(static_cast<double>(length_), options_.length_penalty));
  is_done_ = finished_.size() == beams && !(reachable > finished_.back().score);
}

namespace {

// Sources of one filled length, translated together.
class Group {
 public:
  Group(std::span<const std::vector<std::int32_t>> sources, std::span<const std::size_t> which, int length,
        const BeamOptions& options, int context)
      : beams_(static_cast<std::size_t>(options.beams)),
        parents_(which.size() * beams_),
        tokens_(which.size() * beams_, options.start) {
    for (const std::size_t i : which) {
      const std::vector<std::int32_t>& source = sources[i];
      std::vector<std::int32_t> filled(source);
      filled.resize(static_cast<std::size_t>(length), options.end);
      for (std::size_t b = 0; b < beams_; ++b) {
        state_.source.insert(state_.source.end(), filled.begin(), filled.end());
        state_.source_lengths.push_back(static_cast<std::int32_t>(source.size()));
      }
      const int most = most_tokens(options, static_cast<int>(source.size()), context);
      state_.positions = std::max<std::int64_t>(state_.positions, most);
      sentences_.emplace_back(options, most);
    }
  }

  void run(Program& program, const ModelMemory& memory, Device& device) {
    const auto is_done = [](const Beams& beams) { return beams.is_done(); };
    while (!std::ranges::all_of(sentences_, is_done)) {
      program.infer(memory, tokens_, state_);
      std::iota(parents_.begin(), parents_.end(), 0);
      device.host_pool().for_each(std::ssize(sentences_),
                                  [&](std::int64_t i, int) { advance(static_cast<std::size_t>(i)); });
      state_.reorder(parents_, device);
    }
  }
  const std::vector<std::int32_t>& best(std::size_t i) const { return sentences_[i].best(); }

 private:
  void advance(std::size_t i) {
    if (sentences_[i].is_done()) return;
    const std::size_t vocabulary = state_.logits.size() / tokens_.size(), first = i * beams_;
    const std::span parents = std::span(parents_).subspan(first, beams_);
    sentences_[i].step(std::span<const float>(state_.logits).subspan(first * vocabulary, beams_ * vocabulary),
                       parents, std::span(tokens_).subspan(first, beams_));
    if (sentences_[i].is_done()) {
      std::iota(parents.begin(), parents.end(), static_cast<std::int32_t>(first));
    } else {
      for (std::int32_t& parent : parents) parent += static_cast<std::int32_t>(first);
    }
  }

  std::size_t beams_;
  Inference state_;
  std::vector<std::int32_t> parents_, tokens_;
  std::vector<Beams> sentences_;
};

}  // namespace

std::vector<std::vector<std::int32_t>> beam_search(const Model& model, const ModelMemory& memory,
                                                   Device& device, ValueType compute,
                                                   std::span<const int> lengths,
                                                   std::span<const std::vector<std::int32_t>> sources,
                                                   const BeamOptions& options, int context,
                                                   const ProgressCall& progress) {
  std::vector<int> sizes;
  for (const auto& source : sources) sizes.push_back(static_cast<int>(source.size()));
  std::vector<std::vector<std::int32_t>> out(sources.size());
  std::int64_t done = 0;
  std::unique_ptr<Program> program;
  std::size_t rows = 0;
  int length = 0;
  for (const Together& t : together(lengths, sizes, options)) {
    InterruptGuard::check();
    if (t.which.size() != rows || t.length != length) {
      program.reset();
      rows = t.which.size();
      length = t.length;
      program = model.build_decoder(static_cast<int>(rows) * options.beams, length, compute, device);
    }
    Group group(sources, t.which, length, options, context);
    group.run(*program, memory, device);
    for (std::size_t i = 0; i < rows; ++i) out[t.which[i]] = group.best(i);
    done += std::ssize(t.which);
    if (progress) progress(done, std::ssize(sources));
  }
  return out;
}

std::int64_t beam_search_bytes(const Model& model, ValueType compute, Device& device,
                               std::span<const int> lengths, std::span<const int> sources,
                               const BeamOptions& options, int context, int vocabulary) {
  // Only the batch of each shape with the longest possible translation counts: it takes the most.
  std::map<std::pair<int, int>, int> longest;
  for (const Together& t : together(lengths, sources, options)) {
    int& source = longest[{t.length, static_cast<int>(t.which.size())}];
    for (const std::size_t i : t.which) source = std::max(source, sources[i]);
  }
  std::int64_t most = 0;
  for (const auto& [shape, source] : longest) {
    const int rows = shape.second * options.beams;
    const auto program = model.build_decoder(rows, shape.first, compute, device);
    const std::int64_t logits = std::int64_t{4} * rows * vocabulary;  // the host's
    most = std::max(most, logits + program->activation_bytes() + program->workspace_bytes() +
                              program->cache_bytes(most_tokens(options, source, context)));
  }
  return most;
}

}  // namespace lpmm
