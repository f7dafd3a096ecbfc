// Limits on the size of one request. They are checked before anything is allocated for it.
#ifndef CHORALE_ENGINE_DATA_LIMITS_H_
#define CHORALE_ENGINE_DATA_LIMITS_H_

#include <cstdint>

namespace chorale {

struct Limits {
  int64_t max_context_rows = 65'536;
  int64_t max_features = 1'024;
  int64_t max_categories = 4'096;         // distinct categories of one column
  int64_t max_name_bytes = 256;           // a column name or a category
  int64_t max_dataset_bytes = 256 << 20;  // an encoded dataset
  int64_t max_paths = 16'384;             // B of one request
  int64_t max_query_rows = 16'384;        // T of one request
  int64_t max_orders = 1'024;             // R of one LogDensity request
  int64_t max_values = 4 << 20;           // B * T (times R) of one request
  int64_t max_quantiles = 64;
  // The size of the numbers in one response of Predict or LogDensity, which is one message: 4 MiB
  // minus space for other fields.
  int64_t max_response_bytes = (4 << 20) - (16 << 10);
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_DATA_LIMITS_H_
