// Tells if a sanitizer watches this build: such tests get less work, or are skipped.
#pragma once

namespace lpmm {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The reason why a test that compares results over many steps is skipped under sanitizers: other tests run
// the same code.
inline constexpr const char* kReleaseOnly = "results are compared in the release build";

}  // namespace lpmm
