#include "engine/backend/cuda_plugin/cuda_library.h"

extern "C" __attribute__((visibility("default")))
const chorale::CudaLibraryEntry chorale_cuda_library = {chorale::kCudaLibraryBuild,
                                                        &chorale::NewCudaBackend};
