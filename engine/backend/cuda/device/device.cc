#include "engine/backend/cuda/device/device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/runtime/status.h"

namespace chorale::cuda {
namespace {

using kernels::cuda::ErrorCode;
using kernels::cuda::Memory;
using kernels::cuda::MemoryKind;
using kernels::cuda::ToStatus;

constexpr int64_t kStagingBytes = 16 << 20;
static_assert(kStagingBytes % kAlignment == 0);
constexpr int kOldestComputeMajor = 8;  // bfloat16 on tensor cores, asynchronous copies

absl::Status FindGpu() {
  int driver = 0;
  if (kernels::cuda::FindDriver(&driver) != 0 || driver == 0) {
    return absl::UnavailableError("there is no GPU driver on this machine");
  }
  int devices = 0;
  const ErrorCode counted = kernels::cuda::CountDevices(&devices);
  if (counted != 0) {
    return absl::UnavailableError(absl::StrCat("no GPU can be used: the driver for CUDA ",
                                               driver / 1000, ".", driver % 1000 / 10,
                                               " reports: ", kernels::cuda::ErrorText(counted)));
  }
  if (devices == 0) return absl::UnavailableError("there is no GPU on this machine");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> Device::Open(const MemoryBudget& asked) {
  RETURN_IF_ERROR(FindGpu());
  std::unique_ptr<Device> device(new Device);
  const kernels::cuda::DeviceProperties& gpu = device->properties_;
  const ErrorCode opened = kernels::cuda::OpenDevice(&device->properties_);
  // This check comes first: OpenDevice fails on such a GPU with the error that kernels cannot be
  // loaded.
  if (gpu.compute_major > 0 && gpu.compute_major < kOldestComputeMajor) {
    return absl::UnavailableError(absl::StrCat("the GPU, ", gpu.name, ", has compute capability ",
                                               gpu.compute_major, ".", gpu.compute_minor, ", but ",
                                               kOldestComputeMajor, ".0 or higher is required"));
  }
  absl::Status status = ToStatus(opened, "opening the GPU");
  RETURN_IF_ERROR(status);
  const absl::StatusOr<MemoryBudget> budget = ShareOutMemory(asked, gpu.free_bytes);
  status = budget.status();
  if (status.ok()) {
    status = ToStatus(kernels::cuda::CreateStream(&device->stream_), "creating a stream");
  }
  RETURN_IF_ERROR(status);
  status = device->TakeMemory(*budget);
  RETURN_IF_ERROR(status);
  // The unused keys of the last key block of a context must be finite.
  device->Clear(device->contexts_.At<void>(), device->contexts_.bytes());
  device->Clear(device->buffers_.At<void>(), device->buffers_.bytes());
  // Kernels also read unused rows, so that they need not wait for the number of used rows. Unused
  // rows must be finite, too.
  device->Clear(device->encodes_.At<void>(), device->encodes_.bytes());
  device->Clear(device->workspace_.At<void>(), device->workspace_.bytes());
  device->Wait();
  if (!device->status_.ok()) return device->status_;
  return device;
}

std::vector<DeviceMemoryPart> Device::MemoryParts() const {
  std::vector<DeviceMemoryPart> parts = {{"context_pool", contexts_.bytes()},
                                         {"buffer_pool", buffers_.bytes()},
                                         {"encode_pool", encodes_.bytes()},
                                         {"weights", weights_.bytes()},
                                         {"workspace", workspace_.bytes()}};
  int64_t other = 0;
  int64_t all = 0;
  if (kernels::cuda::FindMemory(&other, &all) != 0) return parts;
  for (const DeviceMemoryPart& part : parts) other -= part.bytes;
  parts.push_back({"other", std::max<int64_t>(other, 0)});
  return parts;
}

absl::Status Device::TakeMemory(const MemoryBudget& budget) {
  absl::Status status;
  const auto allocate = [&](MemoryKind kind, int64_t bytes, absl::string_view what) {
    absl::StatusOr<Memory> memory = Memory::Allocate(kind, bytes, what);
    if (memory.ok()) return *std::move(memory);
    status.Update(memory.status());
    return Memory();
  };
  contexts_ = allocate(MemoryKind::kDevice, budget.context_pool_bytes, "contexts");
  buffers_ = allocate(MemoryKind::kDevice, budget.buffer_pool_bytes, "buffers");
  encodes_ = allocate(MemoryKind::kDevice, budget.encode_pool_bytes, "encoding");
  weights_ = allocate(MemoryKind::kDevice, budget.weights_bytes, "weights");
  workspace_ = allocate(MemoryKind::kDevice, budget.workspace_bytes, "launches");
  staging_ = allocate(MemoryKind::kPinned, kStagingBytes, "copies");
  if (budget.host_context_pool_bytes > 0) {
    host_contexts_ =
        allocate(MemoryKind::kPinned, budget.host_context_pool_bytes, "evicted contexts");
  }
  return status;
}

// Pending downloads no longer have a destination.
Device::~Device() {
  if (stream_ == nullptr) return;  // Open failed
  arrivals_.clear();
  Wait();
  Check(kernels::cuda::DestroyStream(stream_), "destroying the stream");
}

bool Device::Check(ErrorCode error, absl::string_view what) {
  return error == 0 ? status_.ok() : Check(ToStatus(error, what));
}

bool Device::Check(absl::Status status) {
  status_.Update(std::move(status));
  return status_.ok();
}

absl::StatusOr<char*> Device::TakeWeights(int64_t bytes) {
  const int64_t needed = RoundUp(std::max<int64_t>(bytes, 1), kAlignment);
  int64_t offset = 0;  // start of the first sufficient gap
  int64_t largest = 0;
  for (const auto& [taken, length] : weights_taken_) {
    if (taken - offset >= needed) break;
    largest = std::max(largest, taken - offset);
    offset = taken + length;
  }
  if (offset + needed > weights_.bytes()) {
    largest = std::max(largest, weights_.bytes() - offset);
    return absl::ResourceExhaustedError(absl::StrCat(
        "the model's weights need ", bytes, " bytes, but the weights pool of ", weights_.bytes(),
        " bytes has a largest free range of ", largest, " (--weights_pool_mib)"));
  }
  weights_taken_[offset] = needed;
  return weights_.At<char>(offset);
}

void Device::ReturnWeights(const char* memory) {
  weights_taken_.erase(memory - weights_.At<char>());
}

char* Device::Stage(int64_t wanted, int64_t* bytes) {
  if (staging_layout_.bytes() == staging_.bytes()) Wait();
  *bytes = std::min(wanted, staging_.bytes() - staging_layout_.bytes());
  return staging_layout_.Take<char>(*bytes).At(staging_.At<char>());
}

void Device::Upload(void* to, const void* from, int64_t bytes) {
  for (int64_t done = 0; done < bytes && status_.ok();) {
    int64_t part = 0;
    char* const staged = Stage(bytes - done, &part);
    std::memcpy(staged, static_cast<const char*>(from) + done, part);
    Check(kernels::cuda::CopyToDevice(static_cast<char*>(to) + done, staged, part, stream_),
          "copying to the GPU");
    done += part;
  }
}

void Device::Download(void* to, const void* from, int64_t bytes) {
  for (int64_t done = 0; done < bytes && status_.ok();) {
    int64_t part = 0;
    char* const staged = Stage(bytes - done, &part);
    Check(kernels::cuda::CopyToHost(staged, static_cast<const char*>(from) + done, part, stream_),
          "copying from the GPU");
    arrivals_.push_back({static_cast<char*>(to) + done, staged, part});
    done += part;
  }
}

void Device::Wait() {
  if (Check(kernels::cuda::Synchronize(stream_), "running on the GPU")) {
    for (const Arrival& arrival : arrivals_) {
      std::memcpy(arrival.to, arrival.staged, arrival.bytes);
    }
  }
  arrivals_.clear();
  staging_layout_ = ArenaLayout(kAlignment);
}

void Device::Probe() {
  Clear(workspace_.At<char>(), kAlignment);  // its content is not needed between two calls
  Wait();
}

void Device::CopyContext(const PoolRange& kv, const PoolRange& host, CopyDirection direction) {
  if (!status_.ok()) return;
  void* const on_host = host_contexts_.At<char>(host.offset);
  if (direction == CopyDirection::kToHost) {
    Check(kernels::cuda::CopyToHost(on_host, ContextAt(kv), kv.bytes, stream_), "saving a context");
  } else {
    Check(kernels::cuda::CopyToDevice(ContextAt(kv), on_host, kv.bytes, stream_),
          "restoring a context");
  }
}

void Device::Copy(void* to, const void* from, int64_t bytes) {
  if (!status_.ok()) return;
  Check(kernels::cuda::CopyOnDevice(to, from, bytes, stream_), "copying on the GPU");
}

void Device::Clear(void* memory, int64_t bytes) {
  if (!status_.ok()) return;
  Check(kernels::cuda::ClearDevice(memory, bytes, stream_), "clearing memory of the GPU");
}

}  // namespace chorale::cuda
