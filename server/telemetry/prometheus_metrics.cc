#include "server/telemetry/prometheus_metrics.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

namespace chorale {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

struct MetricRow {
  const char* name;
  const char* help;
  const Buckets* buckets;  // null unless it is a histogram
};

// Whole calls: from a half-millisecond prediction to a stream of several minutes.
const Buckets kCallSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                              0.5,    1,     2.5,    5,     10,   30,    60,   120, 300};
// Waits and encodings.
const Buckets kWaitSeconds = {0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                              0.1,    0.25,   0.5,   1,      2.5,   5,    10,    30};
// One step on one tile takes ten microseconds on a GPU and milliseconds on a CPU.
const Buckets kStepSeconds = {0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                              0.005,   0.01,     0.025,   0.05,   0.1,     0.25,   1};
const Buckets kSlices = {1, 2, 4, 8, 16, 32, 64, 128, 256};

const MetricRow kMetrics[] = {
    {"chorale_requests_total", "Finished calls, by method and status code.", nullptr},
    {"chorale_request_duration_seconds", "Time from arrival to end of a call, by method.",
     &kCallSeconds},
    {"chorale_rejected_total",
     "Calls rejected because the server is full or cannot serve, by reason.", nullptr},
    {"chorale_queue_seconds", "Time that a call waits for admission.", &kWaitSeconds},
    {"chorale_time_to_first_step_seconds",
     "Time from the arrival of a Sample call to its first drawn values.", &kWaitSeconds},
    {"chorale_step_seconds",
     "Engine time per decode step of one tile of paths: the time of a tick's decode steps divided "
     "by their number. Counts steps.",
     &kStepSeconds},
    {"chorale_tick_seconds", "Engine time of one tick, which runs several slices of work together.",
     &kStepSeconds},
    {"chorale_tick_slices", "Slices of work in one tick.", &kSlices},
    {"chorale_path_steps_total", "Values drawn: paths times steps.", nullptr},
    {"chorale_encode_seconds", "Time to encode one context, from start to resident.",
     &kWaitSeconds},
    {"chorale_restore_seconds",
     "Time to copy one evicted context back from host memory, from start to resident.",
     &kWaitSeconds},
    {"chorale_evictions_total", "Contexts evicted from the context pool.", nullptr},
    {"chorale_resident_contexts", "Contexts whose keys and values are in the context pool.",
     nullptr},
    {"chorale_context_bytes", "Bytes of the context pool in use.", nullptr},
    {"chorale_context_pool_bytes", "Size of the context pool.", nullptr},
    {"chorale_buffer_bytes", "Bytes of the buffer pool in use.", nullptr},
    {"chorale_buffer_pool_bytes", "Size of the buffer pool.", nullptr},
    {"chorale_sessions", "Calls in the engine, by state: running, or queued for admission.",
     nullptr},
    {"chorale_streams_live", "Open Sample streams.", nullptr},
    {"chorale_stalled_streams_total",
     "Calls cancelled because their client stopped reading or writing.", nullptr},
    {"chorale_build_info", "Always 1; the labels are the version and the backend.", nullptr},
};

const MetricRow& RowOf(absl::string_view name) {
  return *std::find_if(std::begin(kMetrics), std::end(kMetrics),
                       [&](const MetricRow& row) { return name == row.name; });
}

// The reasons of the engine and the server. Any other reason counts as "other".
constexpr const char* kReasons[] = {"queue_full",     "queue_timeout",       "draining",
                                    "backend_failed", "registration_memory", "blocking_queue_full",
                                    "other"};

}  // namespace

