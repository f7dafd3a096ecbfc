#include "tests/engine/backend/backend_under_test.h"

#include "base/require.h"
#include "kernels/cpu/target.h"

namespace chorale::under_test {

Device LinkedDevice() { return Device::kCpu; }

bool DeviceExists() { return true; }

BackendDriver NewDriver(const Resources& resources) {
  return BackendDriver::Cpu(resources.threads);
}

std::vector<Resources> OtherResources(const std::string& /*row_encoder*/) {
  return {{.threads = 1}, {.threads = 3}, {.threads = 5}};
}

std::vector<std::string> InstructionSets() { return kernels::SimdTargetNames(); }

void UseInstructionSet(const std::string& name) {
  Require(kernels::ForceSimdTargetForTest(name), "this machine has the instruction set");
}

void UseBestInstructionSet() { kernels::ForceSimdTargetForTest(""); }

Tolerances ToleratedErrors() {
  return {.mixture = 2e-5, .log_density = 1e-4, .mean_log_density = 2e-6};
}

GoldenBounds BoundsOf(const std::string& golden_model) {
  return {golden_model, 1e-4, 1e-4, 1e-4, 1e-4};
}

double DecodeTolerance() { return 1e-5; }

}  // namespace chorale::under_test
