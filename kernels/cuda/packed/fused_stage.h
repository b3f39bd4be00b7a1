// The codes of a unit in shared memory, where they are copied while the unit before is computed. They lie in
// chunks of 16 bytes, each a row of bytes of one group, in turned order: the chunks that a warp reads at
// once, the same row of its 8 groups, take all banks.
#pragma once

#include <numeric>

#include "kernels/cuda/async_copy.h"
#include "kernels/cuda/packed/fused_roles.h"

namespace lpmm::kernels::LPMM_CUDA_NAMESPACE {

inline constexpr int kStagedChunk = 16;
inline constexpr int kBankEighths = 8;  // of all banks is what a chunk takes

template <int kBits>
struct Staged {
  static constexpr int kTurn = std::gcd(kBits, kBankEighths);  // chunks that change places
  static constexpr int kChunks = kBits * kUnitGroups;
  static constexpr std::uint32_t kBytes = kChunks * kStagedChunk;

  static constexpr LPMM_HD int place_of(int chunk) {
    return chunk ^ (chunk / (kBits * kBankEighths / kTurn));
  }
  // The place of a row is this one's, XOR row % kTurn, and row - row % kTurn more.
  static constexpr LPMM_HD int first_place(int group) { return kBits * group + group * kTurn / kBankEighths; }
  static constexpr bool places_agree() {
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int turned = chunk % kBits % kTurn;
      if (place_of(chunk) != (first_place(chunk / kBits) ^ turned) + (chunk % kBits - turned)) return false;
    }
    return true;
  }
  static_assert(places_agree());

  // Copies codes, by all lanes of a warp.
  LPMM_DEVICE static void copy(std::byte* to, const std::uint8_t* codes, int lane) {
    LPMM_UNROLL for (int first = 0; first < kChunks; first += kWarp) {
      const int chunk = first + lane;
      if (kChunks - first >= kWarp || chunk < kChunks) {
        copy16(to + kStagedChunk * place_of(chunk), codes + kStagedChunk * chunk);
      }
    }
  }
  // The place of a thread's word of a row, in bytes from the beginning of shared memory; no other thread uses
  // it. Codes of this role lie `role` bytes after those of the unit, which lie `unit` bytes after the
  // beginning; both are multiples of 128.
  LPMM_DEVICE static std::uint32_t place(std::uint32_t unit, std::uint32_t role, int lane, int row) {
    const std::uint32_t first =
        unit +
        static_cast<std::uint32_t>(kStagedChunk * first_place(lane / kColumns) + 4 * (lane % kColumns));
    const int turned = row % kTurn;
    return (first ^ static_cast<std::uint32_t>(kStagedChunk * turned)) +
           (role + static_cast<std::uint32_t>(kStagedChunk * (row - turned)));
  }
  // Loads the words that rows `pair` and pair + 4 of a thread take, where earlier pairs have not.
  LPMM_DEVICE static void load(Words<kBits>& words, const std::byte* shared, std::uint32_t unit,
                               std::uint32_t role, int lane, int pair) {
    LPMM_UNROLL for (int plane = 0; plane < kBits; plane += plane_width(kBits - plane)) {
      const int width = plane_width(kBits - plane);
      LPMM_UNROLL for (int r = pair; r < width; r += kPairs) {
        words.word[plane + r] =
            *reinterpret_cast<const std::uint32_t*>(shared + place(unit, role, lane, plane + r));
      }
    }
  }
};
template <>
struct Staged<0> {  // of a role that is not there
  static constexpr std::uint32_t kBytes = 0;
};

// A unit that a thread will work on next, in shared memory because registers are few.
struct NextUnit {
  std::int32_t tensor;
  std::uint32_t group;  // the first
};
// Shared memory of a block: tables, the next units of its threads, codes of two units for each warp, and what
// values wait for their step that find no place among these.
inline constexpr std::uint32_t kNextAt = kSoftTables * sizeof(SoftTable);
inline constexpr std::uint32_t kStagesAt = kNextAt + kFusedThreads * sizeof(NextUnit);
static_assert(kStagesAt % 128 == 0);
constexpr LPMM_HD std::uint32_t behind_stages(std::uint32_t unit_bytes) {
  return kStagesAt + kFusedThreads / kWarp * 2 * unit_bytes;
}

}  // namespace lpmm::kernels::LPMM_CUDA_NAMESPACE
