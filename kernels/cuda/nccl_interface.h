// What is used of NCCL's interface, which has not changed since version 2.14. Its header need not be there
// where lpmm is built; tests/kernels/nccl_test.cpp compares this with it where it is.
#pragma once

#include <climits>
#include <cstddef>

struct CUstream_st;

namespace lpmm::kernels::nccl {

inline constexpr int kLeastVersion = 21400;
using Result = int;
inline constexpr Result kSuccess = 0, kInProgress = 7;
inline constexpr int kBytes = 1;  // ncclUint8, a type of data

struct Link;  // ncclComm
struct Id {
  char bytes[128];
};
// As of that version; what newer ones have behind it keeps their defaults.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned int magic = 0xcafebeef, version = kLeastVersion;
  int blocking = 0;            // no call waits for another process
  int cluster_size = INT_MIN;  // not set; since version 2.17
};

// Its functions, in the order in which they are used.
struct Library {
  Result (*version)(int*);
  Result (*unique_id)(Id*);
  Result (*open)(Link**, int ranks, Id, int rank, Config*);
  Result (*state)(Link*, Result*);
  const char* (*text)(Result);
  Result (*begin_group)();
  Result (*send)(const void*, std::size_t, int type, int rank, Link*, CUstream_st*);
  Result (*receive)(void*, std::size_t, int type, int rank, Link*, CUstream_st*);
  Result (*end_group)();
  Result (*abort)(Link*);
};

}  // namespace lpmm::kernels::nccl
