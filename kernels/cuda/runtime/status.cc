#include "kernels/cuda/runtime/status.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/runtime.h"

namespace chorale::kernels::cuda {

absl::Status ToStatus(ErrorCode error, absl::string_view what) {
  constexpr ErrorCode kOutOfMemory = 2;  // cudaErrorMemoryAllocation
  if (error == 0) return absl::OkStatus();
  const std::string text = absl::StrCat(what, ": CUDA error ", error, ", ", ErrorText(error));
  return error == kOutOfMemory ? absl::ResourceExhaustedError(text) : absl::InternalError(text);
}

}  // namespace chorale::kernels::cuda
