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

// Every method blocks on the disk.
//
// Thread contract: loader thread only, but for bytes().
class ContextLoader {
 public:
  // All outlive the loader.
  ContextLoader(ContextStore* store, const ModelRegistry* models, const Backend* byte_counts,
                ContextRegistry* registry)
      : store_(store), models_(models), byte_counts_(byte_counts), registry_(registry) {}

  // The registration that the name stands for now. NotFound; FailedPrecondition when its model is
  // not served; before its dataset is read, the error of Preparation::Check; errors of the store.
  // A context that is in memory is not checked.
  absl::StatusOr<std::shared_ptr<const RegisteredContext>> Load(const std::string& tenant,
                                                                const std::string& name,
                                                                const Preparation& preparation);

  // The data of a context that is in memory. NotFound when it was deleted.
  absl::StatusOr<ContextData> ReadData(const RegisteredContext& context);

  // An upper estimate of what the call in progress takes of the host's memory. Any thread.
  int64_t bytes() const { return bytes_; }

 private:
  // The file, the dataset, what is made of it, and copies of columns on the way.
  static constexpr int64_t kCopiesOfDataset = 4;

  std::atomic<int64_t> bytes_{0};
  ContextStore* const store_;
  const ModelRegistry* const models_;
  const Backend* const byte_counts_;  // used for its const byte counts only
  ContextRegistry* const registry_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_LOADER_H_
