// Runs kernels on the CPU, one block after the other, to test their logic without a GPU. The
// kernels' source is compiled as C++; this header replaces what nvcc provides.
//
// A thread of a block is a fiber that runs until it must wait for others: at a barrier or at a warp
// instruction. The emulator exposes reliance on what hardware does not guarantee:
//
// Shared memory holds NaN when a block starts.
//
// Warps run one after the other, each up to a barrier of the block, and the threads of a warp as
// far as they can; first to last or last to first, see SetOrder. A missing barrier gives different
// results in the two orders.
//
// Asynchronous copies arrive when a thread waits for them, not before; bulk copies when a thread
// waits for their phase. A source that changes between the issue of a copy and its arrival ends the
// process.
//
// Work on a stream runs when the host waits for it, in order, not before: a host that reads results
// or changes pinned memory too early gets wrong data.
//
// Arithmetic is float32 in the order of the source; a tensor-core product is summed in float32 from
// the first index to the last. Results are close to a GPU's, not bit-identical.
//
// Thread contract: one kernel at a time in a process.
#ifndef CHORALE_TESTS_KERNELS_CUDA_EMULATOR_EMULATOR_H_
#define CHORALE_TESTS_KERNELS_CUDA_EMULATOR_EMULATOR_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

namespace chorale::kernels::cuda {

struct Index3 {
  int x = 1;
  int y = 1;
  int z = 1;
};

using std::max;
using std::min;

// Indices of the running thread, with CUDA's names.
inline Index3 threadIdx;
inline Index3 blockIdx;
inline Index3 gridDim;

namespace emulator {

enum class Order { kFirstToLast, kLastToFirst };
void SetOrder(Order order);

// Enqueues an action on the stream; runs all enqueued actions.
void Do(std::function<void()> action);
void DoAll();

// Enqueues a launch: `thread` runs once for each thread of each block. Aborts with a message on
// deadlock.
void Run(Index3 grid, int threads, int shared_bytes, const std::function<void()>& thread);

// Enqueues what a library launches: an action that is recorded like a launch.
void Launch(const std::function<void()>& action);

// Between the two calls, launches are recorded, not run.
using Recording = std::vector<std::function<void()>>;
void BeginRecording();
Recording EndRecording();

// Most shared memory of a block, as on compute capability 9.0.
inline constexpr int kSharedBytes = 227 << 10;
char* DynamicSmem();
void WaitForBlock();
// Likewise; returns whether any thread of the block passed true.
bool WaitForAny(bool of_thread);
// bar.sync: waits until `threads` threads have arrived; all pass the same number.
void NamedBarrierSync(int barrier, int threads);

// Called by all lanes of a warp, each with a value of `bytes` bytes. Returns the values of all 32
// lanes, kExchangeBytes apart, valid until the lane's next exchange.
inline constexpr int kExchangeBytes = 32;
const char* Exchange(const void* value, int bytes);
int Lane();

// Aborts where hardware would report a misaligned address.
void RequireAligned(const void* pointer, size_t alignment);

// An mbarrier in 8 bytes of shared memory (ptx/mbarrier.cuh).
void MbarrierInit(void* barrier, int members);
void MbarrierArrive(void* barrier);
void CpAsyncBulk(void* to, const void* from, int bytes, void* barrier);
void MbarrierExpectTx(void* barrier, int bytes);
// Waits until the phase of that parity is complete.
void MbarrierWait(void* barrier, uint32_t parity);

void CpAsync(void* to, const void* from, int bytes);
void CpAsyncCommit();
void CpAsyncWait(int groups_left);

}  // namespace emulator

inline void __syncthreads() { emulator::WaitForBlock(); }
inline int __syncthreads_or(int predicate) { return emulator::WaitForAny(predicate != 0) ? 1 : 0; }
inline void __syncwarp() { emulator::Exchange(nullptr, 0); }

template <typename T>
T __shfl_sync(uint32_t mask, T value, int source) {
  T result;
  std::memcpy(&result, emulator::Exchange(&value, sizeof(T)) + source * emulator::kExchangeBytes,
              sizeof(T));
  return result;
}

template <typename T>
T __shfl_xor_sync(uint32_t mask, T value, int bits) {
  return __shfl_sync(mask, value, emulator::Lane() ^ bits);
}

inline uint32_t __ballot_sync(uint32_t mask, int predicate) {
  const char* all = emulator::Exchange(&predicate, sizeof(predicate));
  uint32_t lanes = 0;
  for (int lane = 0; lane < 32; ++lane) {
    int of_lane;
    std::memcpy(&of_lane, all + static_cast<ptrdiff_t>(lane) * emulator::kExchangeBytes,
                sizeof(of_lane));
    if (of_lane != 0) lanes |= 1u << lane;
  }
  return lanes;
}

// The lanes that have the same value.
inline uint32_t __match_any_sync(uint32_t mask, int value) {
  const char* all = emulator::Exchange(&value, sizeof(value));
  uint32_t lanes = 0;
  for (int lane = 0; lane < 32; ++lane) {
    int of_lane;
    std::memcpy(&of_lane, all + static_cast<ptrdiff_t>(lane) * emulator::kExchangeBytes,
                sizeof(of_lane));
    if (of_lane == value) lanes |= 1u << lane;
  }
  return lanes;
}

inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }

// Index of the lowest set bit, counted from 1; number of leading zeros; number of set bits.
inline int __ffs(uint32_t bits) { return bits == 0 ? 0 : std::countr_zero(bits) + 1; }
inline int __clz(uint32_t bits) { return std::countl_zero(bits); }
inline int __popc(uint32_t bits) { return std::popcount(bits); }

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_EMULATOR_EMULATOR_H_
