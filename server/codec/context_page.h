// One page of ListContexts, cut to the size of a message.
#ifndef CHORALE_SERVER_CODEC_CONTEXT_PAGE_H_
#define CHORALE_SERVER_CODEC_CONTEXT_PAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/engine.h"

namespace chorale {

struct ContextPageLimits {
  int64_t contexts;
  int64_t bytes;
};

// Fills `response` with the page that `page_token` stands for. The page has fewer than
// `limits.contexts` contexts if they would take more than `limits.bytes`, but always at least one,
// so that a listing makes progress. BLOCKING: reads the store.
absl::Status FillContextPage(Engine* engine, const std::string& tenant, ContextPageLimits limits,
                             const std::string& page_token, v1::ListContextsResponse* response);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_CONTEXT_PAGE_H_
