// The function of a kernel that hwy/foreach_target.h compiles once for each SIMD target.
#ifndef CHORALE_KERNELS_CPU_EXPORT_KERNEL_H_
#define CHORALE_KERNELS_CPU_EXPORT_KERNEL_H_

// Defines chorale::kernels::NAME, which calls the NAME of the best target that the CPU supports.
// Use it at the end of a kernel's file, in #if HWY_ONCE, outside of namespaces.
#define CHORALE_EXPORT_KERNEL(NAME)                                             \
  namespace chorale::kernels {                                                  \
  HWY_EXPORT(NAME);                                                             \
  void NAME(const NAME##Params& params) { HWY_DYNAMIC_DISPATCH(NAME)(params); } \
  } /* namespace chorale::kernels */

#endif  // CHORALE_KERNELS_CPU_EXPORT_KERNEL_H_
