// A page of the contexts that a tenant has, cut to what a message can carry.
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

// Fills the response with the page after the one that gave the token. It holds fewer contexts than
// the limit when they would take more bytes than the limit; a context that does so alone still gets
// a page, so that a listing always comes to its end. BLOCKING.
absl::Status FillContextPage(Engine* engine, const std::string& tenant, ContextPageLimits limits,
                             const std::string& page_token, v1::ListContextsResponse* response);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_CONTEXT_PAGE_H_
