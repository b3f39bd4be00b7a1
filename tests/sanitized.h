// Whether a sanitizer watches this build: such tests get less work, or are skipped.
#pragma once

namespace lpmm {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace lpmm
