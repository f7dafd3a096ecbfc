// Converts CUDA's errors to absl::Status.
#ifndef CHORALE_KERNELS_CUDA_RUNTIME_STATUS_H_
#define CHORALE_KERNELS_CUDA_RUNTIME_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

// OK for 0; ResourceExhausted if memory ran out; else Internal. `what` names the failed action, for
// example "copying values to the host".
absl::Status ToStatus(ErrorCode error, absl::string_view what);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_RUNTIME_STATUS_H_
