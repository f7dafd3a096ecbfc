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
     "Calls rejected because a quota of their tenant was used up, by method."},
    {"chorale_request_duration_seconds", kHistogram, "Time from the arrival to the end of a call.",
     &kCallSeconds},
    {"chorale_inflight_requests", kGauge, "Calls in flight: arrived and not yet ended."},
    {"chorale_rejected_total", kCounter,
     "Calls rejected because the server is full or cannot serve them, by reason."},
    {"chorale_connections", kGauge, "Established connections to the gRPC port."},
    {"chorale_max_connections", kGauge, "Limit of connections to the gRPC port."},
    {"chorale_connections_refused_total", kCounter,
     "Connections closed immediately because they exceeded a limit, by limit."},
    {"chorale_connections_ended_total", kCounter,
     "Established connections that the server closed, by reason: memory (memory was short, and "
     "they sent most) or flood (they sent much more than the messages of their calls)."},
    {"chorale_streams_live", kGauge, "Open Sample streams."},
    {"chorale_stalled_streams_total", kCounter,
     "Calls cancelled because their client stopped reading or sending."},
    // Saturation.
    {"chorale_backlog_seconds", kGauge,
     "Expected time to complete all accepted work, waiting or running, at the rate of the last "
     "seconds."},
    {"chorale_backlog_values", kGauge,
     "Pending results of all accepted calls: values to draw, values whose density is to be "
     "computed, and rows to predict."},
    {"chorale_queue_seconds", kHistogram, "Time that a call waits for admission.", &kWaitSeconds},
    {"chorale_sessions", kGauge,
     "Calls in the engine, by state: running, or queued for admission."},
    {"chorale_waiting_clients", kGauge,
     "Clients (tenants, or hosts without a tenant) that have calls in the queue."},
    {"chorale_largest_client_share", kGauge,
     "Largest share of a single client, 0 to 1: its share of the buffer pool or of the slots of "
     "running calls, whichever is larger. The log names clients."},
    // Work.
    {"chorale_values_total", kCounter,
     "Results: values drawn (Sample, Summarize), values whose density was computed (LogDensity), "
     "and rows "
     "predicted (Predict)."},
    {"chorale_encoded_rows_total", kCounter, "Context rows encoded."},
    {"chorale_memory_set_keys_total", kCounter,
     "Keys that each layer and K/V head keeps of contexts encoded as memory sets, by policy."},
    {"chorale_appends_total", kCounter, "Appends of rows to contexts."},
    {"chorale_appended_rows_total", kCounter, "Rows appended to contexts."},
    {"chorale_encodings_anew_total", kCounter,
     "Encodings of contexts with appended rows as a whole, by outcome: replaced (the new encoding "
     "serves), changed (given up, because the context changed or was deleted) or failed."},
    {"chorale_flops_total", kCounter,
     "Floating-point operations of GEMMs and attention, by kind of work."},
    {"chorale_time_to_first_step_seconds", kHistogram,
     "Time from the arrival of a Sample call to its first drawn values.", &kWaitSeconds},
    {"chorale_step_seconds", kHistogram,
     "Engine time per decode step of a tile of paths: the time of a tick's decode steps, divided "
     "by their number. The count is the number of steps.",
     &kStepSeconds},
    // The engine.
    {"chorale_tick_seconds", kHistogram,
     "Engine time of a tick, which runs several slices of work together.", &kStepSeconds},
    {"chorale_tick_slices", kHistogram, "Slices of work in a tick.", &kSlices},
    {"chorale_last_tick_age_seconds", kGauge,
     "Time since the engine began its last tick; 0 while the engine is idle."},
    {"chorale_summary_queue", kGauge,
     "Parts of predictions and of summaries that wait for a thread."},
    {"chorale_summary_seconds", kHistogram,
     "Time to compute a part of a prediction or of a summary.", &kWaitSeconds},
    // Contexts.
    {"chorale_encode_seconds", kHistogram,
     "Time to encode a context, from the start until it is resident.", &kWaitSeconds},
    {"chorale_restore_seconds", kHistogram,
     "Time to restore an encoded context from host memory or a file, from the start until it is "
     "resident.",
     &kWaitSeconds},
    {"chorale_context_lookups_total", kCounter,
     "Lookups of contexts by calls, by the location of the keys and values: resident (hit), in "
     "host memory (host_hit), in a file (disk_hit), or not encoded (miss)."},
    {"chorale_evictions_total", kCounter,
     "Evicted contexts, by kind: from the context pool with a copy in host memory (saved_to_host) "
     "or without (dropped), from host memory (host_pool_full), or because their model was removed "
     "(model_unloaded)."},
    {"chorale_contexts", kGauge,
     "Contexts that are resident or in host memory, or are being encoded, saved or restored, by "
     "state. saved: in host memory only."},
    {"chorale_registered_contexts", kGauge, "Contexts in the store."},
    {"chorale_dataset_bytes", kGauge, "Size of the datasets in the store."},
    {"chorale_data_disk_free_bytes", kGauge, "Free space on the disk of the data folder."},
    {"chorale_data_disk_full", kGauge,
     "1 while registrations are rejected because the disk of the data folder is full, else 0."},
    // Memory.
    {"chorale_pool_bytes", kGauge, "Size of a memory pool."},
    {"chorale_pool_used_bytes", kGauge,
     "Memory in use of a memory pool, by part. pinned: contexts that cannot be evicted, because "
     "running calls use them or they are pinned permanently. registration: tables that are being "
     "registered. kept_tables: tables that await their first request."},
    {"chorale_gpu_memory_bytes", kGauge,
     "Memory of the GPU, by part. other: used by the driver and by other processes."},
    {"chorale_memory_limit_bytes", kGauge,
     "Limit of the resident memory of the process, from the flag or the cgroup. 0: no limit, or "
     "the server's own limit, which depends on its work."},
    {"chorale_memory_bytes", kGauge,
     "Host memory, by part: in use by, or free in, the C library's allocator, which holds most "
     "memory outside the pools; tables that are being registered."},
    // The process.
    {"process_cpu_seconds_total", kCounter, "User and system CPU time of the process."},
    {"process_resident_memory_bytes", kGauge, "Resident memory of the process."},
    {"process_virtual_memory_bytes", kGauge, "Virtual memory of the process."},
    {"process_open_fds", kGauge, "Open file descriptors."},
    {"process_max_fds", kGauge, "Maximum number of open file descriptors."},
    {"process_start_time_seconds", kGauge, "Start time of the process, since the Unix epoch."},
    {"process_threads", kGauge, "Number of threads of the process."},
    // State.
    {"chorale_ready", kGauge, "1 while the server admits calls, else 0; like /readyz."},
    {"chorale_draining", kGauge, "1 from the start of a shutdown, else 0."},
    {"chorale_config_reloads_total", kCounter,
     "Reloads of the configuration, by result: ok, or error (the server continues with the old "
     "configuration)."},
    {"chorale_config_last_reload_successful", kGauge,
     "0 while a file of the configuration is rejected and the server continues with the old "
     "content, else 1."},
    {"chorale_tls_certificate_expiry_seconds", kGauge,
     "Earliest expiry of the certificates in the server's files, since the Unix epoch. Only with "
     "TLS."},
    {"chorale_log_lines_dropped_total", kCounter,
     "Log lines that were dropped because they were logged faster than they could be written."},
    {"chorale_spans_dropped_total", kCounter,
     "Spans that were dropped because the collector was unreachable or slow, or rejected them."},
    {"chorale_build_info", kGauge, "Always 1; the labels are the version and the commit."},
    {"chorale_backend_info", kGauge,
     "Always 1; the labels are the backend, its device, and the number of its threads."},
    {"chorale_model_info", kGauge, "Always 1; the labels describe a served model."},
    {"chorale_model_skipped", kGauge,
     "1 for each configured model that the server skips because the machine lacks a requirement; "
     "absent for other models."},
    // Tenants: at most 100, the others together as tenant \"other\".
    {"chorale_tenant_requests_total", kCounter, "Finished calls, by tenant and method."},
    {"chorale_tenant_values_total", kCounter, "Results, as chorale_values_total, by tenant."},
    {"chorale_tenant_engine_seconds_total", kCounter,
     "Time of the engine's ticks, divided among the tenants whose work they contained."},
    {"chorale_tenant_inflight_requests", kGauge, "Calls in flight, by tenant."},
    {"chorale_tenant_quota_refusals_total", kCounter,
     "Calls rejected because a quota of their tenant was used up, by tenant and quota."},
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
