// The memory of the server: its watch, and the pools that follow the limit.
#include <vector>

#include "server/memory/memory_plan.h"
#include "server/server.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/process_statistics.h"

namespace chorale {
namespace {

// Of the models that are served.
int64_t WeightBytesOf(const Engine& engine) {
  int64_t bytes = 0;
  for (const ModelInfo& model : engine.Models()) {
    bytes += model.parameters * static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

}  // namespace

void Server::WatchMemory() {
  memory_watch_ = std::make_unique<MemoryWatch>(
      options_.clock,
      MemoryWatch::Handlers{
          .limit = [this] { return CurrentMemoryLimit(); },
          .pause_accepting = [this](bool pause) { listener_->PauseAccepting(pause); },
          .each_second =
              [this] {
                metrics_.ConnectionsEnded("flood", listener_->EndFloods());
                access_->refusal_lines().LogSums(options_.clock->Now());
                LogSumsOfGrpc();
                FollowMemoryLimit();
              },
          .end_busiest =
              [this](bool lately) {
                const int64_t ended =
                    listener_->EndBusiest(lately ? BusySince::kMark : BusySince::kBeginning);
                metrics_.ConnectionsEnded("memory", ended);
                return ended;
              },
          .give_up = [this] { Fail("memory_exhausted", "memory use stayed near the limit"); },
          .raise_limit =
              [this](int64_t resident_bytes) {
                own_memory_limit_->Raise(resident_bytes);
                LogEvent(spdlog::level::warn, "memory_limit_raised",
                         {{"resident_bytes", resident_bytes}});
              }});
}

void Server::FollowMemoryLimit() {
  Engine* const engine = opened_engine_;
  if (engine == nullptr || !options_.find_memory_shares) return;
  const bool on_host = engine->backend_info().backend == "cpu";
  const std::optional<MemoryShares> shares =
      options_.find_memory_shares(on_host, WeightBytesOf(*engine));
  if (!shares.has_value()) return;
  memory_limit_bytes_ = shares->limit_bytes;
  has_own_memory_limit_ = shares->own_memory_limit;
  engine->LimitPools(shares->pools);
  registration_memory_.SetLimit(shares->registration_memory_bytes);
  std::vector<LogField> fields = {
      {"memory_limit_mib", shares->limit_bytes >> 20},
      {"registration_memory_mib", shares->registration_memory_bytes >> 20}};
  if (on_host) {
    fields.push_back({"context_pool_mib", shares->pools.context >> 20});
    fields.push_back({"buffer_pool_mib", shares->pools.buffer >> 20});
  }
  if (!shares->warning.empty()) fields.push_back({"reason", shares->warning});
  LogEvent(spdlog::level::warn, "memory_limit_changed", fields);
}

MemoryLimit Server::CurrentMemoryLimit() {
  if (const int64_t limit = memory_limit_bytes_; limit > 0) return {limit};
  Engine* const engine = opened_engine_;
  if (!has_own_memory_limit_ || engine == nullptr) return {0};
  const EngineStats stats = engine->Stats();
  OwnMemoryLimit::Work work;
  work.pools = stats.registration_bytes;
  if (engine->backend_info().backend == "cpu") {
    work.pools += stats.resident_bytes + stats.buffer_bytes;
  }
  // A dataset that arrives, its encoded form, and what is made of it.
  constexpr int64_t kCopiesOfDatasets = 3;
  work.passing = stats.loading_bytes + kCopiesOfDatasets * registration_memory_.used();
  work.weights = WeightBytesOf(*engine);
  if (!own_memory_limit_.has_value()) own_memory_limit_.emplace(ResidentBytes(), work);
  return {own_memory_limit_->Next(work), /*set=*/false};
}

}  // namespace chorale
