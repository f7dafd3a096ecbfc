#include "server/telemetry/metric_catalog.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/require.h"

namespace chorale {
namespace {

constexpr auto kCounter = prometheus::MetricType::Counter;
constexpr auto kGauge = prometheus::MetricType::Gauge;
constexpr auto kHistogram = prometheus::MetricType::Histogram;

// Whole calls: from a half-millisecond prediction to a stream of several minutes.
const HistogramBuckets kCallSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                       0.5,    1,     2.5,    5,     10,   30,    60,   120, 300};
// Waits and encodings.
const HistogramBuckets kWaitSeconds = {0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                       0.05,   0.1,    0.25,  0.5,    1,     2.5,  5,
                                       10,     30,     60,    120,    300};
// One step on one tile takes ten microseconds on a GPU and milliseconds on a CPU.
const HistogramBuckets kStepSeconds = {0.00001, 0.000025, 0.00005, 0.0001, 0.00025,
                                       0.0005,  0.001,    0.0025,  0.005,  0.01,
                                       0.025,   0.05,     0.1,     0.25,   1};
const HistogramBuckets kSlices = {1, 2, 4, 8, 16, 32, 64, 128, 256};

const MetricDescription kCatalog[] = {
    // Calls.
    {"chorale_requests_total", kCounter, "Finished calls, by method and status code."},
    {"chorale_quota_refusals_total", kCounter,
     "Calls refused because a quota of their tenant was used up, by method."},
    {"chorale_request_duration_seconds", kHistogram, "Time from arrival to end of a call.",
     &kCallSeconds},
    {"chorale_inflight_requests", kGauge, "Calls that have arrived and not ended."},
    {"chorale_rejected_total", kCounter,
     "Calls rejected because the server is full or cannot serve, by reason."},
    {"chorale_connections", kGauge, "Established connections to the gRPC port."},
    {"chorale_max_connections", kGauge, "Limit of connections to the gRPC port."},
    {"chorale_connections_refused_total", kCounter,
     "Connections closed as soon as they came, by the limit that they would have exceeded."},
    {"chorale_connections_ended_total", kCounter,
     "Connections that the server has ended, because they kept it busiest when memory was short, "
     "or "
     "sent much more than the messages of their calls, by reason."},
    {"chorale_streams_live", kGauge, "Open Sample streams."},
    {"chorale_stalled_streams_total", kCounter,
     "Calls cancelled because their client stopped reading or writing."},
    // Saturation.
    {"chorale_backlog_seconds", kGauge,
     "Time that all accepted work, waiting or running, will take at the rate of the last seconds."},
    {"chorale_backlog_values", kGauge,
     "Results that all accepted calls still wait for: values to draw, values to compute the "
     "density of, rows to predict."},
    {"chorale_queue_seconds", kHistogram, "Time that a call waits for admission.", &kWaitSeconds},
    {"chorale_sessions", kGauge,
     "Calls in the engine, by state: running, or queued for admission."},
    {"chorale_waiting_clients", kGauge,
     "Clients (tenants, or hosts without one) that have calls in the queue."},
    {"chorale_largest_client_share", kGauge,
     "What the client that holds most has of the buffer pool or of the places of running calls, "
     "whichever is more: 0 to 1. Lines of the log name clients."},
    // Work.
    {"chorale_values_total", kCounter,
     "Results: values drawn (Sample), values whose density was computed (LogDensity), rows "
     "predicted (Predict)."},
    {"chorale_encoded_rows_total", kCounter, "Context rows encoded."},
    {"chorale_flops_total", kCounter,
     "Floating-point operations of matrix products and attention, by kind of work."},
    {"chorale_time_to_first_step_seconds", kHistogram,
     "Time from the arrival of a Sample call to its first drawn values.", &kWaitSeconds},
    {"chorale_step_seconds", kHistogram,
     "Engine time per decode step of one tile of paths: the time of a tick's decode steps divided "
     "by their number. Counts steps.",
     &kStepSeconds},
    // The engine.
    {"chorale_tick_seconds", kHistogram,
     "Engine time of one tick, which runs several slices of work together.", &kStepSeconds},
    {"chorale_tick_slices", kHistogram, "Slices of work in one tick.", &kSlices},
    {"chorale_last_tick_age_seconds", kGauge,
     "Time since the engine began its last tick; 0 while there is nothing to do."},
    {"chorale_summary_queue", kGauge, "Tiles of predictions that wait to be summarised."},
    {"chorale_summary_seconds", kHistogram, "Time to summarise one tile of a prediction.",
     &kWaitSeconds},
    // Contexts.
    {"chorale_encode_seconds", kHistogram, "Time to encode one context, from start to resident.",
     &kWaitSeconds},
    {"chorale_restore_seconds", kHistogram,
     "Time to bring one encoded context back from host memory or a file, from start to resident.",
     &kWaitSeconds},
    {"chorale_context_lookups_total", kCounter,
     "Contexts that calls asked for, by where their keys and values were: resident (hit), in host "
     "memory (host_hit), in a file (disk_hit), or nowhere (miss)."},
    {"chorale_evictions_total", kCounter,
     "Contexts that made room for others: in the context pool, with a copy in host memory "
     "(saved_to_host) or none (dropped), or in host memory (host_pool_full); or whose model went "
     "(model_unloaded)."},
    {"chorale_contexts", kGauge,
     "Contexts that are resident or on the way there or back, by state. Saved: in host memory "
     "only."},
    {"chorale_registered_contexts", kGauge, "Contexts in the store."},
    {"chorale_dataset_bytes", kGauge, "Bytes of the datasets in the store."},
    {"chorale_data_disk_free_bytes", kGauge, "Free space on the disk of the data directory."},
    {"chorale_data_disk_full", kGauge,
     "1 while registrations are refused because the disk of the data directory is full, else 0."},
    // Memory.
    {"chorale_pool_bytes", kGauge, "Size of a memory pool."},
    {"chorale_pool_used_bytes", kGauge,
     "Bytes of a memory pool in use, by part. Of the context pool, pinned cannot be evicted: "
     "running calls use it, or it is to stay. registration: tables that are being registered; "
     "kept_tables: tables that await their first request."},
    {"chorale_gpu_memory_bytes", kGauge,
     "Memory of the GPU, by part. \"other\" is used by the driver and by other processes."},
    {"chorale_memory_limit_bytes", kGauge,
     "Limit of the resident memory of the process, by the flag or the cgroup; 0: none, or the one "
     "that "
     "the server sets itself, which follows its work."},
    {"chorale_memory_bytes", kGauge,
     "Host memory, by part: used, or kept for later, by the C library's allocator, which has most "
     "of what lies outside the pools; taken by tables that are being registered."},
    // The process.
    {"process_cpu_seconds_total", kCounter, "User and system CPU time of the process."},
    {"process_resident_memory_bytes", kGauge, "Resident memory of the process."},
    {"process_virtual_memory_bytes", kGauge, "Virtual memory of the process."},
    {"process_open_fds", kGauge, "Open file descriptors."},
    {"process_max_fds", kGauge, "Limit of open file descriptors."},
    {"process_start_time_seconds", kGauge, "Start of the process, since the Unix epoch."},
    {"process_threads", kGauge, "Threads of the process."},
    // State.
    {"chorale_ready", kGauge, "1 while calls are admitted, else 0; as /readyz."},
    {"chorale_draining", kGauge, "1 from the begin of a shutdown on, else 0."},
    {"chorale_config_reloads_total", kCounter,
     "Times that the configuration was read again, by result: ok, or error, which changes "
     "nothing."},
    {"chorale_config_last_reload_successful", kGauge,
     "0 while something in the files of the configuration is refused, so that the server runs with "
     "what they said before, else 1."},
    {"chorale_tls_certificate_expiry_seconds", kGauge,
     "When the first of all certificates in the server's files expires, since the Unix epoch. Only "
     "with TLS."},
    {"chorale_log_lines_dropped_total", kCounter,
     "Lines of the log that were dropped because they came faster than they could be written."},
    {"chorale_spans_dropped_total", kCounter,
     "Spans of traces that were not delivered: the collector was away, slow, or refused them."},
    {"chorale_build_info", kGauge, "Always 1; the labels are the version and the commit."},
    {"chorale_backend_info", kGauge,
     "Always 1; the labels are the backend, its device, and the threads that compute."},
    {"chorale_model_info", kGauge, "Always 1; the labels say which models are served."},
    {"chorale_model_left_out", kGauge,
     "1 for each model that is to be served and is left out, because the machine lacks something "
     "that it needs; absent for others."},
    // Tenants: at most 100, the others together as tenant \"other\".
    {"chorale_tenant_requests_total", kCounter, "Finished calls, by tenant and method."},
    {"chorale_tenant_values_total", kCounter, "Results, as chorale_values_total, by tenant."},
    {"chorale_tenant_engine_seconds_total", kCounter,
     "Time of the engine's ticks, divided among the tenants whose work was done in them."},
    {"chorale_tenant_inflight_requests", kGauge,
     "Calls that have arrived and not ended, by tenant."},
    {"chorale_tenant_quota_refusals_total", kCounter,
     "Calls refused because a quota of their tenant was used up, by tenant and quota."},
};

}  // namespace

const HistogramBuckets& StepSecondsBuckets() { return kStepSeconds; }

const MetricDescription& DescriptionOf(absl::string_view name) {
  const auto* const found = std::find_if(std::begin(kCatalog), std::end(kCatalog),
                                         [&](const auto& each) { return name == each.name; });
  Require(found != std::end(kCatalog), "the catalog has the metric");
  return *found;
}

}  // namespace chorale
