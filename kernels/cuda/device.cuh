// The instructions that kernels are written in. With nvcc they are the hardware's; without, the
// emulator's.
#ifndef CHORALE_KERNELS_CUDA_DEVICE_CUH_
#define CHORALE_KERNELS_CUDA_DEVICE_CUH_

#include <cmath>
#include <cstdint>
#include <cstring>

#ifndef __CUDACC__
#include "kernels/cuda/emulator.h"
#endif
#include "kernels/cuda/layout.h"

namespace chorale::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

// 4, 8 and 16 bytes of memory, as one access. Pointers must be aligned to that.
struct alignas(8) Words2 {
  uint32_t w[2];
};
struct alignas(16) Words4 {
  uint32_t w[4];
};
struct alignas(8) Floats2 {
  float v[2];
};
struct alignas(16) Floats4 {
  float v[4];
};

template <typename Access>
__device__ __forceinline__ void RequireAligned(const void* pointer) {
#ifndef __CUDACC__
  emulator::RequireAligned(pointer, alignof(Access));
#endif
}

template <typename Access, typename T>
__device__ __forceinline__ Access LoadAs(const T* from) {
  RequireAligned<Access>(from);
  return *reinterpret_cast<const Access*>(from);
}

template <typename Access, typename T>
__device__ __forceinline__ void StoreAs(T* to, const Access& value) {
  RequireAligned<Access>(to);
  *reinterpret_cast<Access*>(to) = value;
}

// What an earlier kernel may have written (launch.h): from the level-two cache, and never ahead of
// WaitForPrevious. Without inputs from memory, "volatile" is what keeps it there.
template <typename Access, typename T>
__device__ __forceinline__ Access LoadFresh(const T* from) {
  RequireAligned<Access>(from);
#ifdef __CUDACC__
  static_assert(sizeof(Access) == 4 || sizeof(Access) % 8 == 0);
  constexpr int kWords = sizeof(Access) / 4;
  uint32_t words[kWords];
  const auto* at = reinterpret_cast<const uint32_t*>(from);
  if constexpr (kWords == 1) {
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(words[0]) : "l"(at));
  } else if constexpr (alignof(Access) == 16) {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[i]), "=r"(words[i + 1]), "=r"(words[i + 2]), "=r"(words[i + 3])
                   : "l"(at + i));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWords; i += 2) {
      asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];"
                   : "=r"(words[i]), "=r"(words[i + 1])
                   : "l"(at + i));
    }
  }
  Access value;
  memcpy(&value, words, sizeof(value));
  return value;
#else
  return *reinterpret_cast<const Access*>(from);
#endif
}

__device__ __forceinline__ float BitsToFloat(uint32_t bits) {
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

// The first and the second of two bfloat16 in one word.
__device__ __forceinline__ float FirstBf16(uint32_t word) { return BitsToFloat(word << 16); }
__device__ __forceinline__ float SecondBf16(uint32_t word) {
  return BitsToFloat(word & 0xffff0000u);
}

// A matrix of bf16 in shared memory as products of a warpgroup take it, 16 columns of it at a time:
// its rows in eights, of which 8 columns are 8 times 16 bytes without a gap; one such piece lies
// `columns_stride` bytes behind that of the 8 columns before, and `rows_stride` behind that of the
// 8 rows before. Strides and addresses are multiples of 16, and small enough for shared memory.
// (PTX: matrix descriptor, K-major, without swizzling.) A descriptor may be added to: sixteenths of
// bytes.
__device__ __forceinline__ uint64_t DescribeMatrix(uint32_t address, int columns_stride,
                                                   int rows_stride) {
  return address >> 4 | static_cast<uint64_t>(columns_stride >> 4) << 16 |
         static_cast<uint64_t>(rows_stride >> 4) << 32;
}

#ifdef __CUDACC__

// A kernel may begin while the one ahead of it on the stream still runs: launch.h says what follows
// from that. A kernel says at its start that the next one may, and waits before it touches what
// another kernel has written, or may still read.
__device__ __forceinline__ void LetNextBegin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void WaitForPrevious() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ char* Shared() {
  extern __shared__ __align__(128) char shared[];
  return shared;
}

// Rounded to the nearest, ties to even.
__device__ __forceinline__ uint32_t PackBf16(float first, float second) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
}

