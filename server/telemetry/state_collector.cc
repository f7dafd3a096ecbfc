#include "server/telemetry/state_collector.h"

#include <prometheus/client_metric.h>
#include <prometheus/labels.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/telemetry/build_info.h"
#include "server/telemetry/logging.h"
#include "server/telemetry/metric_catalog.h"
#include "server/telemetry/process_statistics.h"

namespace chorale {
namespace {

struct ContextState {
  const char* label;
  int64_t ContextCounts::*count;
};
constexpr ContextState kContextStates[] = {
    {"waiting", &ContextCounts::waiting},    {"reading", &ContextCounts::reading},
    {"encoding", &ContextCounts::encoding},  {"resident", &ContextCounts::resident},
    {"saving", &ContextCounts::saving},      {"saved", &ContextCounts::saved},
    {"restoring", &ContextCounts::restoring}};

// Families of the catalog, in the order in which they are first added to.
class Page {
 public:
  template <typename Number>
  void Add(absl::string_view name, Number value, const prometheus::Labels& labels = {}) {
    prometheus::ClientMetric metric;
    for (const auto& [label, text] : labels) metric.label.push_back({label, text});
    const MetricDescription& description = DescriptionOf(name);
    if (description.type == prometheus::MetricType::Counter) {
      metric.counter.value = static_cast<double>(value);
    } else {
      metric.gauge.value = static_cast<double>(value);
    }
    FamilyOf(description).metric.push_back(std::move(metric));
  }

  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  prometheus::MetricFamily& FamilyOf(const MetricDescription& description) {
    for (prometheus::MetricFamily& family : families_) {
      if (family.name == description.name) return family;
    }
    families_.push_back({description.name, description.help, description.type, {}});
    return families_.back();
  }

  std::vector<prometheus::MetricFamily> families_;
};

void AddProcess(Page* page) {
  const std::optional<ProcessStatistics> process = ReadProcessStatistics();
  if (!process.has_value()) return;
  page->Add("process_cpu_seconds_total", process->cpu_seconds);
  page->Add("process_resident_memory_bytes", process->resident_bytes);
  page->Add("process_virtual_memory_bytes", process->virtual_bytes);
  page->Add("process_open_fds", process->open_fds);
  page->Add("process_max_fds", process->max_fds);
  page->Add("process_start_time_seconds", process->start_time);
  page->Add("process_threads", process->threads);
  const AllocatorBytes allocator = ReadAllocatorBytes();
  page->Add("chorale_memory_bytes", allocator.used, {{"part", "allocator_used"}});
  page->Add("chorale_memory_bytes", allocator.free, {{"part", "allocator_free"}});
}

void AddPool(const char* name, int64_t bytes, int64_t used, Page* page) {
  page->Add("chorale_pool_bytes", bytes, {{"pool", name}});
  page->Add("chorale_pool_used_bytes", used, {{"pool", name}, {"part", "all"}});
}

void AddServer(const ServerState& state, Page* page) {
  page->Add("chorale_ready", state.ready ? 1 : 0);
  page->Add("chorale_draining", state.draining ? 1 : 0);
  page->Add("chorale_connections", state.connections);
  page->Add("chorale_max_connections", state.max_connections);
  page->Add("chorale_memory_limit_bytes", state.memory_limit_bytes);
  page->Add("chorale_memory_bytes", state.registering_bytes, {{"part", "registering"}});
  AddPool("registration", state.registration_memory_bytes, state.registering_bytes, page);
  if (state.certificate_expires.has_value()) {
    page->Add("chorale_tls_certificate_expiry_seconds",
              absl::ToDoubleSeconds(*state.certificate_expires - absl::UnixEpoch()));
  }
  page->Add("chorale_log_lines_dropped_total", LogLinesDropped());
  page->Add("chorale_build_info", 1, {{"version", BuildVersion()}, {"commit", BuildCommit()}});
}

void AddContexts(const EngineStats& stats, int64_t pool_bytes, Page* page) {
  for (const ContextState& state : kContextStates) {
    page->Add("chorale_contexts", stats.contexts.*state.count, {{"state", state.label}});
  }
  page->Add("chorale_pool_bytes", pool_bytes, {{"pool", "context"}});
  const int64_t pinned = stats.contexts.pinned_bytes;
  page->Add("chorale_pool_used_bytes", pinned, {{"pool", "context"}, {"part", "pinned"}});
  page->Add("chorale_pool_used_bytes", stats.resident_bytes - pinned,
            {{"pool", "context"}, {"part", "unpinned"}});
}

void AddStats(const EngineStats& stats, const PoolSizes& pools, Page* page) {
  page->Add("chorale_backlog_seconds", absl::ToDoubleSeconds(stats.backlog_time));
  page->Add("chorale_backlog_values", stats.backlog_values);
  page->Add("chorale_sessions", stats.running, {{"state", "running"}});
  page->Add("chorale_sessions", stats.queued, {{"state", "queued"}});
  page->Add("chorale_waiting_clients", stats.waiting_clients);
  page->Add("chorale_largest_client_share", stats.largest_client_share);
  page->Add("chorale_last_tick_age_seconds", absl::ToDoubleSeconds(stats.tick_age));
  page->Add("chorale_summary_queue", stats.summary_queue);
  AddContexts(stats, pools.context, page);
  AddPool("buffer", pools.buffer, stats.buffer_bytes, page);
  AddPool("encode", pools.encode, stats.encode_bytes, page);
  AddPool("host_context", pools.host_context, stats.contexts.host_bytes, page);
  AddPool("kept_tables", pools.registration, stats.registration_bytes, page);
}

void AddRegistered(const StoreTotals& totals, Page* page) {
  page->Add("chorale_registered_contexts", totals.contexts);
  page->Add("chorale_dataset_bytes", totals.dataset_bytes);
  page->Add("chorale_data_disk_free_bytes", totals.disk_free_bytes);
  page->Add("chorale_data_disk_full", totals.disk_full ? 1 : 0);
}

void AddEngine(const Engine* engine, Page* page) {
  AddStats(engine->Stats(), engine->Pools(), page);
  for (const DeviceMemoryPart& part : engine->DeviceMemory()) {
    page->Add("chorale_gpu_memory_bytes", part.bytes, {{"part", part.part}});
  }
  const BackendInfo backend = engine->backend_info();
  page->Add("chorale_backend_info", 1,
            {{"backend", backend.backend},
             {"device", backend.device},
             {"threads", absl::StrCat(backend.threads)}});
  for (const ModelInfo& model : engine->Models()) {
    page->Add("chorale_model_info", 1,
              {{"model", model.name},
               {"digest", model.digest},
               {"default", model.is_default ? "true" : "false"}});
  }
  for (const SkippedModel& model : engine->SkippedModels()) {
    page->Add("chorale_model_skipped", 1, {{"model", model.name}});
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> StateCollector::Collect() const {
  const ServerState state = take_();
  Page page;
  AddProcess(&page);
  AddServer(state, &page);
  if (state.engine != nullptr) {
    AddEngine(state.engine, &page);
    if (const auto totals = Registered(state.engine)) AddRegistered(*totals, &page);
  }
  return page.Take();
}

std::optional<StoreTotals> StateCollector::Registered(Engine* engine) const {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(asking_store_, true)) return registered_;
  }
  const absl::StatusOr<StoreTotals> totals = engine->Registered();
  MutexLock lock(&mutex_);
  asking_store_ = false;
  registered_ = totals.ok() ? std::optional(*totals) : std::nullopt;
  return registered_;
}

}  // namespace chorale
