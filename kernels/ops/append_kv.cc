#include "kernels/ops/append_kv.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/ops/field_checks.h"

namespace chorale::kernels {

absl::Status ValidateAppendKv(const AppendKvParams& p) {
  if (absl::Status s =
          RequireNotNull({{"k", p.k}, {"v", p.v}, {"keys", p.keys}, {"values", p.values}});
      !s.ok()) {
    return s;
  }
  RETURN_IF_ERROR(RequirePositive(
      {{"n", p.n}, {"capacity", p.capacity}, {"kv_heads", p.kv_heads}, {"head_dim", p.head_dim}}));
  RETURN_IF_ERROR(RequireNotNegative({{"offset", p.offset}}));
  if (p.n > p.capacity || p.offset > p.capacity - p.n) {
    return absl::InvalidArgumentError(absl::StrCat("offset + n is ", p.offset, " + ", p.n,
                                                   ", must be at most capacity ", p.capacity));
  }
  return RequireAtLeast({"kv_stride", p.kv_stride}, p.kv_heads * p.head_dim);
}

}  // namespace chorale::kernels