// 2^x to about 2 units in the last place; 0 for -inf, and for results below 2^-126.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / sqrt(x) to about 2 units in the last place, for normal x > 0.
__device__ __forceinline__ float ReciprocalRoot(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1 / x to about 1 unit in the last place, for normal x.
__device__ __forceinline__ float Reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// c += a b, see layout.h. Not volatile: the compiler may move it, as it may any arithmetic.
__device__ __forceinline__ void Mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2,
                                    uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Has the compiler compute a number or an address here, ahead of a wait, rather than behind it
// where it is used.
template <typename T>
__device__ __forceinline__ void ComputeNow(T& value) {
  if constexpr (sizeof(T) == 4) {
    asm volatile("" : "+r"(value));
  } else {
    asm volatile("" : "+l"(value));
  }
}

// Read-only data that no other thread of the block will want.
__device__ __forceinline__ Words4 LoadOnce(const Words4* from) {
  Words4 value;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(value.w[0]), "=r"(value.w[1]), "=r"(value.w[2]), "=r"(value.w[3])
      : "l"(from));
  return value;
}

// 16 bytes from global to shared memory, by and by.
__device__ __forceinline__ void CopyLater16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}
__device__ __forceinline__ void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most that many groups of this thread's copies are still on their way.
template <int kGroupsLeft>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroupsLeft) : "memory");
}

// Waits for kThreads threads of the block, which all come to the same barrier, 1 to 15; what they
// wrote is then there for all of them. As __syncthreads, for a part of a block.
template <int kThreads>
__device__ __forceinline__ void SyncThreads(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

// Registers that every thread of four neighbouring warps gives up, or gets of what others gave up:
// multiples of 8, the kernel's own number for all that is given and taken in between. Only where
// the architecture is known: elsewhere threads stay as they are.
template <int kRegisters>
__device__ __forceinline__ void KeepRegisters() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ __forceinline__ void TakeRegisters() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

// Counts arrivals in shared memory, and bytes that are copied there in bulk (PTX: mbarrier). A
// phase is over when all members have come and all bytes that are expected; the next begins at
// once. The first phase has parity 0. From compute capability 9.0 on.
struct alignas(8) Arrivals {
  uint64_t state;
};

__device__ __forceinline__ uint32_t SharedAddress(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}
// By one thread, before any other touches it: the block has to be synchronised in between.
__device__ __forceinline__ void InitArrivals(Arrivals* arrivals, int members) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(arrivals)),
               "r"(members)
               : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
// What this thread did before is there for those who wait for the phase.
__device__ __forceinline__ void Arrive(Arrivals* arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(arrivals))
               : "memory");
#endif
}
// Arrives once, and has the phase wait for that many bytes more.
__device__ __forceinline__ void ArriveExpecting(Arrivals* arrivals, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(arrivals)),
      "r"(bytes)
      : "memory");
#endif
}
// From global memory, by and by; both sides and `bytes` are multiples of 16. Bytes count as
// arrived in the phase that is current when they come.
__device__ __forceinline__ void CopyInBulk(void* to, const void* from, int bytes,
                                           Arrivals* arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(arrivals))
      : "memory");
#endif
}
// Until the phase of that parity is over; of the phase before the first, whose parity is 1, at
// once.
__device__ __forceinline__ void WaitForPhase(Arrivals* arrivals, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@over bra done;\n"
      "bra again;\n"
      "done:\n"
      "}" ::"r"(SharedAddress(arrivals)),
      "r"(parity)
      : "memory");
#endif
}

