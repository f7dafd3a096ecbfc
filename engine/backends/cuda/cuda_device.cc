#include "engine/backends/cuda/cuda_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/status.h"

namespace chorale {
namespace {

using kernels::cuda::ErrorCode;
using kernels::cuda::Memory;
using kernels::cuda::MemoryKind;
using kernels::cuda::ToStatus;

absl::Status CheckBudget(const CudaMemoryBudget& budget, int64_t free_bytes) {
  if (budget.context_pool_bytes < 1 || budget.buffer_pool_bytes < 1 || budget.workspace_bytes < 1) {
    return absl::InvalidArgumentError("every part of the GPU's memory budget must be positive");
  }
  const int64_t needed =
      budget.context_pool_bytes + budget.buffer_pool_bytes + budget.workspace_bytes;
  if (needed <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the GPU has ", free_bytes, " bytes free, but ", budget.context_pool_bytes,
                   " for contexts, ", budget.buffer_pool_bytes, " for buffers and ",
                   budget.workspace_bytes, " of workspace are ", needed));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(const CudaMemoryBudget& budget) {
  int devices = 0;
  const ErrorCode counted = kernels::cuda::CountDevices(&devices);
  if (counted != 0 || devices == 0) {
    return absl::UnavailableError(
        absl::StrCat("there is no GPU", counted == 0 ? "" : ": ",
                     counted == 0 ? "" : kernels::cuda::ErrorText(counted)));
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice);
  absl::Status status =
      ToStatus(kernels::cuda::OpenDevice(&device->properties_), "opening the GPU");
  if (status.ok()) status = CheckBudget(budget, device->properties_.free_bytes);
  if (status.ok()) {
    status = ToStatus(kernels::cuda::CreateStream(&device->stream_), "making a stream");
  }
  if (!status.ok()) return status;
  const auto allocate = [&](int64_t bytes, absl::string_view what) {
    absl::StatusOr<Memory> memory = Memory::Allocate(MemoryKind::kDevice, bytes, what);
    if (!memory.ok()) {
      status.Update(memory.status());
      return Memory();
    }
    return *std::move(memory);
  };
  device->contexts_ = allocate(budget.context_pool_bytes, "contexts");
  device->buffers_ = allocate(budget.buffer_pool_bytes, "buffers");
  device->launch_memory_ = allocate(budget.workspace_bytes / 2, "launches");
  device->scratch_ =
      std::make_unique<ScratchArena>(allocate(budget.workspace_bytes / 2, "rows between launches"));
  if (!status.ok()) return status;
  // A context's last block of keys is filled up with what must be numbers.
  device->Clear(device->contexts_.At<void>(), device->contexts_.bytes());
  device->Clear(device->buffers_.At<void>(), device->buffers_.bytes());
  device->Wait();
  if (!device->status_.ok()) return device->status_;
  return device;
}

CudaDevice::~CudaDevice() {
  Wait();
  Check(kernels::cuda::DestroyStream(stream_), "ending the stream");
}

bool CudaDevice::Check(ErrorCode error, absl::string_view what) {
  return error == 0 ? status_.ok() : Check(ToStatus(error, what));
}

bool CudaDevice::Check(absl::Status status) {
  status_.Update(std::move(status));
  return status_.ok();
}

void CudaDevice::Upload(void* to, const void* from, int64_t bytes) {
  if (!status_.ok() || bytes == 0) return;
  Check(kernels::cuda::CopyToDevice(to, from, bytes, stream_), "copying to the GPU");
}

void CudaDevice::Download(void* to, const void* from, int64_t bytes) {
  if (!status_.ok() || bytes == 0) return;
  Check(kernels::cuda::CopyToHost(to, from, bytes, stream_), "copying from the GPU");
}

void CudaDevice::Wait() { Check(kernels::cuda::Synchronize(stream_), "running on the GPU"); }

void CudaDevice::Clear(void* memory, int64_t bytes) {
  if (!status_.ok()) return;
  Check(kernels::cuda::ClearDevice(memory, bytes, stream_), "clearing memory of the GPU");
}

}  // namespace chorale
