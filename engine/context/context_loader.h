// Reads registered contexts from the store.
#ifndef CHORALE_ENGINE_CONTEXT_CONTEXT_LOADER_H_
#define CHORALE_ENGINE_CONTEXT_CONTEXT_LOADER_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/context/context_registry.h"
#include "engine/context/model_registry.h"
#include "engine/context/preparation.h"
#include "engine/context/registered_context.h"
#include "engine/store/context_store.h"

namespace chorale {

// All methods except MakePart and bytes() block on the disk.
//
// Thread contract: loader thread only, except MakePart and bytes().
class ContextLoader {
 public:
  // All pointers must outlive the loader.
  ContextLoader(ContextStore* store, const ModelRegistry* models, const Backend* byte_counts,
                ContextRegistry* registry)
      : store_(store), models_(models), byte_counts_(byte_counts), registry_(registry) {}

  // Returns the current registration with this name; if it is read from the store, with its data,
  // or, for a request that wants a local context, with its table in the registry. Returns NotFound
  // if there is none, FailedPrecondition if its model is not served, the error of
  // Preparation::Check before the dataset is read, or an error of the store. A context that is in
  // memory is returned without the check.
  absl::StatusOr<std::shared_ptr<const RegisteredContext>> Load(const std::string& tenant,
                                                                const std::string& name,
                                                                const Preparation& preparation);

  // Returns the table of a context. Reads it, unless the registry holds it; then lets the registry
  // hold it. Returns NotFound if the context was deleted or replaced.
  absl::StatusOr<std::shared_ptr<const ContextData>> LoadTable(
      const std::shared_ptr<const RegisteredContext>& context);

  // Returns a local context: `rows` rows of `whole`, whose table is given, for these query rows
  // (NearestRows), with their data. Any thread, since it reads nothing: the distances can take
  // seconds. REQUIRES: as of NearestRows.
  std::shared_ptr<const RegisteredContext> MakePart(
      const std::shared_ptr<const RegisteredContext>& whole, const ContextData& table,
      const FeatureMatrix& query_rows, int64_t rows) const;

  // Reads the data of a context that is in memory, or that of a local context. Returns NotFound if
  // the context was deleted.
  absl::StatusOr<ContextData> ReadData(const RegisteredContext& context);

  // Returns an upper estimate of the host memory that the call in progress uses. Any thread.
  int64_t bytes() const { return bytes_; }

 private:
  // The file, the dataset, the data that is computed from it, and temporary copies of columns.
  static constexpr int64_t kCopiesOfDataset = 4;

  absl::StatusOr<ContextData> ReadTable(const RegisteredContext& context);

  std::atomic<int64_t> bytes_{0};
  ContextStore* const store_;
  const ModelRegistry* const models_;
  const Backend* const byte_counts_;  // only for its const byte counts
  ContextRegistry* const registry_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_LOADER_H_