// Products of a warpgroup, four warps of which the first has a number that is a multiple of 4 (PTX:
// wgmma): c = a b^T, or c += a b^T if `add`; a [64, 16] and b [rows, 16] are described by
// DescribeMatrix. Of c [64, rows], warp w of the four has rows 16 w to 16 w + 15, and a lane of it
// c[4 n + i] for i of the pairs {row g, row g + 8} x {column 8 n + 2 j, 8 n + 2 j + 1}, columns
// first. Sums have the bits of Mma's when each takes the same 16 columns in the same order.
//
// They are asked for, and done when they are waited for: until then nobody touches c, a or b. Begin
// comes first, and after anything else that touched c; what was written to a or b comes before
// ShareWithCopies and a barrier.
__device__ __forceinline__ void BeginAsWarpgroup() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void CommitAsWarpgroup() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Until at most that many commits are not done yet.
template <int kLeft>
__device__ __forceinline__ void WaitAsWarpgroup() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
#endif
}
__device__ __forceinline__ void MultiplyAsWarpgroup(float (&c)[8], uint64_t a, uint64_t b,
                                                    bool add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, add, 1, 1, 0, 0;\n"
      "}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}
__device__ __forceinline__ void MultiplyAsWarpgroup(float (&c)[16], uint64_t a, uint64_t b,
                                                    bool add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, add, 1, 1, 0, 0;\n"
      "}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}
__device__ __forceinline__ void MultiplyAsWarpgroup(float (&c)[32], uint64_t a, uint64_t b,
                                                    bool add) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1, 0, 0;\n"
      "}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
        "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
        "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
#endif
}
// What this thread has written to shared memory is there for what is not a thread: products of a
// warpgroup, and copies in bulk.
__device__ __forceinline__ void ShareWithCopies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#else

inline void LetNextBegin() {}
inline void WaitForPrevious() {}

inline char* Shared() { return emulator::Shared(); }

inline uint32_t RoundToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (std::isnan(value)) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
inline uint32_t PackBf16(float first, float second) {
  return RoundToBf16(first) | RoundToBf16(second) << 16;
}

inline float Exp2(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;
}

inline float ReciprocalRoot(float x) { return 1.0f / std::sqrt(x); }

inline float Reciprocal(float x) { return 1.0f / x; }

inline void Mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                uint32_t b1) {
  const uint32_t own[6] = {a0, a1, a2, a3, b0, b1};
  const char* all = emulator::Exchange(own, sizeof(own));
  const int lane = emulator::Lane();
  // Element k of row (lane / 4 + 8 half) of A, or of column n of B, lies with the lane that holds
  // it: see layout.h.
  const auto element = [&](int owner, int word, int k) {
    uint32_t bits;
    std::memcpy(&bits, all + owner * emulator::kExchangeBytes + word * sizeof(uint32_t),
                sizeof(bits));
    return k % 2 == 0 ? FirstBf16(bits) : SecondBf16(bits);
  };
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4;
    const int half = i / 2;
    const int column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const int j = k % 8 / 2;
      const float a = element(row * 4 + j, half + 2 * (k / 8), k);
      const float b = element(column * 4 + j, 4 + k / 8, k);
      c[i] += a * b;
    }
  }
}

template <typename T>
void ComputeNow(T&) {}

inline Words4 LoadOnce(const Words4* from) { return LoadAs<Words4>(from); }
inline void CopyLater16(void* to, const void* from) {
  RequireAligned<Words4>(to);
  RequireAligned<Words4>(from);
  emulator::CopyLater(to, from, 16);
}
inline void CommitCopies() { emulator::CommitCopies(); }
template <int kGroupsLeft>
void WaitForCopies() {
  emulator::WaitForCopies(kGroupsLeft);
}

template <int kThreads>
void SyncThreads(int barrier) {
  emulator::WaitForThreads(barrier, kThreads);
}

template <int kRegisters>
void KeepRegisters() {}
template <int kRegisters>
void TakeRegisters() {}

