// One page of ListModels.
#ifndef CHORALE_SERVER_CODEC_MODEL_PAGE_H_
#define CHORALE_SERVER_CODEC_MODEL_PAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "chorale/v1/chorale.pb.h"
#include "engine/api/model_info.h"

namespace chorale {

// Models are sorted by name; a page token is the name of the previous page's last model.
// InvalidArgument if `page_token` is no model's name. REQUIRES: page_size > 0.
absl::Status FillModelPage(std::vector<ModelInfo> models, int64_t page_size,
                           const std::string& page_token, v1::ListModelsResponse* response);

}  // namespace chorale

#endif  // CHORALE_SERVER_CODEC_MODEL_PAGE_H_
