// The SIMD instruction sets for which the kernels are compiled. Include before any Highway header.
//
// On x86: AVX-512 ("AVX3"), AVX2, SSE4 and the compiler's baseline, which every machine supports.
// The sets in between would cost compile time and gain nothing in float32 arithmetic. Vectors of
// unknown length (SVE, RISC-V V) are disabled, because the kernels keep arrays of vectors in
// registers.
#ifndef CHORALE_KERNELS_CPU_ENABLED_TARGETS_H_
#define CHORALE_KERNELS_CPU_ENABLED_TARGETS_H_

// x86 targets are bits 0..14; bit 14 is SSE2, the x86-64 baseline, in versions of Highway that
// support it.
#define CHORALE_X86_TARGETS ((1LL << (HWY_HIGHEST_TARGET_BIT_X86 + 1)) - 1)
#define CHORALE_X86_WANTED (HWY_AVX3 | HWY_AVX2 | HWY_SSE4 | (1LL << 14))

#define HWY_DISABLED_TARGETS                                                                       \
  ((CHORALE_X86_TARGETS & ~CHORALE_X86_WANTED) | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | \
   HWY_RVV)

#endif  // CHORALE_KERNELS_CPU_ENABLED_TARGETS_H_
