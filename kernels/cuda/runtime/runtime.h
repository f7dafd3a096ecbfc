// The part of the CUDA runtime that this project uses: memory, copies, streams and graphs. A
// program links runtime_cuda.cc for a GPU or runtime_emulated.cc for the emulator; callers are the
// same.
//
// Every function returns an error code for ToStatus (status.h). A kernel's error is returned by a
// later call and by every call after that: the process has lost the device.
//
// Thread contract: as CUDA's. A stream belongs to one thread.
#ifndef CHORALE_KERNELS_CUDA_RUNTIME_RUNTIME_H_
#define CHORALE_KERNELS_CUDA_RUNTIME_RUNTIME_H_

#include <cstdint>
#include <string>

#include "kernels/cuda/runtime/stream.h"

namespace chorale::kernels::cuda {

struct DeviceProperties {
  std::string name;
  int multiprocessors = 0;
  int compute_major = 0;
  int compute_minor = 0;
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  int shared_bytes_per_block = 0;  // maximum
};

// Whether later launches may overlap with the previous kernel on the stream (launch.h). Does not
// change results. Default: on, if the device supports it.
enum class Overlap { kOff, kOn };
void SetOverlap(Overlap overlap);
bool KernelsOverlap();

enum class DeviceKind { kGpu, kEmulator };
DeviceKind LinkedDevice();

// CUDA's description of an error.
const char* ErrorText(ErrorCode error);

// The newest CUDA version that the driver supports, 13000 for 13.0; 0 without a driver.
ErrorCode FindDriver(int* version);
ErrorCode CountDevices(int* count);
// Makes the first device current for the calling thread and loads all kernels.
ErrorCode OpenDevice(DeviceProperties* properties);
// Of the device's memory, used by anybody. Any thread.
ErrorCode FindMemory(int64_t* used_bytes, int64_t* all_bytes);

ErrorCode AllocateDevice(void** memory, int64_t bytes);
ErrorCode FreeDevice(void* memory);
// Pinned host memory: the device copies from and to it asynchronously.
ErrorCode AllocatePinned(void** memory, int64_t bytes);
ErrorCode FreePinned(void* memory);

ErrorCode CreateStream(Stream* stream);
ErrorCode DestroyStream(Stream stream);
// Waits for all work on the stream.
ErrorCode Synchronize(Stream stream);

// Asynchronous, in stream order. Pageable host memory is read before the call returns.
ErrorCode CopyToDevice(void* to, const void* from, int64_t bytes, Stream stream);
ErrorCode CopyToHost(void* to, const void* from, int64_t bytes, Stream stream);
ErrorCode CopyOnDevice(void* to, const void* from, int64_t bytes, Stream stream);
ErrorCode ClearDevice(void* memory, int64_t bytes, Stream stream);

// A recorded sequence of launches with their parameters, to be run repeatedly.
struct Graph;
ErrorCode BeginRecording(Stream stream);
ErrorCode EndRecording(Stream stream, Graph** graph);
ErrorCode RunGraph(Graph* graph, Stream stream);
ErrorCode DestroyGraph(Graph* graph);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_RUNTIME_RUNTIME_H_
