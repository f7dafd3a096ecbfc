#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>
#include <vector>

#include "kernels/cuda/runtime/runtime.h"
#include "tests/kernels/cuda/emulator/emulator.h"

namespace chorale::kernels::cuda {
namespace {

constexpr ErrorCode kSuccess = 0;
constexpr ErrorCode kOutOfMemory = 2;      // cudaErrorMemoryAllocation
constexpr ErrorCode kNoDevice = 100;       // cudaErrorNoDevice
constexpr ErrorCode kLaunchFailure = 719;  // cudaErrorLaunchFailure
constexpr size_t kAlignment = 256;         // cudaMalloc's

ErrorCode Allocate(void** memory, int64_t bytes) {
  const size_t rounded = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  *memory = std::aligned_alloc(kAlignment, rounded);
  if (*memory == nullptr) return kOutOfMemory;
  std::memset(*memory, 0xff, rounded);  // NaN, to expose reads of uninitialised memory
  return kSuccess;
}

// Start and bytes of each block of pinned memory.
std::map<const char*, int64_t>& PinnedMemory() {
  static auto* const pinned = new std::map<const char*, int64_t>;
  return *pinned;
}

bool IsPinned(const void* memory) {
  const auto* const at = static_cast<const char*>(memory);
  const auto next = PinnedMemory().upper_bound(at);
  if (next == PinnedMemory().begin()) return false;
  const auto& [begin, bytes] = *std::prev(next);
  return at < begin + bytes;
}

ErrorCode Release(void* memory) {
  emulator::DoAll();
  std::free(memory);
  return kSuccess;
}

// Whether the file named by this environment variable exists.
bool FileIsThere(const char* variable) {
  const char* path = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): it is never changed
  std::error_code ignored;
  return path != nullptr && std::filesystem::exists(path, ignored);
}

// Enqueues an action on the stream. The device is lost once the file CHORALE_EMULATOR_LOST exists.
ErrorCode Alive() {
  static bool lost = false;
  lost = lost || FileIsThere("CHORALE_EMULATOR_LOST");
  return lost ? kLaunchFailure : kSuccess;
}

constexpr int64_t kMemory = 1LL << 30;

}  // namespace

struct Graph {
  emulator::Recording recording;
};

void SetOverlap(Overlap overlap) {}
bool KernelsOverlap() { return false; }

DeviceKind LinkedDevice() { return DeviceKind::kEmulator; }

const char* ErrorText(ErrorCode error) {
  switch (error) {
    case kSuccess:
      return "no error";
    case kOutOfMemory:
      return "out of memory";
    case kNoDevice:
      return "no device is there";
    default:
      return "the device is lost";
  }
}

ErrorCode FindDriver(int* version) {
  *version = 13'000;
  return kSuccess;
}

// CHORALE_EMULATOR_ABSENT names a file; while it exists, there is no device.
ErrorCode CountDevices(int* count) {
  *count = FileIsThere("CHORALE_EMULATOR_ABSENT") ? 0 : 1;
  return *count == 0 ? kNoDevice : kSuccess;
}

ErrorCode FindMemory(int64_t* used_bytes, int64_t* all_bytes) {
  *used_bytes = 0;
  *all_bytes = kMemory;
  return kSuccess;
}

// CHORALE_EMULATOR_ORDER=last_to_first reverses the order of threads.
ErrorCode OpenDevice(DeviceProperties* properties) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment.
  const char* order = std::getenv("CHORALE_EMULATOR_ORDER");
  emulator::SetOrder(order != nullptr && std::strcmp(order, "last_to_first") == 0
                         ? emulator::Order::kLastToFirst
                         : emulator::Order::kFirstToLast);
  *properties = {.name = "emulator",
                 .multiprocessors = 8,
                 .compute_major = 9,
                 .compute_minor = 0,
                 .memory_bytes = kMemory,
                 .free_bytes = kMemory,
                 .shared_bytes_per_block = emulator::kSharedBytes};
  return kSuccess;
}

ErrorCode AllocateDevice(void** memory, int64_t bytes) { return Allocate(memory, bytes); }
ErrorCode FreeDevice(void* memory) { return Release(memory); }
ErrorCode AllocatePinned(void** memory, int64_t bytes) {
  const ErrorCode error = Allocate(memory, bytes);
  if (error == kSuccess) PinnedMemory()[static_cast<const char*>(*memory)] = bytes;
  return error;
}
ErrorCode FreePinned(void* memory) {
  PinnedMemory().erase(static_cast<const char*>(memory));
  return Release(memory);
}

ErrorCode CreateStream(Stream* stream) {
  *stream = nullptr;
  return kSuccess;
}
ErrorCode DestroyStream(Stream stream) {
  emulator::DoAll();
  return kSuccess;
}
ErrorCode Synchronize(Stream stream) {
  emulator::DoAll();
  return Alive();
}

ErrorCode CopyToDevice(void* to, const void* from, int64_t bytes, Stream stream) {
  if (bytes == 0) return kSuccess;
  if (IsPinned(from)) {
    emulator::Do([=] { std::memcpy(to, from, bytes); });
  } else {
    const auto* const begin = static_cast<const char*>(from);
    emulator::Do([=, copy = std::vector<char>(begin, begin + bytes)] {
      std::memcpy(to, copy.data(), bytes);
    });
  }
  return kSuccess;
}
ErrorCode CopyToHost(void* to, const void* from, int64_t bytes, Stream stream) {
  if (bytes > 0) emulator::Do([=] { std::memcpy(to, from, bytes); });
  return kSuccess;
}
ErrorCode CopyOnDevice(void* to, const void* from, int64_t bytes, Stream stream) {
  if (bytes > 0) emulator::Do([=] { std::memcpy(to, from, bytes); });
  return kSuccess;
}
ErrorCode ClearDevice(void* memory, int64_t bytes, Stream stream) {
  if (bytes > 0) emulator::Do([=] { std::memset(memory, 0, bytes); });
  return kSuccess;
}

ErrorCode BeginRecording(Stream stream) {
  emulator::BeginRecording();
  return kSuccess;
}
ErrorCode EndRecording(Stream stream, Graph** graph) {
  *graph = new Graph{emulator::EndRecording()};
  return kSuccess;
}
ErrorCode RunGraph(Graph* graph, Stream stream) {
  for (const std::function<void()>& launch : graph->recording) launch();
  return Alive();
}
ErrorCode DestroyGraph(Graph* graph) {
  delete graph;
  return kSuccess;
}

}  // namespace chorale::kernels::cuda
