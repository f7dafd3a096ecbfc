// The SIMD instruction set of the kernels, which is selected at the first call of a kernel.
#ifndef CHORALE_KERNELS_CPU_TARGET_H_
#define CHORALE_KERNELS_CPU_TARGET_H_

#include <string>
#include <string_view>
#include <vector>

namespace chorale::kernels {

// The name of the instruction set that kernels use, for example "AVX3" (AVX-512), "AVX2", "SSE4".
std::string SimdTargetName();

// The names of all compiled instruction sets that this machine supports, best first.
std::vector<std::string> SimdTargetNames();

// Makes every kernel use one of SimdTargetNames(), or the best again for an empty name. Returns
// false for an unknown name. For tests only. REQUIRES: no kernel runs in another thread.
bool ForceSimdTargetForTest(std::string_view name);

}  // namespace chorale::kernels

#endif  // CHORALE_KERNELS_CPU_TARGET_H_
