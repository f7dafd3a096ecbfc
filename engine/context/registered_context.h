// A registered context in memory, and its data.
#ifndef CHORALE_ENGINE_CONTEXT_REGISTERED_CONTEXT_H_
#define CHORALE_ENGINE_CONTEXT_REGISTERED_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/model_info.h"
#include "engine/api/request.h"
#include "engine/backend/backend.h"
#include "engine/data/feature_transform.h"
#include "engine/store/context_store.h"

namespace chorale {

// A model as the engine serves it. `weights` is touched by the engine thread only: it sets them
// before any request finds the model, and resets them when no context in the cache needs them and
// none can come. `info` and `kv_format` are immutable from then on, but `is_default` means nothing
// here; the registry knows that.
struct ServedModel {
  // Gives the model to the backend. Errors are the backend's, except Unavailable: kSkipped. Engine
  // thread; before any request finds the model.
  absl::StatusOr<ModelOutcome> AddTo(Backend* backend, const Model& model);

  ModelInfo info;
  std::string kv_format;  // BackendModel::kv_format
  std::shared_ptr<const BackendModel> weights;
  std::atomic<bool> removed{false};  // set once, by the registry
};

// The error of a request for a context of a model that is not served.
absl::Status ModelNotServed(const std::string& context, const std::string& model);

// What encoding a context needs of its dataset.
struct ContextData {
  FeatureMatrix features;
  std::vector<float> y;  // [rows], model's target units
};

// `transform` was fitted to `dataset`. InvalidArgument when numbers are too large for the model.
absl::StatusOr<ContextData> MakeContextData(const Dataset& dataset,
                                            const FeatureTransform& transform);

// One registration of a context. The object is the registration's identity: a name that is deleted
// and registered again, even with the same content, is another object, so that nothing of the old
// one is mistaken for the new one's.
//
// Immutable except for the fields marked otherwise; thread-safe.
struct RegisteredContext {
  ContextRecord record;
  FeatureTransform transform;
  std::shared_ptr<const ServedModel> model;
  int64_t resident_bytes = 0;  // that its keys and values take

  // The data, until the engine thread takes it when it first sees the context. No other thread
  // touches it once the context is published.
  mutable std::unique_ptr<ContextData> data;
  mutable std::atomic<bool> deleted{false};                         // set once, by the registry
  mutable std::atomic<ContextState> state{ContextState::kEvicted};  // set by the engine thread

  // Whether no new request may use it.
  bool gone() const { return deleted || model->removed; }
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_REGISTERED_CONTEXT_H_
