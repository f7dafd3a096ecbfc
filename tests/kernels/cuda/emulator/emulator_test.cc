// The emulator itself: a wrong kernel must not look right on it.
#include "tests/kernels/cuda/emulator/emulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/warp.cuh"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/runtime.h"

namespace chorale::kernels::cuda {
namespace {

struct ReverseParams {
  float* out;
  bool with_barrier;
};

// Every thread writes its number, and reads that of the thread opposite, in the other warp. That a
// warp's threads wait for each other in between must not help.
void ReverseKernel(ReverseParams p) {
  float* shared = reinterpret_cast<float*>(DynamicSmem());
  shared[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncwarp();
  if (p.with_barrier) __syncthreads();
  p.out[blockIdx.x * 64 + threadIdx.x] = shared[63 - threadIdx.x];
}

std::vector<float> Reverse(bool with_barrier, emulator::Order order) {
  std::vector<float> out(128);
  emulator::SetOrder(order);
  Launch(&ReverseKernel, {.blocks_x = 2, .threads = 64, .shared_bytes = 256}, nullptr,
         ReverseParams{out.data(), with_barrier});
  emulator::DoAll();
  emulator::SetOrder(emulator::Order::kFirstToLast);
  return out;
}

TEST(EmulatorTest, BarriersMakeThreadsWait) {
  for (emulator::Order order : {emulator::Order::kFirstToLast, emulator::Order::kLastToFirst}) {
    const std::vector<float> out = Reverse(true, order);
    for (int i = 0; i < 128; ++i) EXPECT_EQ(out[i], 63 - i % 64);
  }
}

TEST(EmulatorTest, AMissingBarrierShows) {
  EXPECT_TRUE(std::isnan(Reverse(false, emulator::Order::kFirstToLast)[0]));
  EXPECT_TRUE(std::isnan(Reverse(false, emulator::Order::kLastToFirst)[63]));
}

struct AnyParams {
  int* out;
  int number;
};

// Asks whether any thread of the block has a number, and then the same of a number that none has.
void AnyKernel(AnyParams p) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int any = __syncthreads_or(static_cast<int>(thread == p.number));
  p.out[thread] = any + 2 * __syncthreads_or(static_cast<int>(thread == -1));
}

TEST(EmulatorTest, ThreadsOfABlockLearnWhetherAnyIsTrue) {
  for (const auto& [number, expected] : {std::pair(40, 1), std::pair(-2, 0)}) {
    std::vector<int> out(64, -1);
    Launch(&AnyKernel, {.threads = 64}, nullptr, AnyParams{out.data(), number});
    emulator::DoAll();
    EXPECT_THAT(out, testing::Each(expected)) << number;
  }
}

void CopyKernel(const float* params_from, float* to, bool wait) {
  char* shared = DynamicSmem();
  CpAsync16(shared + 16 * threadIdx.x, params_from + 4 * threadIdx.x);
  CpAsyncCommit();
  if (wait) CpAsyncWait<0>();
  to[threadIdx.x] = reinterpret_cast<float*>(shared)[4 * threadIdx.x];
}

struct CopyParams {
  const float* from;
  float* to;
  bool wait;
};

TEST(EmulatorTest, CopiesArriveWhenTheyAreWaitedFor) {
  const std::vector<float> from(8, 3.0f);
  for (bool wait : {false, true}) {
    std::vector<float> to(2);
    const auto kernel = +[](CopyParams p) { CopyKernel(p.from, p.to, p.wait); };
    Launch<CopyParams>(kernel, {.threads = 2, .shared_bytes = 32}, nullptr,
                       {from.data(), to.data(), wait});
    emulator::DoAll();
    EXPECT_EQ(std::isnan(to[0]), !wait);
    if (wait) {
      EXPECT_THAT(to, testing::Each(3.0f));
    }
  }
}

// As on a GPU: pinned memory is read in stream order, pageable memory before the call returns.
TEST(EmulatorTest, AStreamIsDoneWhenItIsWaitedFor) {
  const absl::StatusOr<Memory> pinned = Memory::Allocate(MemoryKind::kPinned, 4, "a test");
  const absl::StatusOr<Memory> device = Memory::Allocate(MemoryKind::kDevice, 8, "a test");
  ASSERT_TRUE(pinned.ok() && device.ok());
  int pageable = 1;
  int* const from = pinned->At<int>();
  *from = 1;
  int arrived[2] = {0, 0};
  ASSERT_EQ(CopyToDevice(device->At<int>(), from, 4, nullptr), 0);
  ASSERT_EQ(CopyToDevice(device->At<int>(4), &pageable, 4, nullptr), 0);
  ASSERT_EQ(CopyToHost(arrived, device->At<int>(), 8, nullptr), 0);
  *from = pageable = 2;
  EXPECT_THAT(arrived, testing::ElementsAre(0, 0));
  ASSERT_EQ(Synchronize(nullptr), 0);
  EXPECT_THAT(arrived, testing::ElementsAre(2, 1));
}

struct MmaParams {
  const float* a;  // [16, 16]
  const float* b;  // [16, 8]
  float* c;        // [16, 8]
};

void MmaKernel(MmaParams p) {
  const int g = threadIdx.x / 4;
  const int j = threadIdx.x % 4;
  const auto a = [&](int row, int column) {
    return PackBf16(p.a[row * 16 + column], p.a[row * 16 + column + 1]);
  };
  const auto b = [&](int row) { return PackBf16(p.b[row * 8 + g], p.b[(row + 1) * 8 + g]); };
  float c[4] = {};
  Mma(c, a(g, 2 * j), a(g + 8, 2 * j), a(g, 2 * j + 8), a(g + 8, 2 * j + 8), b(2 * j),
      b(2 * j + 8));
  for (int i = 0; i < 4; ++i) p.c[(g + i / 2 * 8) * 8 + 2 * j + i % 2] = c[i];
}

TEST(EmulatorTest, MmaIsAMatrixProduct) {
  std::vector<float> a, b, c(128, NAN);
  for (int i = 0; i < 256; ++i) a.push_back(static_cast<float>((i * 37) % 19 - 9));
  for (int i = 0; i < 128; ++i) b.push_back(static_cast<float>((i * 53) % 23 - 11));
  Launch(&MmaKernel, {.threads = 32}, nullptr, MmaParams{a.data(), b.data(), c.data()});
  emulator::DoAll();
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[row * 16 + k] * b[k * 8 + column];
      EXPECT_EQ(c[row * 8 + column], sum);
    }
  }
}

