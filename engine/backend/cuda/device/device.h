// The GPU: one stream, and all of its memory, which is allocated when the GPU is opened. The engine
// allocates ranges of three pools; the weights and the launch workspace are separate.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DEVICE_DEVICE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DEVICE_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/arena_layout.h"
#include "base/integer_math.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/memory_budget.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/runtime.h"

namespace chorale::cuda {

inline constexpr int64_t kAlignment = 256;  // of pool ranges, and of arrays in them

// Returns the bytes of an array of `count` T in a pool, with padding.
template <typename T>
constexpr int64_t ArrayBytes(int64_t count) {
  return RoundUp(count * static_cast<int64_t>(sizeof(T)), kAlignment);
}

class Device;

// Device memory for intermediate results between the launches of one call. Launches run in order on
// one stream, so all launches may use the same bytes.
struct LaunchWorkspace {
  Device& device;
  char* memory = nullptr;
  int64_t bytes = 0;
};

// Thread contract: engine thread only, like all objects that the backend creates.
class Device {
 public:
  // Opens the GPU. Returns the errors of ShareOutMemory, or Unavailable if there is no driver, no
  // device, or only a device for which the kernels were not compiled.
  static absl::StatusOr<std::unique_ptr<Device>> Open(const MemoryBudget& budget);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const kernels::cuda::DeviceProperties& properties() const { return properties_; }
  kernels::cuda::Stream stream() const { return stream_; }

  int64_t context_pool_bytes() const { return contexts_.bytes(); }
  int64_t buffer_pool_bytes() const { return buffers_.bytes(); }
  int64_t encode_pool_bytes() const { return encodes_.bytes(); }
  char* ContextAt(const PoolRange& range) const { return contexts_.At<char>(range.offset); }
  char* BufferAt(const PoolRange& range) const { return buffers_.At<char>(range.offset); }
  char* EncodeAt(const PoolRange& range) const { return encodes_.At<char>(range.offset); }
  int64_t host_context_pool_bytes() const { return host_contexts_.bytes(); }
  char* HostContextAt(const PoolRange& range) const {
    return host_contexts_.At<char>(range.offset);
  }
  // Copies between a range of the context pool and a range of the host pool.
  void CopyContext(const PoolRange& kv, const PoolRange& host, CopyDirection direction);
  // Copies bytes of device memory in stream order.
  void Copy(void* to, const void* from, int64_t bytes);

  // See Backend::DeviceMemory. Any thread.
  std::vector<DeviceMemoryPart> MemoryParts() const;

  // Clear a range in stream order, before all work that is enqueued later.
  void ClearContext(const PoolRange& range) { Clear(ContextAt(range), range.bytes); }
  void ClearBuffer(const PoolRange& range) { Clear(BufferAt(range), range.bytes); }
  void ClearEncode(const PoolRange& range) { Clear(EncodeAt(range), range.bytes); }

  // Allocates weight memory. Returns ResourceExhausted with the sizes if it does not fit.
  absl::StatusOr<char*> TakeWeights(int64_t bytes);
  // Frees the result of TakeWeights. No work that uses it may be enqueued afterwards.
  void ReturnWeights(const char* memory);

  LaunchWorkspace launch_workspace() { return {*this, workspace_.At<char>(), workspace_.bytes()}; }

  // Keep the first error, after which no result is valid. Return true if there has been no error so
  // far.
  bool Check(kernels::cuda::ErrorCode error, absl::string_view what);
  bool Check(absl::Status status);
  // Launches a kernel on the stream, and keeps the error.
  template <typename Params>
  void Launch(kernels::cuda::ErrorCode (*launch)(const Params&, kernels::cuda::Stream),
              const std::type_identity_t<Params>& params, absl::string_view what) {
    Check(launch(params, stream_), what);
  }
  const absl::Status& status() const { return status_; }

  // Copy in stream order through pinned staging memory, so that the host need not wait. The caller
  // may change `from` once Upload returns. `to` is filled once Wait() has returned, and must live
  // until then.
  void Upload(void* to, const void* from, int64_t bytes);
  void Download(void* to, const void* from, int64_t bytes);
  // Returns when all enqueued work is done.
  void Wait();
  // Runs an operation of a few microseconds on the GPU, and waits for it. The loss of an idle GPU
  // is not detected otherwise.
  void Probe();

 private:
  // Downloaded bytes in staging memory, which Wait() copies to their destination.
  struct Arrival {
    void* to = nullptr;
    const void* staged = nullptr;
    int64_t bytes = 0;
  };

  Device() = default;
  absl::Status TakeMemory(const MemoryBudget& budget);
  void Clear(void* memory, int64_t bytes);
  // Returns staging memory for at most `wanted` bytes and at least one. Waits if all staging memory
  // is in use.
  char* Stage(int64_t wanted, int64_t* bytes);

  kernels::cuda::DeviceProperties properties_;
  kernels::cuda::Stream stream_ = nullptr;
  absl::Status status_;
  kernels::cuda::Memory contexts_;
  kernels::cuda::Memory buffers_;
  kernels::cuda::Memory encodes_;
  kernels::cuda::Memory weights_;
  std::map<int64_t, int64_t> weights_taken_;  // lengths by offset, multiples of kAlignment
  kernels::cuda::Memory workspace_;
  kernels::cuda::Memory host_contexts_;     // pinned
  kernels::cuda::Memory staging_;           // pinned
  ArenaLayout staging_layout_{kAlignment};  // allocated since the last Wait
  std::vector<Arrival> arrivals_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DEVICE_DEVICE_H_
