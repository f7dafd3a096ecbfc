// Contexts that are resident before the server is ready.
#ifndef CHORALE_SERVER_WARM_ON_START_H_
#define CHORALE_SERVER_WARM_ON_START_H_

#include <string>
#include <vector>

#include "engine/engine.h"

namespace chorale {

// Each of `names` is "name" (of the default tenant), "tenant/name" or "*". Named contexts are
// pinned: they stay resident until they are deleted or their model is removed. "*" stands for the
// most recently registered contexts, as many as fit beside the named ones; those are not pinned,
// since a pool that is full of pinned contexts could serve no other.
//
// BLOCKING: returns when all are resident or cannot be. What cannot is logged as a warning; the
// engine's longest wait for room bounds how long that takes, besides reading and encoding.
// `max_queued` requests may wait in the engine.
void WarmOnStart(Engine& engine, const std::vector<std::string>& names, int64_t max_queued);

}  // namespace chorale

#endif  // CHORALE_SERVER_WARM_ON_START_H_
