#include "engine/context/context_bytes.h"

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "engine/backend/memory_plan.h"

namespace chorale {

absl::Status ValidateContextBytes(absl::string_view field, const ModelConfig& config,
                                  const ContextShape& shape, const Backend& backend,
                                  int64_t context_pool_bytes) {
  const int64_t resident = backend.ContextBytes(config, shape);
  if (resident > context_pool_bytes) {
    return LimitExceeded(field,
                         absl::StrCat("needs ", resident, " bytes of the context pool, which has ",
                                      context_pool_bytes));
  }
  const int64_t encode = backend.EncodeBytes(config, shape);
  if (encode > backend.encode_pool_bytes()) {
    return LimitExceeded(field,
                         absl::StrCat("needs ", encode, " bytes of the encode pool, which has ",
                                      backend.encode_pool_bytes()));
  }
  return absl::OkStatus();
}

absl::Status CheckMemorySet(absl::string_view field, absl::string_view text,
                            const ContextShape& shape, const Backend& backend) {
  if (!shape.reduced() || backend.memory_sets()) return absl::OkStatus();
  return FieldError(ErrorReason::kMemorySetUnsupported, field, text);
}

absl::Status CheckAppends(absl::string_view field, int64_t appended_rows, const Backend& backend) {
  if (appended_rows == 0 || backend.appends()) return absl::OkStatus();
  return FieldError(ErrorReason::kAppendUnsupported, field,
                    absl::StrCat("has ", appended_rows,
                                 " appended rows, which the server's device does not support; warm "
                                 "the context with encode_anew first"));
}

int64_t EncodingTokenBytes(const ModelConfig& config, const ContextShape& shape) {
  const int64_t token_bytes = config.d_model * static_cast<int64_t>(sizeof(float));
  if (!shape.reduced()) return 2 * shape.rows * token_bytes;
  const MemoryPlan plan(config, shape);
  return (plan.max_segment_rows() + 4 * plan.measuring_rows() + 2 * plan.max_keys()) * token_bytes;
}

}  // namespace chorale
