// The fused fold (kernels/cpu/packed/fused.h) for one codec.
// Compiled once for each set of instructions, in its file (kernels/cpu/sets/).
#pragma once

#include <algorithm>
#include <utility>

#include "kernels/cpu/packed/fused_roles-inl.h"
#include "kernels/cpu/tile_loops-inl.h"
#include "kernels/sums.h"

HWY_BEFORE_NAMESPACE();
namespace lpmm::kernels {
namespace HWY_NAMESPACE {

template <Codec kCodec>
class FoldLoop {
 public:
  static std::int64_t run(const RoleView& view, std::int64_t first, std::int64_t count,
                          const float* contribution, const FoldArgs& args, double* square_sums) {
    Waiting<Of, kChunk> waiting;
    const std::int64_t whole = count / kChunk * kChunk;
    for (std::int64_t at = 0; at < whole; at += kChunk) {
      double* sums = square_sums == nullptr ? nullptr : square_sums + at / kChunk;
      if (!fold_chunk(view, first + at, contribution + at, args, sums, waiting)) return at;
    }
    return whole;
  }

 private:
  using Of = FusedRole<Role::kAccumulator, kCodec>;
  static constexpr int kChunk = static_cast<int>(kUnit);
  static_assert(kChunk % Of::kBlock == 0);

  // False: nothing was written, for some sum is not storable.
  static bool fold_chunk(const RoleView& view, std::int64_t at, const float* contribution,
                         const FoldArgs& args, double* sums, Waiting<Of, kChunk>& waiting) {
    waiting.begin(view, args.noise, at, kChunk);
    const Number scale(args.scale);
    for (int begin = 0; begin < kChunk; begin += kGroup) {
      Lane<Of> lane(view, waiting.room, at, begin, 0, {});
#pragma GCC unroll 4
      for (int e = 0; e < kGroup; e += static_cast<int>(kSideBySide)) {
        const Number addend = each_vector(
            [&](int i) { return hn::LoadU(DF(), contribution + begin + e + i * static_cast<int>(kLanes)); });
        lane.finish(lane.values(e) + scale * addend, e);
      }
      lane.keep_most(waiting.most + begin / Of::kPart);
    }
    if (!waiting.is_storable(kChunk)) return false;
    if (sums != nullptr) square_sums(waiting.room.values, kChunk, sums);
    if constexpr (Of::kIsPacked) {
      const bool in_momentum = is_stream_of(args.noise.stream, Role::kMomentum);
      const auto next = [&](const Codec& codec, float largest, std::uint16_t old) {
        return in_momentum ? next_step(codec, largest, old) : next_accumulator_step(codec, largest, old);
      };
      waiting.choose_steps(next, view, at, kChunk, [](int) {});
    }
    waiting.store(view, at, kChunk);
    return true;
  }
};

// The codec that presets fold into: each accumulator, and the momentum where there is none.
constexpr Codec folded(const fused::Codecs& codecs) {
  return fused::is_none(codecs[Role::kAccumulator]) ? codecs[Role::kMomentum] : codecs[Role::kAccumulator];
}
inline FusedFold fused_fold(const Codec& codec) {
  FusedFold found = nullptr;
  each_codec_set([&](auto set) {
    constexpr Codec kFolded = folded(fused::kCodecs[set]);
    if (fused::serves(kFolded, codec)) found = FoldLoop<kFolded>::run;
  });
  return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace lpmm::kernels
HWY_AFTER_NAMESPACE();
