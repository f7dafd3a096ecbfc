// CUDA's stream and error types for headers that are compiled without CUDA.
#ifndef CHORALE_KERNELS_CUDA_RUNTIME_STREAM_H_
#define CHORALE_KERNELS_CUDA_RUNTIME_STREAM_H_

struct CUstream_st;  // what cudaStream_t points to

namespace chorale::kernels::cuda {

using Stream = CUstream_st*;

// A cudaError_t; 0 is success. Only status.h interprets other values.
using ErrorCode = int;

}  // namespace chorale::kernels::cuda

#endif  // CHORALE_KERNELS_CUDA_RUNTIME_STREAM_H_
