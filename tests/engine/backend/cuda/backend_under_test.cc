#include "tests/engine/backend/backend_under_test.h"

#include <memory>
#include <utility>

#include "base/require.h"
#include "engine/backend/cuda/backend.h"
#include "kernels/cuda/runtime/runtime.h"
#include "tests/engine/backend/golden_bounds.h"
#include "tests/kernels/cuda/gemm/cublaslt_path.h"

namespace chorale::under_test {

Device LinkedDevice() {
  return kernels::cuda::LinkedDevice() == kernels::cuda::DeviceKind::kGpu ? Device::kGpu
                                                                          : Device::kEmulator;
}

bool DeviceExists() {
  int devices = 0;
  return kernels::cuda::CountDevices(&devices) == 0 && devices > 0;
}

BackendDriver NewDriver(const Resources& resources) {
  cuda::BackendOptions options = {.memory = {.context_pool_bytes = 64 << 20,
                                             .buffer_pool_bytes = 128 << 20,
                                             .encode_pool_bytes = 64 << 20,
                                             .weights_bytes = 64 << 20,
                                             .workspace_bytes = resources.workspace_bytes,
                                             .host_context_pool_bytes = 16 << 20},
                                  .cublaslt = CublasLtPath()};
  if (resources.any_tiles_in_all_layers) options.least_tiles_of_all_layers = 1;
  absl::StatusOr<std::unique_ptr<Backend>> backend = cuda::NewBackend(options);
  Require(backend.ok(), "the GPU backend can be made");
  return BackendDriver(*std::move(backend));
}

// Room for one tile of a decode, without a second split of a context's keys, or for the row
// encoder.
std::vector<Resources> OtherResources(const std::string& row_encoder) {
  return {{.workspace_bytes = (row_encoder == "cell_attention" ? 190 : 75) << 10}};
}

std::vector<std::string> InstructionSets() { return {"GPU"}; }
void UseInstructionSet(const std::string& /*name*/) {}
void UseBestInstructionSet() {}

// Operands are bfloat16, so a sum of products loses about 2^-9 of its size, in every layer. The
// bounds are about twice the worst error that was measured.
Tolerances ToleratedErrors() {
  return {.mixture = 0.02, .log_density = 0.07, .mean_log_density = 0.02};
}

GoldenBounds BoundsOf(const std::string& golden_model) { return CudaGoldenBounds(golden_model); }

double DecodeTolerance() { return 0; }

}  // namespace chorale::under_test
