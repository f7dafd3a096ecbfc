#include "server/codec/model_page.h"

#include <algorithm>

#include "base/error_details.h"
#include "server/codec/response_encoder.h"

namespace chorale {

absl::Status FillModelPage(std::vector<ModelInfo> models, int64_t page_size,
                           const std::string& page_token, v1::ListModelsResponse* response) {
  std::sort(models.begin(), models.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  auto next = models.begin();
  if (!page_token.empty()) {
    next = std::find_if(models.begin(), models.end(),
                        [&](const auto& model) { return model.name == page_token; });
    if (next == models.end()) return InvalidField("page_token", "was not issued by this server");
    ++next;
  }
  for (; next != models.end() && response->models_size() < page_size; ++next) {
    EncodeModel(*next, response->add_models());
    if (response->models_size() == page_size && next + 1 != models.end()) {
      response->set_next_page_token(next->name);
    }
  }
  return absl::OkStatus();
}

}  // namespace chorale
