// Makes contexts resident before the server is ready.
#ifndef CHORALE_SERVER_MODELS_WARM_ON_START_H_
#define CHORALE_SERVER_MODELS_WARM_ON_START_H_

#include <string>
#include <vector>

#include "engine/api/engine.h"

namespace chorale {

// Each of `names` is "name" (of the default tenant), "tenant/name" or "*". Named contexts are
// pinned: they stay resident until they are deleted or their model is removed. "*" stands for the
// most recently registered contexts, as many as fit in addition to the named ones; they are not
// pinned, because a pool that is full of pinned contexts could serve no other contexts.
//
// BLOCKING: returns when each context is resident or has failed. A failure is logged as a warning;
// the maximum queue wait of the engine bounds the duration, in addition to reading and encoding.
// `max_queued` requests may wait in the engine.
void WarmOnStart(Engine& engine, const std::vector<std::string>& names, int64_t max_queued);

}  // namespace chorale

#endif  // CHORALE_SERVER_MODELS_WARM_ON_START_H_
