#include "engine/context/context_bytes.h"

#include "absl/strings/str_cat.h"
#include "base/error_details.h"

namespace chorale {

absl::Status ValidateContextBytes(absl::string_view field, const ModelConfig& config, int64_t rows,
                                  const Backend& backend, int64_t context_pool_bytes) {
  const int64_t resident = backend.ContextBytes(config, rows);
  if (resident > context_pool_bytes) {
    return LimitExceeded(field,
                         absl::StrCat("needs ", resident, " bytes of the context pool, which has ",
                                      context_pool_bytes));
  }
  const int64_t encode = backend.EncodeBytes(config, rows);
  if (encode > backend.encode_pool_bytes()) {
    return LimitExceeded(field,
                         absl::StrCat("needs ", encode, " bytes of the encode pool, which has ",
                                      backend.encode_pool_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace chorale
