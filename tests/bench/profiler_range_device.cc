#include <cuda_profiler_api.h>

#include "tests/bench/profiler_range.h"

namespace chorale {

void BeginProfile() { cudaProfilerStart(); }
void EndProfile() { cudaProfilerStop(); }

}  // namespace chorale
