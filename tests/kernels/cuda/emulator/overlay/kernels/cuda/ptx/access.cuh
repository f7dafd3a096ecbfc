// Stands in for kernels/cuda/ptx/access.cuh: checks what hardware requires of pointers.
#ifndef CHORALE_KERNELS_CUDA_PTX_ACCESS_CUH_
#define CHORALE_KERNELS_CUDA_PTX_ACCESS_CUH_

#include "kernels/cuda/ptx/vector_types.cuh"
#include "tests/kernels/cuda/emulator/emulator.h"

namespace chorale::kernels::cuda {

template <typename Access>
void RequireAligned(const void* pointer) {
  emulator::RequireAligned(pointer, alignof(Access));
}

template <typename Access, typename T>
Access LoadAs(const T* from) {
  RequireAligned<Access>(from);
  return *reinterpret_cast<const Access*>(from);
}

template <typename Access, typename T>
void StoreAs(T* to, const Access& value) {
  RequireAligned<Access>(to);
  *reinterpret_cast<Access*>(to) = value;
}

template <typename Access, typename T>
void StoreGlobal(T* to, const Access& value) {
  StoreAs<Access>(to, value);
}
template <typename Access, typename T>
void StoreShared(T* to, const Access& value) {
  StoreAs<Access>(to, value);
}

template <typename Access, typename T>
Access LoadCg(const T* from) {
  return LoadAs<Access>(from);
}

inline int32_t AtomicIncrement(int32_t* counter) { return (*counter)++; }

inline Words4 LoadNcNoAllocate(const Words4* from) { return LoadAs<Words4>(from); }

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_PTX_ACCESS_CUH_
