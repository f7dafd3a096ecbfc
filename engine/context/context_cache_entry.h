// The entry of a context in the cache. Only the files that implement ContextCache include it.
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
  PoolRange host;                                   // empty if not in the host pool
  std::unique_ptr<Work> work;                       // while encoding, saving or restoring
  EncodeWork* encode = nullptr;                     // equals `work` while encoding
  std::shared_ptr<const ResidentContext> resident;  // while resident
  std::shared_ptr<const ResidentContext> saved;     // like `resident`, except its range
  absl::Status status;                              // when failed
  absl::Time placed;                                // when its ranges were allocated
  int64_t pins = 0;
  int64_t max_tenant_bytes = 0;  // see Acquire
  bool read_wanted = false;      // in state kReading, and not yet returned by TakeReads
  bool has_file = false;         // has a file that was not yet tried
  bool unwritten = false;        // was encoded, and has no file
  bool stays = false;            // see Pin::StayResident
  bool counted = false;          // included in by_state_
  Pin loading;                   // pins this entry while the file is read
  Pin prefix;                    // pins a resident predecessor until this entry is encoded
  Pin awaited;                   // pins a predecessor until it is resident, while this entry waits
  std::unique_ptr<ContextData> data;  // while this entry waits for a predecessor
  std::list<Entry>::iterator self;
  std::list<Entry*>* lru = nullptr;  // the list that contains it, or null
  std::list<Entry*>::iterator lru_place;

  bool HasKv() const {
    return state != State::kWaiting && state != State::kSaved && state != State::kFailed;
  }
  // Returns the range without the padding of the pool, with the size that the backend requested.
  PoolRange used_kv() const { return {kv.offset, context->resident_bytes}; }
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CONTEXT_CACHE_ENTRY_H_
