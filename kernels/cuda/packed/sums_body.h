// Sums of squares over a range, in the order of kernels/sums.h: thread block b sums unit b, and
// sum_tree.h the units. The watch finds the largest of a unit, too. Bodies as in update_body.h.
#pragma once

#include "kernels/cuda/packed/update_body.h"
#include "kernels/sums.h"

namespace lpmm::kernels::cuda {

// The terms that are squared: kCount for each element. The first pass of a rule that needs norms; what a fold
// is about to store.
template <class RuleType>
struct NormTerms {
  static constexpr int kCount = RuleType::kNorms;
  RuleType rule;
  const RuleType* completed;  // the rule after a pass before this one; null: there is none
  RoleSlots roles;
  LPMM_HD void operator()(std::int64_t element, float (&of)[kCount]) const {
    Elements<float> x = roles.load(element);
    (completed == nullptr ? rule : *completed).terms(x, of);
  }
};
struct FoldedTerms {
  static constexpr int kCount = 1;
  FoldJob fold;
  LPMM_HD void operator()(std::int64_t element, float (&of)[kCount]) const { of[0] = fold.sum(element); }
};

template <class Terms>
struct SumsJob {
  Terms terms;
  std::int64_t first = 0, end = 0;
  double* sums = nullptr;  // [kCount][units]
};
inline constexpr int kSumPhases = 4;

template <class Terms>
std::int64_t units(const SumsJob<Terms>& job) {
  return units_of(job.end - job.first);
}
// Shared memory in words: the lanes' sums in fp64, then the terms of the unit.
template <class Terms>
std::int64_t shared_words(const SumsJob<Terms>&) {
  return std::int64_t{Terms::kCount} * (2 * kUnitGroups * kSumLanes + kUnit);
}

template <class Terms>
LPMM_HD void run_phase(int phase, const SumsJob<Terms>& job, std::int64_t block, int thread, int threads,
                       std::uint32_t* shared) {
  constexpr int kCount = Terms::kCount;
  constexpr int kLanesOfUnit = kUnitGroups * kSumLanes;
  auto* lanes = reinterpret_cast<double*>(shared);  // [kCount][group][lane]
  auto* terms = reinterpret_cast<float*>(shared + 2 * kLanesOfUnit * kCount);
  const std::int64_t base = job.first + block * kUnit;
  if (phase == 0) {
    for (int i = thread; i < kUnit; i += threads) {
      float of[kCount] = {};
      if (base + i < job.end) job.terms(base + i, of);
      for (int k = 0; k < kCount; ++k) terms[k * kUnit + i] = of[k];
    }
  } else if (phase == 1) {
    for (int lane = thread; lane < kLanesOfUnit * kCount; lane += threads) {
      const float* of_group = terms + lane / kSumLanes * kGroup;
      double sum = 0;
      for (int i = lane % kSumLanes; i < kGroup; i += kSumLanes) {
        sum += static_cast<double>(of_group[i]) * static_cast<double>(of_group[i]);
      }
      lanes[lane] = sum;
    }
  } else if (phase == 2) {
    for (int g = thread; g < kUnitGroups * kCount; g += threads) sum_of_lanes(lanes + g * kSumLanes);
  } else if (thread < kCount) {
    double groups[kUnitGroups];
    for (int g = 0; g < kUnitGroups; ++g) groups[g] = lanes[(thread * kUnitGroups + g) * kSumLanes];
    job.sums[thread * units_of(job.end - job.first) + block] = sum_as_tree(groups, kUnitGroups);
  }
}

// The terms that the watch sums and takes the largest of.
template <class RuleType>
struct WatchTerms {
  static constexpr int kCount = kWatched;
  RuleType rule;
  const RuleType* completed = nullptr;  // as in UpdateJob
  RoleSlots roles;
  LPMM_HD void operator()(std::int64_t element, float (&of)[kCount]) const {
    measure_element(completed == nullptr ? rule : *completed, roles.load(element), of);
    if (roles.at[Role::kVariance].codes == nullptr) of[static_cast<int>(Watched::kRatio)] = 0;
  }
};
inline constexpr int kLargest = 2;  // of an update, of a ratio
template <class RuleType>
struct WatchJob : SumsJob<WatchTerms<RuleType>> {
  LargestElement* largest = nullptr;  // [kLargest][units]
  PeakView peaks;
};
template <class RuleType>
std::int64_t shared_words(const WatchJob<RuleType>& job) {
  constexpr std::int64_t kWords = sizeof(LargestElement) / sizeof(std::uint32_t);
  return shared_words(static_cast<const SumsJob<WatchTerms<RuleType>>&>(job)) +
         kWords * kLargest * kUnitGroups;
}
// Raises the peaks of the unit at `base` to those of these terms, which are 0 past the tensor's end.
LPMM_HD void raise_peaks(const PeakView& peaks, const float* terms, std::int64_t base, std::int64_t end,
                         int thread, int threads) {
  const float* parameter = terms + kUnit * static_cast<int>(Watched::kParameter);
  const float* update = terms + kUnit * static_cast<int>(Watched::kUpdate);
  const float* ratio = terms + kUnit * static_cast<int>(Watched::kRatio);
  for (int i = thread; i < kUnitGroups * kPeakBytes; i += threads) {
    const int a = i / kPeakBytes * static_cast<int>(kGroup) + i % kPeakBytes, b = a + kPeakBytes;
    if (base + a - i % kPeakBytes >= end) return;  // no such group
    if (peaks.update != nullptr) {
      std::uint8_t& held = peaks.update[base / 2 + i];
      held = raised_peaks(held, peaks.fall, update_peak(update[a], parameter[a]),
                          update_peak(update[b], parameter[b]));
    }
    if (peaks.ratio != nullptr) {
      std::uint8_t& held = peaks.ratio[base / 2 + i];
      held = raised_peaks(held, peaks.fall, ratio_peak(ratio[a]), ratio_peak(ratio[b]));
    }
  }
}

template <class RuleType>
LPMM_HD void run_phase(int phase, const WatchJob<RuleType>& job, std::int64_t block, int thread, int threads,
                       std::uint32_t* shared) {
  const SumsJob<WatchTerms<RuleType>>& sums = job;
  run_phase(phase, sums, block, thread, threads, shared);
  const auto* terms = reinterpret_cast<const float*>(shared + 2 * kUnitGroups * kSumLanes * kWatched);
  auto* of_groups =
      reinterpret_cast<LargestElement*>(shared + (2 * kUnitGroups * kSumLanes + kUnit) * kWatched);
  const std::int64_t base = sums.first + block * kUnit;
  if (phase == 1) {
    for (int i = thread; i < kLargest * kUnitGroups; i += threads) {
      const auto term = static_cast<int>(i < kUnitGroups ? Watched::kUpdate : Watched::kRatio);
      const int first = i % kUnitGroups * static_cast<int>(kGroup);
      LargestElement largest = {0, base + first};
      for (int k = first; k < first + kGroup; ++k) {
        largest.raise(abs_bits(terms[term * kUnit + k]), base + k);
      }
      of_groups[i] = largest;
    }
    raise_peaks(job.peaks, terms, base, sums.end, thread, threads);
  } else if (phase == 2) {
    for (int k = thread; k < kLargest; k += threads) {
      LargestElement largest = of_groups[k * kUnitGroups];
      for (int g = 1; g < kUnitGroups; ++g) {
        const LargestElement& other = of_groups[k * kUnitGroups + g];
        largest.raise(other.bits, other.element);
      }
      job.largest[k * units_of(sums.end - sums.first) + block] = largest;
    }
  }
}

template <class RuleType>
SumsJob<NormTerms<RuleType>> make_norms(const RuleType& rule, const RuleType* completed,
                                        const RoleArray<RoleView>& roles, TableOf table_of) {
  return {{rule, completed, make_slots(roles, {}, table_of)}, 0, roles[Role::kParameter].elements, nullptr};
}
template <class RuleType>
WatchJob<RuleType> make_watch(const RuleType& rule, const RuleType* completed,
                              const RoleArray<RoleView>& roles, const PeakView& peaks, TableOf table_of) {
  WatchJob<RuleType> job;
  job.terms = {rule, completed, make_slots(roles, {}, table_of)};
  job.end = roles[Role::kParameter].elements;
  job.peaks = peaks;
  return job;
}
inline SumsJob<FoldedTerms> make_folded_sum(const FoldJob& fold) {
  return {{fold}, fold.first, fold.end, nullptr};
}

}  // namespace lpmm::kernels::cuda
