#include <cuda_runtime_api.h>

#include <atomic>

#include "kernels/cuda/runtime/kernel_registry.h"
#include "kernels/cuda/runtime/runtime.h"

namespace chorale::kernels::cuda {

// A Graph is a cudaGraphExec_t.
static cudaGraphExec_t AsExec(Graph* graph) { return reinterpret_cast<cudaGraphExec_t>(graph); }

static std::atomic<Overlap> overlap_wanted(Overlap::kOn);
static std::atomic<bool> device_overlaps(false);  // from compute capability 9.0 on

void SetOverlap(Overlap overlap) { overlap_wanted = overlap; }
bool KernelsOverlap() { return device_overlaps && overlap_wanted == Overlap::kOn; }

DeviceKind LinkedDevice() { return DeviceKind::kGpu; }

const char* ErrorText(ErrorCode error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

ErrorCode FindDriver(int* version) { return cudaDriverGetVersion(version); }

ErrorCode CountDevices(int* count) { return cudaGetDeviceCount(count); }

ErrorCode FindMemory(int64_t* used_bytes, int64_t* all_bytes) {
  size_t free = 0;
  size_t all = 0;
  if (const cudaError_t error = cudaMemGetInfo(&free, &all); error != cudaSuccess) return error;
  *used_bytes = static_cast<int64_t>(all - free);
  *all_bytes = static_cast<int64_t>(all);
  return 0;
}

ErrorCode OpenDevice(DeviceProperties* properties) {
  if (const cudaError_t error = cudaSetDevice(0); error != cudaSuccess) return error;
  cudaDeviceProp found = {};
  if (const cudaError_t error = cudaGetDeviceProperties(&found, 0); error != cudaSuccess) {
    return error;
  }
  int64_t used_bytes = 0;
  int64_t all_bytes = 0;
  if (const ErrorCode error = FindMemory(&used_bytes, &all_bytes); error != 0) return error;
  *properties = {.name = found.name,
                 .multiprocessors = found.multiProcessorCount,
                 .compute_major = found.major,
                 .compute_minor = found.minor,
                 .memory_bytes = all_bytes,
                 .free_bytes = all_bytes - used_bytes,
                 .shared_bytes_per_block = static_cast<int>(found.sharedMemPerBlockOptin)};
  device_overlaps = found.major >= 9;
  return LoadKernels(properties->shared_bytes_per_block);
}

ErrorCode AllocateDevice(void** memory, int64_t bytes) { return cudaMalloc(memory, bytes); }
ErrorCode FreeDevice(void* memory) { return cudaFree(memory); }
ErrorCode AllocatePinned(void** memory, int64_t bytes) { return cudaMallocHost(memory, bytes); }
ErrorCode FreePinned(void* memory) { return cudaFreeHost(memory); }

ErrorCode CreateStream(Stream* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
}
ErrorCode DestroyStream(Stream stream) { return cudaStreamDestroy(stream); }
ErrorCode Synchronize(Stream stream) { return cudaStreamSynchronize(stream); }

ErrorCode CopyToDevice(void* to, const void* from, int64_t bytes, Stream stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream);
}
ErrorCode CopyToHost(void* to, const void* from, int64_t bytes, Stream stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream);
}
ErrorCode CopyOnDevice(void* to, const void* from, int64_t bytes, Stream stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
ErrorCode ClearDevice(void* memory, int64_t bytes, Stream stream) {
  return cudaMemsetAsync(memory, 0, bytes, stream);
}

ErrorCode BeginRecording(Stream stream) {
  return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
}

ErrorCode EndRecording(Stream stream, Graph** graph) {
  cudaGraph_t recorded = nullptr;
  if (const cudaError_t error = cudaStreamEndCapture(stream, &recorded); error != cudaSuccess) {
    return error;
  }
  cudaGraphExec_t exec = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&exec, recorded, 0);
  const cudaError_t destroyed = cudaGraphDestroy(recorded);
  if (error != cudaSuccess) return error;
  *graph = reinterpret_cast<Graph*>(exec);
  if (destroyed != cudaSuccess) return destroyed;
  // Uploads now, so that the first run need not.
  return cudaGraphUpload(exec, stream);
}

ErrorCode RunGraph(Graph* graph, Stream stream) { return cudaGraphLaunch(AsExec(graph), stream); }
ErrorCode DestroyGraph(Graph* graph) { return cudaGraphExecDestroy(AsExec(graph)); }

}  // namespace chorale::kernels::cuda