TEST(EmulatorTest, ABallotHasABitForEveryLane) {
  std::vector<uint32_t> ballots(64);
  const auto kernel = +[](uint32_t* out) {
    out[threadIdx.x] = __ballot_sync(kAllLanes, threadIdx.x % 3 == 1 && threadIdx.x < 40);
  };
  Launch<uint32_t*>(kernel, {.threads = 64}, nullptr, ballots.data());
  emulator::DoAll();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(ballots[i], i < 32 ? 0x92492492u : 0x24u);
  EXPECT_EQ(__ffs(0x24u), 3);
  EXPECT_EQ(__clz(0x24u), 26);
  EXPECT_EQ(__ffs(0u), 0);
}

TEST(EmulatorTest, AMatchHasABitForEveryLaneOfTheSameValue) {
  std::vector<uint32_t> matches(64);
  const auto kernel = +[](uint32_t* out) {
    out[threadIdx.x] = __match_any_sync(kAllLanes, threadIdx.x % 32 < 3 ? -1 : threadIdx.x / 16);
  };
  Launch<uint32_t*>(kernel, {.threads = 64}, nullptr, matches.data());
  emulator::DoAll();
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(matches[i], i % 32 < 3 ? 7u : (i % 32 < 16 ? 0xfff8u : 0xffff0000u)) << i;
  }
}

TEST(EmulatorDeathTest, WaitingForEverAborts) {
  const auto kernel = +[](int) {
    if (threadIdx.x == 0) __syncthreads();
  };
  EXPECT_DEATH((Launch<int>(kernel, {.threads = 2}, nullptr, 0), emulator::DoAll()),
               "wait forever");
}

struct BulkParams {
  const float* from;
  float* to;
  bool wait;
};

