// The target errors of a summary: when it has drawn enough paths.
#ifndef CHORALE_ENGINE_SESSION_TARGET_ERRORS_H_
#define CHORALE_ENGINE_SESSION_TARGET_ERRORS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/request.h"

namespace chorale {

// Checks the target errors of the request and of its functionals. The error names the field.
absl::Status ValidateTargetErrors(const SummarizeRequest& request);

// Returns the numbers of paths, ascending, after which the errors are compared with their targets;
// the last one is SummarizeRequest::paths. Without targets, it is the only one.
std::vector<int64_t> Checkpoints(const SummarizeRequest& request);

// Returns true if no error of the result exceeds its target.
bool MeetsTargetErrors(const SummarizeRequest& request, const SummarizeResult& result);

}  // namespace chorale

#endif  // CHORALE_ENGINE_SESSION_TARGET_ERRORS_H_
