#include "server/telemetry/series.h"

#include "server/telemetry/metric_catalog.h"

namespace chorale {

prometheus::Counter* AddCounter(prometheus::Registry* registry, const char* name,
                                const prometheus::Labels& labels) {
  const MetricDescription& metric = DescriptionOf(name);
  return &prometheus::BuildCounter()
              .Name(metric.name)
              .Help(metric.help)
              .Register(*registry)
              .Add(labels);
}

prometheus::Gauge* AddGauge(prometheus::Registry* registry, const char* name,
                            const prometheus::Labels& labels) {
  const MetricDescription& metric = DescriptionOf(name);
  return &prometheus::BuildGauge()
              .Name(metric.name)
              .Help(metric.help)
              .Register(*registry)
              .Add(labels);
}

prometheus::Histogram* AddHistogram(prometheus::Registry* registry, const char* name,
                                    const prometheus::Labels& labels) {
  const MetricDescription& metric = DescriptionOf(name);
  return &prometheus::BuildHistogram()
              .Name(metric.name)
              .Help(metric.help)
              .Register(*registry)
              .Add(labels, *metric.buckets);
}

}  // namespace chorale
