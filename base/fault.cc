#include "base/fault.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace chorale {
namespace {

// In the order of FaultPlace.
constexpr auto kNames = std::to_array<absl::string_view>(
    {"buffer_pool", "context_pool", "host_context_pool", "encode_pool", "context_load",
     "context_file_read", "context_file_write", "device", "accept", "reply_memory"});
static_assert(kNames.size() == static_cast<size_t>(FaultPlace::kReplyMemory) + 1);

struct PlaceFault {
  double probability = 0;
  std::optional<absl::Duration> delay;
};

absl::Status ParsePlace(absl::string_view text, std::array<PlaceFault, kNames.size()>* places) {
  absl::Status wrong = absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not PLACE=PROBABILITY or PLACE=PROBABILITY:DURATION, with a place of ",
      absl::StrJoin(kNames, ", ")));
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  const auto name = std::find(kNames.begin(), kNames.end(), parts.first);
  if (name == kNames.end()) return wrong;
  const std::vector<absl::string_view> values = absl::StrSplit(parts.second, ':');
  PlaceFault fault;
  if (values.empty() || values.size() > 2) return wrong;
  if (!absl::SimpleAtod(values[0], &fault.probability)) return wrong;
  if (!(fault.probability >= 0 && fault.probability <= 1)) return wrong;
  if (values.size() == 2) {
    const bool is_duration = absl::ParseDuration(values[1], &fault.delay.emplace());
    if (!is_duration || *fault.delay < absl::ZeroDuration()) return wrong;
  }
  (*places)[name - kNames.begin()] = fault;
  return absl::OkStatus();
}

struct Current {
  Mutex mutex;
  std::shared_ptr<const Faults> faults ABSL_GUARDED_BY(mutex);
};

Current& TheCurrent() {
  static Current current;
  return current;
}

}  // namespace

std::atomic<bool> fault_internal::any{false};

void SetFaults(Faults faults) {
  auto next = faults == nullptr ? nullptr : std::make_shared<const Faults>(std::move(faults));
  Current& current = TheCurrent();
  MutexLock lock(&current.mutex);
  fault_internal::any = next != nullptr;
  current.faults = std::move(next);
}

bool fault_internal::Decide(FaultPlace place) {
  std::shared_ptr<const Faults> faults;
  {
    Current& current = TheCurrent();
    MutexLock lock(&current.mutex);
    faults = current.faults;
  }
  return faults != nullptr && (*faults)(place);
}

absl::StatusOr<Faults> ParseFaults(absl::string_view text) {
  std::array<PlaceFault, kNames.size()> places;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    RETURN_IF_ERROR(ParsePlace(part, &places));
  }
  struct State {
    Mutex mutex;
    std::mt19937_64 random ABSL_GUARDED_BY(mutex){1};
  };
  return [places, state = std::make_shared<State>()](FaultPlace place) {
    const PlaceFault& fault = places[static_cast<size_t>(place)];
    {
      MutexLock lock(&state->mutex);
      if (!std::bernoulli_distribution(fault.probability)(state->random)) return false;
    }
    if (!fault.delay.has_value()) return true;
    absl::SleepFor(*fault.delay);
    return false;
  };
}

}  // namespace chorale
