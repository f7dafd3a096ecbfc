// The GPU as the backend holds it: one stream, the two pools that the engine shares out, and memory
// for everything else.
#ifndef CHORALE_ENGINE_BACKENDS_CUDA_CUDA_DEVICE_H_
#define CHORALE_ENGINE_BACKENDS_CUDA_CUDA_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/backends/backend.h"
#include "engine/backends/cuda/scratch_arena.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/runtime.h"

namespace chorale {

struct CudaMemoryBudget {
  int64_t context_pool_bytes = 0;
  int64_t buffer_pool_bytes = 0;
  int64_t workspace_bytes = 0;  // activations of one launch, and rows between launches
};

// Thread contract: the engine thread's, as everything that the backend makes.
class CudaDevice {
 public:
  // ResourceExhausted, with the numbers, when the device has too little free memory; Unavailable
  // when there is no device; InvalidArgument for budgets that are not positive.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(const CudaMemoryBudget& budget);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const kernels::cuda::DeviceProperties& properties() const { return properties_; }
  kernels::cuda::Stream stream() const { return stream_; }

  int64_t context_pool_bytes() const { return contexts_.bytes(); }
  int64_t buffer_pool_bytes() const { return buffers_.bytes(); }
  char* ContextAt(const PoolRange& range) const { return contexts_.At<char>(range.offset); }
  char* BufferAt(const PoolRange& range) const { return buffers_.At<char>(range.offset); }
  void ClearContext(const PoolRange& range) { Clear(ContextAt(range), range.bytes); }
  void ClearBuffer(const PoolRange& range) { Clear(BufferAt(range), range.bytes); }

  // What the kernels of one launch leave for each other. Launches follow each other on one stream,
  // so all may use the same bytes.
  const kernels::cuda::Memory& launch_memory() const { return launch_memory_; }

  // What a piece of work keeps between launches, beside its range of a pool.
  ScratchArena& scratch() { return *scratch_; }

  // The first thing that went wrong, and from then on always: what follows an error of a GPU means
  // nothing. Check keeps the error and says whether it is the first or one came before.
  bool Check(kernels::cuda::ErrorCode error, absl::string_view what);
  bool Check(absl::Status status);
  const absl::Status& status() const { return status_; }

  // Host memory need not be pinned: it may be changed once these return.
  void Upload(void* to, const void* from, int64_t bytes);
  // REQUIRES, to be read: Wait() was called after it.
  void Download(void* to, const void* from, int64_t bytes);
  void Wait();

 private:
  CudaDevice() = default;
  void Clear(void* memory, int64_t bytes);

  kernels::cuda::DeviceProperties properties_;
  kernels::cuda::Stream stream_ = nullptr;
  absl::Status status_;
  kernels::cuda::Memory contexts_;
  kernels::cuda::Memory buffers_;
  kernels::cuda::Memory launch_memory_;
  std::unique_ptr<ScratchArena> scratch_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKENDS_CUDA_CUDA_DEVICE_H_
