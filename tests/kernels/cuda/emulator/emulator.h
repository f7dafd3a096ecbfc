// Runs kernels on the CPU, one block after the other, so that their logic is tested where there is
// no GPU. Their very source is compiled as C++; this header stands in for what nvcc provides.
//
// A thread of a block is a fiber, which runs until it has to wait for others: at a barrier, or at
// an instruction of a whole warp. What real hardware does not promise is made to show:
//
// Shared memory holds NaN when a block begins.
//
// Warps run one after the other, each up to a barrier of the block, and the threads of a warp as
// far as they can; first to last or last to first: see SetOrder. A missing barrier gives different
// results in the two orders.
//
// What is copied asynchronously arrives when it is waited for, and not before; in bulk, when
// somebody waits for the phase that it belongs to.
//
// What is asked of a stream is done when somebody waits for it, in its order, and not before: a
// host that reads too early, or changes pinned memory too early, gets something else.
//
// Arithmetic is float32 in the order of the source; a tensor-core product is summed in float32 from
// the first index to the last. So results are near a GPU's, not equal to its bits.
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

// Of the running thread, under the names that they have in CUDA.
inline Index3 threadIdx;
inline Index3 blockIdx;
inline Index3 gridDim;

namespace emulator {

enum class Order { kFirstToLast, kLastToFirst };
void SetOrder(Order order);

// What a stream is asked for, and that it is waited for.
void Do(std::function<void()> action);
void DoAll();

// Asks for `thread` to be run once for each thread of each block. Aborts with a message when
// threads wait for each other for ever.
void Run(Index3 grid, int threads, int shared_bytes, const std::function<void()>& thread);

// Between the two, launches are recorded instead of run.
using Recording = std::vector<std::function<void()>>;
void BeginRecording();
Recording EndRecording();

// What a block can have, as on compute capability 9.0.
inline constexpr int kSharedBytes = 227 << 10;
char* DynamicSmem();
void WaitForBlock();
// The first `threads` threads to come, by a barrier of that number: all of them say as many.
void NamedBarrierSync(int barrier, int threads);

// A warp's lanes all come here with a value of that many bytes; returns those of all 32, lane by
// lane, kExchangeBytes apart. They stay valid until the lane's next exchange.
inline constexpr int kExchangeBytes = 32;
const char* Exchange(const void* value, int bytes);
int Lane();

// Aborts where hardware would report a misaligned address.
void RequireAligned(const void* pointer, size_t alignment);

// Mbarrier that are counted in phases, in 8 bytes of shared memory (device.cuh).
void MbarrierInit(void* arrivals, int members);
void MbarrierArrive(void* arrivals);
void CpAsyncBulk(void* to, const void* from, int bytes, void* arrivals);
void MbarrierExpectTx(void* arrivals, int bytes);
// Until the phase of that parity is over.
void MbarrierWait(void* arrivals, uint32_t parity);

void CpAsync(void* to, const void* from, int bytes);
void CpAsyncCommit();
void CpAsyncWait(int groups_left);

}  // namespace emulator

inline void __syncthreads() { emulator::WaitForBlock(); }
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

inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }

// The lowest bit that is set, counted from 1, and the zeros above the highest.
inline int __ffs(uint32_t bits) { return bits == 0 ? 0 : std::countr_zero(bits) + 1; }
inline int __clz(uint32_t bits) { return std::countl_zero(bits); }

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_TESTS_KERNELS_CUDA_EMULATOR_EMULATOR_H_
