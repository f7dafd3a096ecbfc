// wgmma: asynchronous matrix multiply-accumulate of a warpgroup on tensor cores.
#ifndef CHORALE_KERNELS_CUDA_PTX_WGMMA_CUH_
#define CHORALE_KERNELS_CUDA_PTX_WGMMA_CUH_

#include <cstdint>

#include "kernels/cuda/ptx/smem.cuh"
#include "kernels/cuda/ptx/smem_descriptor.cuh"

namespace chorale::kernels::cuda {

// Wgmma computes c = a b^T, or c += a b^T with `accumulate`. a [64, 16] and b [rows, 16] are in
// shared memory (MakeSmemDescriptor). Warp w of the warpgroup holds rows 16w to 16w + 15 of
// c [64, rows]; its lanes hold c[4n + i] for i = 0..3: row g, columns 8n + 2j and 8n + 2j + 1, then
// row g + 8 likewise. Sums have the same bits as those of Mma over the same 16 columns in the same
// order.
//
// It is asynchronous: from Wgmma until WgmmaWait, c, a and b must not be accessed. Writes to a and
// b need FenceProxyAsync and a barrier before Wgmma; other accesses to c, or to a in registers,
// need WgmmaFence.
__device__ __forceinline__ void WgmmaFence() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void WgmmaCommit() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Waits until at most kLeft committed groups are incomplete.
template <int kLeft>
__device__ __forceinline__ void WgmmaWait() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
#endif
}
// Keeps the compiler from moving accesses to the operands in registers to the other side of this
// point, as it else may: before WgmmaFence, and after WgmmaWait.
template <int kCount>
__device__ __forceinline__ void HoldOperands(float (&c)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(c[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void HoldOperands(uint32_t (&a)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int word = 0; word < 4; ++word) asm volatile("" : "+r"(a[i][word])::"memory");
  }
}
// Makes what `value` is computed from be computed before the next WgmmaWait, while products are in
// flight: ptxas moves exponentials behind the wait unless something uses them before. `value` is
// not negative, so nothing is stored.
__device__ __forceinline__ void ComputeBeforeWait(float value) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "{\n"
      ".reg .pred never;\n"
      "setp.lt.f32 never, %0, 0f00000000;\n"
      "@never st.shared.f32 [%1], %0;\n"
      "}" ::"f"(value),
      "r"(SmemAddress(DynamicSmem()))
      : "memory");
#endif
}
__device__ __forceinline__ void Wgmma(float (&c)[8], uint64_t a, uint64_t b, bool accumulate) {
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
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
#endif
}
__device__ __forceinline__ void Wgmma(float (&c)[16], uint64_t a, uint64_t b, bool accumulate) {
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
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
#endif
}
__device__ __forceinline__ void Wgmma(float (&c)[32], uint64_t a, uint64_t b, bool accumulate) {
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
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
#endif
}

// Likewise with a in registers: the lanes of warp w hold its rows 16w to 16w + 15, as they hold
// Mma's operand A.
__device__ __forceinline__ void Wgmma(float (&c)[16], const uint32_t (&a)[4], uint64_t b,
                                      bool accumulate) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, add, 1, 1, 0;\n"
      "}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));
#endif
}
__device__ __forceinline__ void Wgmma(float (&c)[32], const uint32_t (&a)[4], uint64_t b,
                                      bool accumulate) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, 0;\n"
      "}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
        "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
        "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));
#endif
}

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_WGMMA_CUH_
