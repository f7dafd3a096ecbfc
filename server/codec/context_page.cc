#include "server/codec/context_page.h"

#include "base/status_macros.h"
#include "server/codec/response_encoder.h"

namespace chorale {

absl::Status FillContextPage(Engine* engine, const std::string& tenant, ContextPageLimits limits,
                             const std::string& page_token, v1::ListContextsResponse* response) {
  int64_t page_size = limits.contexts;
  while (true) {
    absl::StatusOr<ContextInfoPage> page = engine->ListContexts(tenant, page_size, page_token);
    RETURN_IF_ERROR(page.status());
    response->Clear();
    for (const ContextInfo& info : page->contexts) EncodeContext(info, response->add_contexts());
    response->set_next_page_token(page->next_page_token);
    const auto bytes = static_cast<int64_t>(response->ByteSizeLong());
    if (bytes <= limits.bytes || response->contexts_size() <= 1) return absl::OkStatus();
    // Only the store can make page tokens, so ask it for a shorter page.
    page_size = response->contexts_size() / 2;
  }
}

}  // namespace chorale
