#include "server/models/warm_on_start.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/notification.h"
#include "server/security/caller.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

// Contexts in the engine at a time: one is read from disk while another is encoded or copied.
constexpr int64_t kMaxAtATime = 4;
// Contexts that "*" looks at.
constexpr int64_t kNewest = 10'000;

// Tenant and name.
using TenantAndName = std::pair<std::string, std::string>;

TenantAndName Parse(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return {kDefaultTenant, text};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

// Makes contexts resident, a few at a time, in order. Thread contract: one thread.
class Warmer {
 public:
  Warmer(Engine& engine, int64_t at_a_time)
      : engine_(engine), at_a_time_(static_cast<size_t>(at_a_time)) {}

  void Add(const TenantAndName& context, Residency residency) {
    if (!added_.insert(context).second) return;
    if (running_.size() == at_a_time_) WaitForOldest();
    auto warming = std::make_shared<Warming>();
    warming->context = context;
    const auto done = [warming](const absl::StatusOr<ContextInfo>& info) {
      warming->result = info;
      warming->ended.Notify();
    };
    const auto& [tenant, name] = context;
    engine_.Warm({.tenant = tenant}, {.context = name, .residency = residency}, done);
    running_.push_back(std::move(warming));
  }

  void WaitForAll() {
    while (!running_.empty()) WaitForOldest();
  }

  bool Added(const TenantAndName& context) const { return added_.contains(context); }
  int64_t contexts() const { return contexts_; }
  int64_t bytes() const { return bytes_; }

 private:
  struct Warming {
    TenantAndName context;
    absl::StatusOr<ContextInfo> result;
    Notification ended;
  };

  void WaitForOldest() {
    const std::shared_ptr<Warming> oldest = std::move(running_.front());
    running_.pop_front();
    oldest->ended.Wait();
    if (oldest->result.ok()) {
      ++contexts_;
      bytes_ += oldest->result->resident_bytes;
      return;
    }
    LogEvent(spdlog::level::warn, "warm_failed",
             {{"tenant", oldest->context.first},
              {"context", oldest->context.second},
              {"reason", std::string(oldest->result.status().message())}});
  }

  Engine& engine_;
  const size_t at_a_time_;
  std::set<TenantAndName> added_;
  std::deque<std::shared_ptr<Warming>> running_;  // the oldest first
  int64_t contexts_ = 0;
  int64_t bytes_ = 0;
};

// The named ones are resident already.
void WarmNewest(Engine& engine, Warmer& warmer) {
  const absl::StatusOr<std::vector<ContextSize>> newest = engine.NewestContexts(kNewest);
  if (!newest.ok()) {
    LogEvent(spdlog::level::warn, "warm_failed",
             {{"context", "*"}, {"reason", std::string(newest.status().message())}});
    return;
  }
  int64_t room = engine.Pools().context - warmer.bytes();
  for (const auto& [tenant, name, resident_bytes] : *newest) {
    const TenantAndName context = {tenant, name};
    if (resident_bytes == 0 || resident_bytes > room || warmer.Added(context)) continue;
    room -= resident_bytes;
    warmer.Add(context, Residency::kUntilEvicted);
  }
}

}  // namespace

void WarmOnStart(Engine& engine, const std::vector<std::string>& names, int64_t max_queued) {
  if (names.empty()) return;
  const absl::Time start = Clock::Real()->Now();
  Warmer warmer(engine, std::min(kMaxAtATime, max_queued));
  for (const std::string& name : names) {
    if (name != "*") warmer.Add(Parse(name), Residency::kPinned);
  }
  warmer.WaitForAll();
  if (std::find(names.begin(), names.end(), "*") != names.end()) WarmNewest(engine, warmer);
  warmer.WaitForAll();
  LogEvent(spdlog::level::info, "warmed",
           {{"contexts", warmer.contexts()},
            {"mib", warmer.bytes() >> 20},
            {"seconds", absl::ToDoubleSeconds(Clock::Real()->Now() - start)}});
}

}  // namespace chorale
