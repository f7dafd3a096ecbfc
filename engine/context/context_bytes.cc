#include "engine/context/context_bytes.h"

#include "absl/strings/str_cat.h"
#include "base/error_details.h"

namespace chorale {

absl::Status ValidateContextBytes(absl::string_view field, const ModelConfig& config, int64_t rows,
                                  const Backend& backend, int64_t context_pool_bytes) {
  const int64_t resident = backend.ContextBytes(config, rows);
  if (resident > context_pool_bytes) {
    return InvalidField(field, absl::StrCat("needs ", resident, " bytes of context memory; ",
                                            context_pool_bytes, " are available"));
  }
  const int64_t encode = backend.EncodeBytes(config, rows);
  if (encode > backend.encode_pool_bytes()) {
    return InvalidField(field, absl::StrCat("needs ", encode, " bytes of workspace to be encoded; ",
                                            backend.encode_pool_bytes(), " are available"));
  }
  return absl::OkStatus();
}

}  // namespace chorale
