#include "server/app/open_backend.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "engine/backend/cpu/backend.h"
#include "engine/backend/cuda_plugin/load_cuda_backend.h"
#include "server/telemetry/logging.h"

namespace chorale {
namespace {

absl::StatusOr<std::unique_ptr<Backend>> OpenCuda(const EngineSetup& setup) {
  cuda::BackendOptions options;
  options.memory.context_pool_bytes = setup.context_pool_bytes;
  options.memory.buffer_pool_bytes = setup.buffer_pool_bytes;
  options.memory.weights_bytes = setup.weights_pool_bytes;
  options.memory.memory_fraction = setup.gpu_memory_fraction;
  options.memory.host_context_pool_bytes = setup.host_context_pool_bytes;
  options.cublaslt = setup.cublaslt;
  return cuda::LoadBackend(cuda::LibraryPath(), options);
}

// No library, no driver or no usable GPU; as opposed to one that cannot be opened.
bool IsBackendAbsent(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsUnavailable(status);
}

absl::Status NoCuda(const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat("--backend=cuda: ", why.message()));
}

absl::StatusOr<std::unique_ptr<Backend>> Choose(const EngineSetup& setup) {
  if (setup.backend == BackendChoice::kCpu) return cpu::NewBackend(CpuOptions(setup));
  absl::StatusOr<std::unique_ptr<Backend>> cuda = OpenCuda(setup);
  if (cuda.ok()) return cuda;
  const std::string reason(cuda.status().message());
  if (setup.backend == BackendChoice::kCuda) return NoCuda(cuda.status());
  if (!IsBackendAbsent(cuda.status())) {
    return absl::Status(cuda.status().code(),
                        absl::StrCat(reason, "; set --backend=cpu to serve without a GPU"));
  }
  LogEvent(spdlog::level::info, "no_gpu", {{"fallback", "cpu"}, {"reason", reason}});
  return cpu::NewBackend(CpuOptions(setup));
}

}  // namespace

cpu::BackendOptions CpuOptions(const EngineSetup& setup) {
  cpu::BackendOptions options;
  options.threads = setup.threads;
  options.context_pool_bytes =
      setup.context_pool_bytes > 0 ? setup.context_pool_bytes : setup.cpu_context_pool_bytes;
  options.buffer_pool_bytes =
      setup.buffer_pool_bytes > 0 ? setup.buffer_pool_bytes : setup.cpu_buffer_pool_bytes;
  return options;
}

absl::Status CheckBackendIsThere(const EngineSetup& setup) {
  if (setup.backend != BackendChoice::kCuda) return absl::OkStatus();
  const absl::Status library = cuda::CheckLibrary(cuda::LibraryPath());
  return library.ok() ? library : NoCuda(library);
}

absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(const EngineSetup& setup) {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, Choose(setup));
  LogEvent(spdlog::level::info, "backend_opened",
           {{"backend", backend->description()},
            {"context_pool_mib", backend->context_pool_bytes() >> 20},
            {"buffer_pool_mib", backend->buffer_pool_bytes() >> 20},
            {"host_context_pool_mib", backend->host_context_pool_bytes() >> 20}});
  return backend;
}

}  // namespace chorale
