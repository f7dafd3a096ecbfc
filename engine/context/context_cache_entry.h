// The entry of a context in the cache, for the files that implement ContextCache.
#ifndef CHORALE_ENGINE_CONTEXT_CONTEXT_CACHE_ENTRY_H_
#define CHORALE_ENGINE_CONTEXT_CONTEXT_CACHE_ENTRY_H_

#include <cstdint>
#include <list>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/backend/backend.h"
#include "engine/context/context_cache.h"

namespace chorale {

struct ContextCache::Entry {
  ContextPointer context;
  State state = State::kWaiting;
  PoolRange kv;
  PoolRange workspace;
  PoolRange host;                                   // empty where it has none
  std::unique_ptr<Work> work;                       // while encoding, saving or restoring
  EncodeWork* encode = nullptr;                     // the same, while encoding
  std::shared_ptr<const ResidentContext> resident;  // while resident
  std::shared_ptr<const ResidentContext> saved;     // as `resident`, but for its range
  absl::Status status;                              // when failed
  absl::Time placed;                                // when it got its ranges
  int64_t pins = 0;
  int64_t max_tenant_bytes = 0;  // see Acquire
  bool read_wanted = false;      // reading, and not yet returned by TakeReads
  bool has_file = false;         // that was not tried yet
  bool unwritten = false;        // was encoded, and has no file
  bool stays = false;            // resident, see Pin::StayResident
  bool counted = false;          // in by_state_
  Pin loading;                   // of itself, while the file is read
  std::list<Entry>::iterator self;
  std::list<Entry*>* lru = nullptr;  // the list that it is in, or null
  std::list<Entry*>::iterator lru_place;

  bool HasKv() const {
    return state != State::kWaiting && state != State::kSaved && state != State::kFailed;
  }
  // The size that the backend asked for: the pool rounds up to its alignment.
  PoolRange used_kv() const { return {kv.offset, context->resident_bytes}; }
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_CACHE_ENTRY_H_
