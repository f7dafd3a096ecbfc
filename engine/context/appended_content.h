// The content that an append stores, and the content that encoding a context anew stores.
#ifndef CHORALE_ENGINE_CONTEXT_APPENDED_CONTENT_H_
#define CHORALE_ENGINE_CONTEXT_APPENDED_CONTENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/backend/backend.h"
#include "engine/context/registered_context.h"
#include "engine/context/registration.h"
#include "engine/data/column_note.h"
#include "engine/data/limits.h"
#include "engine/data/table.h"
#include "engine/store/context_store.h"

namespace chorale {

// A context as the store has it.
struct ReadContext {
  ContextRecord record;
  std::string bytes;  // the encoded dataset
  std::shared_ptr<const ServedModel> model;
  std::shared_ptr<const RegisteredContext> in_memory;  // null if it is not in memory
};

// A content to store instead of that of a context, which keeps its details and times.
struct NewContent {
  Dataset dataset;
  Registration registration;
};

struct PreparedAppend {
  bool already_appended = false;      // see AppendRequest::first_row
  int64_t rows = 0;                   // of the call, without dropped rows
  std::optional<NewContent> content;  // unless the rows are appended already
  std::vector<ColumnNote> notes;      // of the appended rows
  std::optional<Estimate> estimate;   // of their encoding
};

// The checks and the work of Engine::Append, except for the store. Returns the errors of
// Engine::Append.
absl::StatusOr<PreparedAppend> PrepareAppend(const ReadContext& stored,
                                             const AppendRequest& request, const Table& rows,
                                             const Limits& limits, const Backend& backend,
                                             int64_t context_pool_bytes);

// Returns the content of a registration of all rows. Limits of registrations do not apply, because
// the rows are registered already. REQUIRES: rows were appended to the context.
absl::StatusOr<NewContent> PrepareAnew(const ReadContext& stored, const Backend& backend,
                                       int64_t context_pool_bytes);

// Returns the content of `stored` with fewer appends: the rows that the context had when its record
// was `before` are encoded anew together, with `transform`, which was fitted to them. Returns
// nullopt if the content of `stored` is not that of `before` with further rows appended.
absl::StatusOr<std::optional<NewContent>> PrepareAppendedSince(const ContextRecord& before,
                                                               const FeatureTransform& transform,
                                                               const ReadContext& stored,
                                                               const Backend& backend,
                                                               int64_t context_pool_bytes);

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_APPENDED_CONTENT_H_
