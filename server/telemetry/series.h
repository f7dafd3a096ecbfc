// Registers series with the names and texts of the catalog.
#ifndef CHORALE_SERVER_TELEMETRY_SERIES_H_
#define CHORALE_SERVER_TELEMETRY_SERIES_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace chorale {

// The same series for the same name and labels. It lives as long as the registry. Thread-safe.
prometheus::Counter* AddCounter(prometheus::Registry* registry, const char* name,
                                const prometheus::Labels& labels = {});
prometheus::Gauge* AddGauge(prometheus::Registry* registry, const char* name,
                            const prometheus::Labels& labels = {});
prometheus::Histogram* AddHistogram(prometheus::Registry* registry, const char* name,
                                    const prometheus::Labels& labels = {});

}  // namespace chorale

#endif  // CHORALE_SERVER_TELEMETRY_SERIES_H_
