// A driver for the GPU backend, and whether there is a device to drive.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_CUDA_CUDA_CASE_H_
#define CHORALE_TESTS_ENGINE_BACKEND_CUDA_CUDA_CASE_H_

#include <memory>
#include <utility>

#include "base/require.h"
#include "engine/backend/cuda/backend.h"
#include "gtest/gtest.h"
#include "kernels/cuda/runtime/runtime.h"
#include "tests/engine/backend/backend_driver.h"

namespace chorale {

// Skips where there is no GPU.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (kernels::cuda::CountDevices(&devices) != 0 || devices == 0) {
      GTEST_SKIP() << "there is no GPU";
    }
  }

  // Small pools, and a workspace for few tiles at a time when `workspace_bytes` says so.
  static BackendDriver Driver(int64_t workspace_bytes = 64 << 20) {
    absl::StatusOr<std::unique_ptr<Backend>> backend =
        cuda::NewBackend({.context_pool_bytes = 64 << 20,
                          .buffer_pool_bytes = 128 << 20,
                          .encode_pool_bytes = 16 << 20,
                          .weights_bytes = 64 << 20,
                          .workspace_bytes = workspace_bytes,
                          .host_context_pool_bytes = 16 << 20});
    Require(backend.ok(), "the GPU backend can be made");
    return BackendDriver(*std::move(backend));
  }
};

}  // namespace chorale

#endif  // CHORALE_TESTS_ENGINE_BACKEND_CUDA_CUDA_CASE_H_
