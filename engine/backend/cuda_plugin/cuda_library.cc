#include "engine/backend/cuda_plugin/cuda_library.h"

extern "C" __attribute__((visibility("default")))
const chorale::cuda::LibraryEntry chorale_cuda_library = {chorale::cuda::kLibraryBuild,
                                                          &chorale::cuda::NewBackend};
