// Keeps encoded contexts in files, which two threads read and write.
#ifndef CHORALE_ENGINE_CONTEXT_ENCODED_CONTEXTS_H_
#define CHORALE_ENGINE_CONTEXT_ENCODED_CONTEXTS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/work_queue.h"
#include "base/worker_threads.h"
#include "engine/context/context_cache.h"
#include "engine/context/model_registry.h"
#include "engine/context/registered_context.h"
#include "engine/store/context_files.h"
#include "engine/store/context_store.h"

namespace chorale {

// A failure is logged and not returned to a caller: the engine then encodes the context again.
//
// Thread-safe. Reading and writing have separate threads, so that no read waits for a write.
class EncodedContexts {
 public:
  using OnRead = std::function<void(const ContextCache::ContextPointer& context,
                                    absl::StatusOr<std::string> encoder_state)>;
  using OnWritten = std::function<void()>;

  // Where files are read and written.
  struct Queues {
    std::unique_ptr<WorkQueue> reader = std::make_unique<WorkerThreads>();
    std::unique_ptr<WorkQueue> writer = std::make_unique<WorkerThreads>();
  };

  // Opens the folder. Removes the files of contexts that `store` does not have, of other versions
  // of served models, and of another `kv_format`. BLOCKING. `store` and `models` are not used after
  // the call.
  static absl::StatusOr<std::unique_ptr<EncodedContexts>> Open(
      const std::string& folder, int64_t max_bytes, std::string kv_format, ContextStore* store,
      const ModelRegistry& models, Queues queues);
  ~EncodedContexts() { Stop(); }

  // Returns true if there is a file to read. Does not wait for the disk.
  bool Has(const RegisteredContext& context) const;

  // Each call `done` as a job of their queue, unless Stop is called before.
  void Read(ContextCache::FileTask task, OnRead done);
  void Write(ContextCache::FileTask task, OnWritten done);

  // Removes the file of a context that was deleted. BLOCKING.
  // REQUIRES: RegisteredContext::deleted is set, if the context is in memory.
  void Remove(const std::string& tenant, const std::string& name);

  // See ContextFiles::FreeDisk.
  bool FreeDisk(int64_t bytes) { return files_.FreeDisk(bytes); }

  // Returns when no file is being read or written. Abandons the write in progress.
  void Stop();

 private:
  EncodedContexts(const std::string& folder, int64_t max_bytes, std::string kv_format,
                  Queues queues)
      : kv_format_(std::move(kv_format)), files_(folder, max_bytes), queues_(std::move(queues)) {}

  EncodedContextId IdOf(const RegisteredContext& context) const;
  void WriteFile(const ContextCache::FileTask& task);

  const std::string kv_format_;
  ContextFiles files_;
  Queues queues_;  // last: their jobs use all of the above
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_ENCODED_CONTEXTS_H_
