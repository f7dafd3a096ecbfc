// The interface for validating a request and converting it to model input, before it reaches the
// engine thread.
#ifndef CHORALE_ENGINE_CONTEXT_PREPARATION_H_
#define CHORALE_ENGINE_CONTEXT_PREPARATION_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/model_info.h"
#include "engine/context/registered_context.h"
#include "engine/data/column_note.h"
#include "engine/data/feature_transform.h"
#include "engine/store/context_store.h"

namespace chorale {

// A request that was validated against its context and converted to model input.
struct PreparedRequest {
  std::shared_ptr<const RegisteredContext> context;
  FeatureMatrix query_rows;
  std::vector<ColumnNote> notes = {};  // of the query rows' columns, then of the context's target
};

// The preparation of one request. Immutable: any thread may call the methods.
class Preparation {
 public:
  virtual ~Preparation() = default;
  // Validates the request against the record of its context and against the model, so that an
  // invalid request does not cause the server to read a dataset.
  virtual absl::Status Check(const ContextRecord& record, const ModelInfo& model) const = 0;
  // Returns the number of rows of the local context that the request wants instead of this context;
  // 0: it wants the whole context. Negative or too small if the request is invalid.
  virtual int64_t LocalRows(const ContextRecord& record) const = 0;
  // Validates the request against its context, and converts it.
  virtual absl::StatusOr<PreparedRequest> Prepare(
      std::shared_ptr<const RegisteredContext> context) const = 0;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_PREPARATION_H_
