// Compares the digest that a request expects with that of the content that it would use.
#ifndef CHORALE_ENGINE_CONTEXT_CHECK_DIGEST_H_
#define CHORALE_ENGINE_CONTEXT_CHECK_DIGEST_H_

#include <string>

#include "absl/status/status.h"
#include "engine/store/context_store.h"

namespace chorale {

// Return FailedPrecondition with the reason SOURCE_CHANGED if the digest of the context, or of its
// model, is not the expected digest. An empty expected digest matches.
absl::Status CheckContextDigest(const std::string& expected, const ContextRecord& record);
absl::Status CheckModelDigest(const std::string& expected, const ContextRecord& record,
                              const std::string& model_digest);

}  // namespace chorale

#endif  // CHORALE_ENGINE_CONTEXT_CHECK_DIGEST_H_
