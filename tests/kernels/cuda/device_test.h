// A fixture for tests on a device, and arrays in device memory.
#ifndef CHORALE_TESTS_KERNELS_CUDA_DEVICE_TEST_H_
#define CHORALE_TESTS_KERNELS_CUDA_DEVICE_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/cuda/runtime/status.h"

namespace chorale::kernels::cuda {

inline void ExpectSuccess(ErrorCode error, const char* what) {
  const absl::Status status = ToStatus(error, what);
  ASSERT_TRUE(status.ok()) << status;
}

// Opens the device and creates a stream. Skips the test if there is no GPU.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (CountDevices(&devices) != 0 || devices == 0) GTEST_SKIP() << "there is no GPU";
    ExpectSuccess(OpenDevice(&properties_), "opening the device");
    ExpectSuccess(CreateStream(&stream_), "making a stream");
    opened_ = true;
  }
  void TearDown() override {
    if (opened_) ExpectSuccess(DestroyStream(stream_), "ending a stream");
  }

  DeviceProperties properties_;
  Stream stream_ = nullptr;

 private:
  bool opened_ = false;
};

// An array on the device. REQUIRES: T is trivially copyable.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  // Of n elements whose bytes are all 0xff: NaN, or -1.
  explicit DeviceArray(size_t n) : DeviceArray(Poison(n)) {}
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    absl::StatusOr<Memory> memory =
        Memory::Allocate(MemoryKind::kDevice, (size_ + 1) * sizeof(T), "a test");
    EXPECT_TRUE(memory.ok()) << memory.status();
    memory_ = *std::move(memory);
    ExpectSuccess(CopyToDevice(data(), values.data(), size_ * sizeof(T), nullptr), "copying");
    ExpectSuccess(Synchronize(nullptr), "copying to the device");
  }

  T* data() const { return memory_.template At<T>(); }
  size_t size() const { return size_; }

  std::vector<T> ToHost(Stream stream) const {
    std::vector<T> values(size_);
    ExpectSuccess(CopyToHost(values.data(), data(), size_ * sizeof(T), stream), "copying");
    ExpectSuccess(Synchronize(stream), "running");
    return values;
  }

 private:
  static std::vector<T> Poison(size_t n) {
    std::vector<T> values(n);
    std::memset(static_cast<void*>(values.data()), 0xff, n * sizeof(T));
    return values;
  }

  Memory memory_;
  size_t size_ = 0;
};

// For comparisons in which a NaN equals itself.
template <typename Bits, typename T>
std::vector<Bits> BitsOf(const std::vector<T>& values) {
  static_assert(sizeof(Bits) == sizeof(T));
  std::vector<Bits> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(T));
  return bits;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_DEVICE_TEST_H_
