// Converts a dataset that a user registers to the record and the bytes that the store keeps.
#ifndef CHORALE_ENGINE_CONTEXT_REGISTRATION_H_
#define CHORALE_ENGINE_CONTEXT_REGISTRATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/backend/backend.h"
#include "engine/context/registered_context.h"
#include "engine/data/column_note.h"
#include "engine/data/feature_transform.h"
#include "engine/data/limits.h"
#include "engine/data/memory_set.h"
#include "engine/data/season.h"
#include "engine/data/table.h"
#include "engine/store/context_store.h"

namespace chorale {

struct Registration {
  ContextRecord record;
  std::string bytes;  // the encoded dataset
  FeatureTransform transform;
};

// Prepares a registration. Checks everything that could later prevent the encoding of the context,
// with a context pool of `context_pool_bytes`. Returns InvalidArgument if a check fails, and
// FailedPrecondition if the backend has no memory sets and the context is reduced to one.
absl::StatusOr<Registration> PrepareRegistration(const std::string& tenant, const std::string& name,
                                                 const ServedModel& model, const Dataset& dataset,
                                                 const Limits& limits, const Backend& backend,
                                                 int64_t context_pool_bytes);

// The same for a context whose transform is known: that of the rows before the first append.
// REQUIRES: name and dataset are valid.
absl::StatusOr<Registration> PrepareContent(const std::string& tenant, const std::string& name,
                                            const ServedModel& model, const Dataset& dataset,
                                            FeatureTransform transform, const Limits& limits,
                                            const Backend& backend, int64_t context_pool_bytes);

// Returns the season of the context from its record, if this version of the transform wrote it.
// Searching for the season again takes much longer than everything else that a transform needs.
std::optional<KnownSeason> SeasonOf(const ContextRecord& record);

// Returns the warnings about a registration for a model with this configuration.
std::vector<ColumnNote> NotesOf(const Registration& registration, const ModelConfig& config);

// Returns the cost of encoding a context: its keys and values, the workspace, and the duration.
Estimate EstimateEncoding(const ServedModel& model, const ContextShape& shape,
                          const Backend& backend);

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_REGISTRATION_H_
