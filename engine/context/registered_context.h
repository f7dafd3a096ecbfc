// A registered context in memory, and its data.
#ifndef CHORALE_ENGINE_CONTEXT_REGISTERED_CONTEXT_H_
#define CHORALE_ENGINE_CONTEXT_REGISTERED_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "engine/api/model_info.h"
#include "engine/api/request.h"
#include "engine/backend/backend.h"
#include "engine/context/measured_rate.h"
#include "engine/data/feature_transform.h"
#include "engine/store/context_store.h"

namespace chorale {

// A model as the engine serves it. Only the engine thread accesses `weights`: it sets them before
// any request finds the model, and resets them when no context in the cache needs them and no new
// context can need them. `info` and `kv_format` are immutable once a request can find the model.
// `info.is_default` is not used here; the registry determines the default model.
struct ServedModel {
  // Adds the model to the backend. Returns kSkipped if the backend returns Unavailable, and any
  // other error of the backend unchanged. Engine thread; call it before any request finds the
  // model.
  absl::StatusOr<ModelOutcome> AddTo(Backend* backend, const Model& model);

  ModelInfo info;
  std::string kv_format;  // BackendModel::kv_format
  std::shared_ptr<const BackendModel> weights;
  std::atomic<bool> removed{false};  // set once, by the registry
  // The speed of encodings, including the time to read their datasets, and of decodes on the
  // device. Set by the engine thread.
  mutable MeasuredRate encode_rate;
  mutable MeasuredRate decode_rate;
};

// Returns the error of a request for a context whose model is not served.
absl::Status ModelNotServed(const std::string& context, const std::string& model);

// The data of a context that its encoding needs.
struct ContextData {
  FeatureMatrix features;
  std::vector<float> y;  // [rows], in the model's target units
};

// Transforms `dataset`, to which `transform` was fitted. Returns InvalidArgument if numbers are too
// large for the model.
absl::StatusOr<ContextData> MakeContextData(const Dataset& dataset,
                                            const FeatureTransform& transform);

// Returns the seed of the random choices of the dataset's memory set (EncodeSpec::seed), which is
// that of a registration of the rows before the first append; 0 if the context is not reduced.
uint64_t MemorySeed(const ContextRecord& record, const Dataset& dataset);

struct RegisteredContext;

// Returns the predecessors of a context whose rows are appended to those of `before`: `before`, and
// its predecessors that are still in memory. Empty if `before` is null.
std::vector<std::weak_ptr<const RegisteredContext>> PredecessorsFrom(
    const std::shared_ptr<const RegisteredContext>& before);

// Returns these rows of the data.
ContextData SelectRows(const ContextData& data, absl::Span<const int32_t> rows);

// One registration of a context. The object is the identity of the registration: if a name is
// deleted and registered again, even with the same content, the new registration is a different
// object. So nothing of the old registration is mistaken for the new registration.
//
// Immutable, except for the fields that a comment marks; thread-safe.
struct RegisteredContext {
  // Its details and times may be out of date: see CurrentRecord.
  ContextRecord record;
  FeatureTransform transform;
  std::shared_ptr<const ServedModel> model;
  int64_t resident_bytes = 0;  // size of its keys and values

  std::vector<int64_t> append_starts = {};  // Dataset::append_starts
  uint64_t memory_seed = 0;                 // MemorySeed
  // The registrations whose rows are the first of these rows, and to which others were appended,
  // the latest first. One that is resident is the prefix of an encoding of this one
  // (EncodeSpec::prefix), if it can be. They are weak, so that no earlier registration stays in
  // memory for its successors.
  std::vector<std::weak_ptr<const RegisteredContext>> predecessors = {};
  // Set for a context that is encoded anew (EncodingsAnew): the digest of the content with appended
  // rows that this content, the same rows without appends, replaces once it is resident. Until
  // then, it is not in the registry, and the store has the other content.
  std::string encodes_anew = {};
  // False until such a context is registered; true for all others. Set by the engine thread.
  mutable std::atomic<bool> registered{true};

  // The rows of a registration that a local context has, in ascending order.
  struct Part {
    std::shared_ptr<const RegisteredContext> whole;
    std::vector<int32_t> rows;
  };
  // Set for a local context: it serves a single call, is not in the registry, is kept in no file,
  // and leaves the cache with its last pin. Its record is that of the registration, except for the
  // numbers of rows and bytes.
  std::optional<Part> part;

  // The data, until the engine thread first receives the context and takes it. Once the context is
  // published, no other thread accesses the data.
  mutable std::unique_ptr<ContextData> data;
  // Set once, by the registry. `replaced`: another registration of the name replaced this one; also
  // set by the loader, which may find out earlier. The registry then also marks it as deleted.
  mutable std::atomic<bool> replaced{false};
  mutable std::atomic<bool> deleted{false};
  // Set before the registration is deleted because rows were appended to it, and reset by the
  // engine thread once the cache knows the latest registration that follows. Until then, its keys
  // and values, or their encoding in flight, stay.
  mutable std::atomic<bool> awaits_successor{false};
  mutable std::atomic<ContextState> state{ContextState::kNotResident};  // set by the engine thread

  // The number of calls that use the context, and whether it is never evicted. Set by the engine
  // thread.
  mutable std::atomic<int64_t> calls{0};
  mutable std::atomic<bool> pinned{false};
  // The limit of the tenant at the last use, see ContextCache::Acquire. Set by the engine thread.
  mutable std::atomic<int64_t> max_tenant_bytes{0};

  // Returns the record with the details of the last SetDetails, if any.
  ContextRecord CurrentRecord() const;
  void SetDetails(const ContextDetails& details, absl::Time updated) const;

  // Adds to the calls of the context and, for a local context, to those of its registration, which
  // does not expire while calls use a part of it. Engine thread.
  void AddCalls(int64_t count) const {
    calls += count;
    if (part.has_value()) part->whole->calls += count;
  }

  // Returns true if new requests may not use the context.
  bool gone() const { return deleted || model->removed; }
  // Returns true if the cache may drop its keys and values once no request uses them.
  bool purgeable() const { return gone() && !awaits_successor; }
  // Returns true if the registration, or one whose rows are its first rows, is resident or is being
  // made resident, or will be as soon as the engine thread knows of the rows.
  bool IsInUse() const;

 private:
  struct Update {
    ContextDetails details;
    absl::Time updated;
  };
  mutable Mutex mutex_;
  mutable std::optional<Update> update_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_REGISTERED_CONTEXT_H_
