// What is used of a GPU besides kernels: memory, copies, streams and graphs. The device's
// implementation is runtime_device.cc, the emulator's runtime_emulated.cc; which one a program has
// is decided when it is linked, so that everything above runs on both.
//
// Every function returns an error code for ToStatus (status.h). An error of a kernel shows at one
// of the calls behind it, and then at every call: the device is lost to this process.
//
// Thread contract: as CUDA's. A stream and what runs on it belong to one thread.
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
  int shared_bytes_per_block = 0;  // most shared memory of a block
};

// Whether a kernel may begin before the one ahead on the stream has ended (launch.h); with kOff,
// for launches from then on, never. Results are the same. On by default, where the device can.
enum class Overlap { kOff, kOn };
void SetOverlap(Overlap overlap);
bool KernelsOverlap();

enum class DeviceKind { kGpu, kEmulator };
DeviceKind LinkedDevice();

// What went wrong, in CUDA's words.
const char* ErrorText(ErrorCode error);

// The newest CUDA that the driver knows, 13000 for 13.0; 0 when there is no driver.
ErrorCode FindDriver(int* version);
ErrorCode CountDevices(int* count);
// The first device becomes the calling thread's, with all kernels ready to be launched.
ErrorCode OpenDevice(DeviceProperties* properties);

ErrorCode AllocateDevice(void** memory, int64_t bytes);
ErrorCode FreeDevice(void* memory);
// Host memory that the device can copy from and to while the host goes on.
ErrorCode AllocatePinned(void** memory, int64_t bytes);
ErrorCode FreePinned(void* memory);

ErrorCode CreateStream(Stream* stream);
ErrorCode DestroyStream(Stream stream);
// Waits until all that was asked of the stream is done.
ErrorCode Synchronize(Stream stream);

// In the order of the stream. Host memory that is not pinned is copied from before the call
// returns.
ErrorCode CopyToDevice(void* to, const void* from, int64_t bytes, Stream stream);
ErrorCode CopyToHost(void* to, const void* from, int64_t bytes, Stream stream);
ErrorCode ClearDevice(void* memory, int64_t bytes, Stream stream);

// A recorded sequence of launches, which runs again and again with the parameters that it was
// recorded with.
struct Graph;
ErrorCode BeginRecording(Stream stream);
ErrorCode EndRecording(Stream stream, Graph** graph);
ErrorCode RunGraph(Graph* graph, Stream stream);
ErrorCode DestroyGraph(Graph* graph);

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_RUNTIME_RUNTIME_H_