PrometheusMetrics::PrometheusMetrics() : registry_(std::make_shared<prometheus::Registry>()) {
  for (size_t method = 0; method < kMethodNames.size(); ++method) {
    const std::string name = kMethodNames[method];
    for (int code = 0; code < kCodes; ++code) {
      requests_[method][code] =
          AddCounter("chorale_requests_total",
                     {{"method", name},
                      {"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}});
    }
    request_duration_[method] =
        AddHistogram("chorale_request_duration_seconds", {{"method", name}});
  }
  for (const char* reason : kReasons) {
    rejected_[reason] = AddCounter("chorale_rejected_total", {{"reason", reason}});
  }
  queue_ = AddHistogram("chorale_queue_seconds");
  first_step_ = AddHistogram("chorale_time_to_first_step_seconds");
  step_ = AddHistogram("chorale_step_seconds");
  tick_ = AddHistogram("chorale_tick_seconds");
  tick_slices_ = AddHistogram("chorale_tick_slices");
  encode_ = AddHistogram("chorale_encode_seconds");
  restore_ = AddHistogram("chorale_restore_seconds");
  evictions_ = AddCounter("chorale_evictions_total");
  path_steps_ = AddCounter("chorale_path_steps_total");
  stalled_streams_ = AddCounter("chorale_stalled_streams_total");
  resident_contexts_ = AddGauge("chorale_resident_contexts");
  context_bytes_ = AddGauge("chorale_context_bytes");
  context_pool_bytes_ = AddGauge("chorale_context_pool_bytes");
  buffer_bytes_ = AddGauge("chorale_buffer_bytes");
  buffer_pool_bytes_ = AddGauge("chorale_buffer_pool_bytes");
  sessions_running_ = AddGauge("chorale_sessions", {{"state", "running"}});
  sessions_queued_ = AddGauge("chorale_sessions", {{"state", "queued"}});
  streams_live_ = AddGauge("chorale_streams_live");
}

PrometheusMetrics::~PrometheusMetrics() = default;

prometheus::Counter* PrometheusMetrics::AddCounter(const char* name,
                                                   const prometheus::Labels& labels) {
  const MetricRow& row = RowOf(name);
  return &prometheus::BuildCounter().Name(row.name).Help(row.help).Register(*registry_).Add(labels);
}

prometheus::Gauge* PrometheusMetrics::AddGauge(const char* name, const prometheus::Labels& labels) {
  const MetricRow& row = RowOf(name);
  return &prometheus::BuildGauge().Name(row.name).Help(row.help).Register(*registry_).Add(labels);
}

prometheus::Histogram* PrometheusMetrics::AddHistogram(const char* name,
                                                       const prometheus::Labels& labels) {
  const MetricRow& row = RowOf(name);
  return &prometheus::BuildHistogram()
              .Name(row.name)
              .Help(row.help)
              .Register(*registry_)
              .Add(labels, *row.buckets);
}

void PrometheusMetrics::QueueTime(absl::Duration time) {
  queue_->Observe(absl::ToDoubleSeconds(time));
}

void PrometheusMetrics::TimeToFirstStep(absl::Duration time) {
  first_step_->Observe(absl::ToDoubleSeconds(time));
}

void PrometheusMetrics::StepTimes(absl::Duration each, int64_t count) {
  const double seconds = absl::ToDoubleSeconds(each);
  // A tick may have thousands of steps: one bulk observation is cheaper.
  std::vector<double> observations(kStepSeconds.size() + 1);  // the last one is the +Inf bucket
  const auto bucket = std::lower_bound(kStepSeconds.begin(), kStepSeconds.end(), seconds);
  observations[bucket - kStepSeconds.begin()] = static_cast<double>(count);
  step_->ObserveMultiple(observations, seconds * static_cast<double>(count));
}

void PrometheusMetrics::TickTime(absl::Duration time, int64_t slices) {
  tick_->Observe(absl::ToDoubleSeconds(time));
  tick_slices_->Observe(static_cast<double>(slices));
}

void PrometheusMetrics::EncodeTime(absl::Duration time) {
  encode_->Observe(absl::ToDoubleSeconds(time));
}

void PrometheusMetrics::RestoreTime(absl::Duration time) {
  restore_->Observe(absl::ToDoubleSeconds(time));
}

void PrometheusMetrics::Eviction() { evictions_->Increment(); }

void PrometheusMetrics::Rejected(const char* reason) {
  auto it = rejected_.find(absl::string_view(reason));
  if (it == rejected_.end()) it = rejected_.find(absl::string_view("other"));
  it->second->Increment();
}

void PrometheusMetrics::PathSteps(int64_t count) {
  path_steps_->Increment(static_cast<double>(count));
}

void PrometheusMetrics::ResidentContexts(int64_t count, int64_t bytes) {
  resident_contexts_->Set(static_cast<double>(count));
  context_bytes_->Set(static_cast<double>(bytes));
}

void PrometheusMetrics::BufferBytes(int64_t in_use) {
  buffer_bytes_->Set(static_cast<double>(in_use));
}

void PrometheusMetrics::Sessions(int64_t running, int64_t queued) {
  sessions_running_->Set(static_cast<double>(running));
  sessions_queued_->Set(static_cast<double>(queued));
}

void PrometheusMetrics::RequestDone(Method method, absl::StatusCode code, absl::Duration duration) {
  const int number = static_cast<int>(code);
  const int known =
      number >= 0 && number < kCodes ? number : static_cast<int>(absl::StatusCode::kUnknown);
  requests_[static_cast<int>(method)][known]->Increment();
  request_duration_[static_cast<int>(method)]->Observe(absl::ToDoubleSeconds(duration));
}

void PrometheusMetrics::StreamStarted() { streams_live_->Increment(); }
void PrometheusMetrics::StreamEnded() { streams_live_->Decrement(); }

void PrometheusMetrics::StalledStreams(int64_t count) {
  stalled_streams_->Increment(static_cast<double>(count));
}

void PrometheusMetrics::PoolBytes(int64_t context_pool, int64_t buffer_pool) {
  context_pool_bytes_->Set(static_cast<double>(context_pool));
  buffer_pool_bytes_->Set(static_cast<double>(buffer_pool));
}

void PrometheusMetrics::BuildInfo(absl::string_view version, absl::string_view backend) {
  AddGauge("chorale_build_info",
           {{"version", std::string(version)}, {"backend", std::string(backend)}})
      ->Set(1);
}

}  // namespace chorale
