// The backend that a test program tests. The tests in this folder are one suite for all backends;
// each program links the definitions for its own: cpu/backend_under_test.cc, or
// cuda/backend_under_test.cc on the emulator or on a GPU.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_BACKEND_UNDER_TEST_H_
#define CHORALE_TESTS_ENGINE_BACKEND_BACKEND_UNDER_TEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/backend/backend_driver.h"
#include "tests/engine/backend/golden_bounds.h"
#include "tests/support/length.h"

namespace chorale::under_test {

enum class Device { kCpu, kEmulator, kGpu };
Device LinkedDevice();

// Whether there is such a device on this machine.
bool DeviceExists();

// What a backend may use to compute; results do not depend on it.
struct Resources {
  int threads = 2;                     // the CPU backend's
  int64_t workspace_bytes = 64 << 20;  // the GPU backend's
  // The GPU backend's: whether the kernel of all layers computes decodes of any number of tiles, or
  // only of many.
  bool any_tiles_in_all_layers = false;
};
BackendDriver NewDriver(const Resources& resources = {});

// Other resources than the default to try, with models that have this row encoder.
std::vector<Resources> OtherResources(const std::string& row_encoder = "feature_mean");

// The machine code to test: one name for each instruction set that the CPU backend can use here.
std::vector<std::string> InstructionSets();
void UseInstructionSet(const std::string& name);
void UseBestInstructionSet();

// How far results may be from those in float64, absolute.
struct Tolerances {
  double mixture = 0;           // means, deviations, logarithms of weights
  double log_density = 0;       // in nats
  double mean_log_density = 0;  // per query row, of the default model on real tables
};
Tolerances ToleratedErrors();

// The same for a golden model.
GoldenBounds BoundsOf(const std::string& golden_model);

// How far the log-density that a decode reports for a value may be from what a density of the same
// values gives: 0 where both are the same bits.
double DecodeTolerance();

// Skips where there is no device.
class BackendTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!DeviceExists()) GTEST_SKIP() << "there is no GPU";
  }
};

// A medium case takes the emulator tens of seconds, for which only the full length has the time; a
// large one takes it minutes.
enum class Size { kSmall, kMedium, kLarge };
inline bool TooLargeForDevice(Size size) {
  const Size most = FullLength() ? Size::kMedium : Size::kSmall;
  return size > most && LinkedDevice() == Device::kEmulator;
}

}  // namespace chorale::under_test

#endif  // CHORALE_TESTS_ENGINE_BACKEND_BACKEND_UNDER_TEST_H_
