// Conversations as tokens, of which some are learnt.
#pragma once

#include <cstdint>
#include <vector>

namespace lpmm {

struct Document {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> learnt;  // learnt[i] is 1 where ids[i] is predicted and its loss counts
};

}  // namespace lpmm
