// Every metric of the server: its name, its type and its description.
#ifndef CHORALE_SERVER_TELEMETRY_METRIC_CATALOG_H_
#define CHORALE_SERVER_TELEMETRY_METRIC_CATALOG_H_

#include <prometheus/histogram.h>
#include <prometheus/metric_type.h>

#include "absl/strings/string_view.h"

namespace chorale {

using HistogramBuckets = prometheus::Histogram::BucketBoundaries;

struct MetricDescription {
  const char* name;
  prometheus::MetricType type;
  const char* help;
  const HistogramBuckets* buckets = nullptr;  // upper limits; null unless it is a histogram
};

// The buckets of chorale_step_seconds and chorale_tick_seconds.
const HistogramBuckets& StepSecondsBuckets();

// REQUIRES: the catalog contains the name.
const MetricDescription& DescriptionOf(absl::string_view name);

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_METRIC_CATALOG_H_
