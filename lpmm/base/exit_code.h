// The exit codes of the program.
#pragma once

namespace lpmm {

inline constexpr int kDone = 0;
inline constexpr int kRunFailed = 1;
inline constexpr int kBadUsage = 2;
inline constexpr int kInterrupted = 130;  // as a shell says it of Ctrl-C
inline constexpr int kReaderGone = 141;   // as a shell says it of what SIGPIPE ended

}  // namespace lpmm