// Warp 2 issues the bulk copies that the others read.
void BulkKernel(BulkParams p) {
  auto* barrier = reinterpret_cast<Mbarrier*>(DynamicSmem());
  float* shared = reinterpret_cast<float*>(DynamicSmem() + 16);
  if (threadIdx.x == 0) MbarrierInit(barrier, 1);
  __syncthreads();
  if (threadIdx.x == 64) {
    MbarrierArriveExpectTx(barrier, 256);
    CpAsyncBulk(shared, p.from, 256, barrier);
  }
  if (threadIdx.x >= 64) return;
  if (p.wait) MbarrierWait(barrier, 0);
  p.to[threadIdx.x] = shared[threadIdx.x];
}

TEST(EmulatorTest, CopiesInBulkArriveWhenTheirPhaseIsWaitedFor) {
  const std::vector<float> from(64, 3.0f);
  for (emulator::Order order : {emulator::Order::kFirstToLast, emulator::Order::kLastToFirst}) {
    for (bool wait : {false, true}) {
      std::vector<float> to(64);
      emulator::SetOrder(order);
      Launch(&BulkKernel, {.threads = 96, .shared_bytes = 272}, nullptr,
             BulkParams{from.data(), to.data(), wait});
      emulator::DoAll();
      emulator::SetOrder(emulator::Order::kFirstToLast);
      for (float value : to) ASSERT_EQ(std::isnan(value), !wait);
    }
  }
}

struct EarlyCopyParams {
  float* from;
  bool bulk;
};

// Writes the source of a copy when it has been issued, and then waits for it.
void EarlyCopyKernel(EarlyCopyParams p) {
  auto* barrier = reinterpret_cast<Mbarrier*>(DynamicSmem());
  float* shared = reinterpret_cast<float*>(DynamicSmem() + 16);
  MbarrierInit(barrier, 1);
  if (p.bulk) {
    MbarrierArriveExpectTx(barrier, 16);
    CpAsyncBulk(shared, p.from, 16, barrier);
  } else {
    CpAsync16(shared, p.from);
    CpAsyncCommit();
  }
  p.from[3] = 4.0f;
  CpAsyncWait<0>();
  if (p.bulk) MbarrierWait(barrier, 0);
}

TEST(EmulatorDeathTest, TheSourceOfACopyMustNotChange) {
  for (const bool bulk : {false, true}) {
    std::vector<float> from(4, 3.0f);
    EXPECT_DEATH((Launch(&EarlyCopyKernel, {.threads = 1, .shared_bytes = 32}, nullptr,
                         EarlyCopyParams{from.data(), bulk}),
                  emulator::DoAll()),
                 "a source changed under a copy");
  }
}

struct TurnsParams {
  float* out;
};

// Two warps of three meet at a barrier of their own; the third waits for one thread of them.
void TurnsKernel(TurnsParams p) {
  auto* turn = reinterpret_cast<Mbarrier*>(DynamicSmem());
  float* shared = reinterpret_cast<float*>(DynamicSmem() + 16);
  if (threadIdx.x == 0) MbarrierInit(turn, 1);
  __syncthreads();
  const int i = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    shared[i] = static_cast<float>(i);
    NamedBarrierSync<64>(1);
    if (threadIdx.x == 63) MbarrierArrive(turn);
    p.out[i] = shared[63 - i];
    return;
  }
  MbarrierWait(turn, 0);
  p.out[64 + i] = shared[i];
}

TEST(EmulatorTest, PartsOfABlockWaitForEachOther) {
  for (emulator::Order order : {emulator::Order::kFirstToLast, emulator::Order::kLastToFirst}) {
    std::vector<float> out(96);
    emulator::SetOrder(order);
    Launch(&TurnsKernel, {.threads = 96, .shared_bytes = 272}, nullptr, TurnsParams{out.data()});
    emulator::DoAll();
    emulator::SetOrder(emulator::Order::kFirstToLast);
    for (int i = 0; i < 64; ++i) ASSERT_EQ(out[i], 63 - i);
    for (int i = 0; i < 32; ++i) ASSERT_EQ(out[64 + i], i);
  }
}

}  // namespace
}  // namespace chorale::kernels::cuda