struct alignas(8) Arrivals {
  uint64_t state;
};
inline void InitArrivals(Arrivals* arrivals, int members) {
  emulator::InitArrivals(arrivals, members);
}
inline void Arrive(Arrivals* arrivals) { emulator::Arrive(arrivals); }
inline void ArriveExpecting(Arrivals* arrivals, int bytes) {
  emulator::ExpectBytes(arrivals, bytes);
  emulator::Arrive(arrivals);
}
inline void CopyInBulk(void* to, const void* from, int bytes, Arrivals* arrivals) {
  RequireAligned<Words4>(to);
  RequireAligned<Words4>(from);
  emulator::CopyInBulk(to, from, bytes, arrivals);
}
inline void WaitForPhase(Arrivals* arrivals, uint32_t parity) {
  emulator::WaitForPhase(arrivals, parity);
}
inline uint32_t SharedAddress(const void* at) {
  return static_cast<uint32_t>(static_cast<const char*>(at) - emulator::Shared());
}
inline void BeginAsWarpgroup() {}
inline void CommitAsWarpgroup() {}
template <int kLeft>
void WaitAsWarpgroup() {}
inline void ShareWithCopies() {}
// Element `column` of a row of what DescribeMatrix describes.
inline float DescribedElement(uint64_t matrix, int row, int column) {
  const auto field = [matrix](int first_bit) {
    return static_cast<int>(matrix >> first_bit & 0x3fffu) * 16;
  };
  const char* at = emulator::Shared() + field(0) + column / 8 * field(16) + row / 8 * field(32) +
                   row % 8 * 16 + column % 8 * 2;
  return FirstBf16(*reinterpret_cast<const uint16_t*>(at));
}
template <int kSums>
void MultiplyAsWarpgroup(float (&c)[kSums], uint64_t a, uint64_t b, bool add) {
  const int lane = emulator::Lane();
  const int first_row = static_cast<int>(threadIdx.x) / kWarp % 4 * 16 + lane / 4;
  for (int i = 0; i < kSums; ++i) {
    const int row = first_row + i % 4 / 2 * 8;
    const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (!add) c[i] = 0;
    for (int k = 0; k < 16; ++k) {
      c[i] += DescribedElement(a, row, k) * DescribedElement(b, column, k);
    }
  }
}

#endif

// The thread's number in its block.
__device__ __forceinline__ int ThreadIndex() { return static_cast<int>(threadIdx.x); }

// The number of the thread's warpgroup, for all lanes of a warp together. The exchange tells the
// compiler that they have the same one: what is computed from it takes a register of the warp, not
// one of each lane.
__device__ __forceinline__ int Warpgroup() {
  return __shfl_sync(kAllLanes, ThreadIndex() / (kWarpgroupWarps * kWarp), 0);
}

// The sum and the largest of a value over the lanes that differ in the bits below kLanes, which
// all get the same bits; sums also of several values together, so that none waits for the others.
template <int kLanes, int kValues, typename T>
__device__ __forceinline__ void SumOverLanes(T (&values)[kValues]) {
#pragma unroll
  for (int bits = 1; bits < kLanes; bits *= 2) {
    T others[kValues];
#pragma unroll
    for (int i = 0; i < kValues; ++i) others[i] = __shfl_xor_sync(kAllLanes, values[i], bits);
#pragma unroll
    for (int i = 0; i < kValues; ++i) values[i] += others[i];
  }
}
template <int kLanes, typename T>
__device__ __forceinline__ T SumOverLanes(T value) {
  T values[1] = {value};
  SumOverLanes<kLanes>(values);
  return values[0];
}
template <int kLanes, typename T>
__device__ __forceinline__ T MaxOverLanes(T value) {
#pragma unroll
  for (int bits = 1; bits < kLanes; bits *= 2) {
    const T other = __shfl_xor_sync(kAllLanes, value, bits);
    value = other > value ? other : value;
  }
  return value;
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_DEVICE_CUH_
