#include "lpmm/ranks/endings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "lpmm/base/interrupt.h"

namespace lpmm {
namespace {

void write_on(Slate& slate, Ending ending, const std::string& message) {
  const std::size_t length = std::min(message.size(), sizeof(slate.message) - 1);
  std::memcpy(slate.message, message.data(), length);
  slate.message[length] = '\0';
  slate.ending = ending;
}

}  // namespace

void write_ending(Slate& slate, const std::function<int()>& body) {
  try {
    slate.result = body();
    slate.ending = Ending::kDone;
  } catch (const UsageError& e) {
    write_on(slate, Ending::kUsage, e.what());
  } catch (const RankLost& e) {
    write_on(slate, Ending::kLost, e.what());
  } catch (const Interrupted& e) {
    write_on(slate, Ending::kInterrupted, e.what());
  } catch (const std::bad_alloc&) {
    write_on(slate, Ending::kFailed, "not enough memory; `lpmm plan` says what a run needs");
  } catch (const std::exception& e) {
    write_on(slate, Ending::kFailed, e.what());
  }
}

void throw_first(std::span<const Slate> slates, std::span<const std::string> names) {
  for (const Ending wanted : {Ending::kUsage, Ending::kFailed, Ending::kInterrupted, Ending::kLost}) {
    for (std::size_t i = 0; i < slates.size(); ++i) {
      if (slates[i].ending != wanted) continue;
      if (wanted == Ending::kInterrupted) throw Interrupted();
      std::string message = slates[i].message;
      if (i > 0 && wanted != Ending::kLost) {
        message = fmt::format("{}: {}", names.empty() ? fmt::format("rank {}", i) : names[i], message);
      }
      if (wanted == Ending::kUsage) throw UsageError(message);
      if (wanted == Ending::kLost) throw RankLost(message);
      throw RunError(message);
    }
  }
}

}  // namespace lpmm
