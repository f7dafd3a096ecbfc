// That kernels may overlap (kernels/cuda/launch.h): several steps of a decode have the same bits,
// whether each kernel waits for the one ahead to end before it begins or not.
#include <gtest/gtest.h>

#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/small_decode.h"

namespace chorale::kernels::cuda {
namespace {

class OverlapTest : public DeviceTest {
 protected:
  void TearDown() override {
    SetOverlap(Overlap::kOn);
    DeviceTest::TearDown();
  }
};

TEST_F(OverlapTest, ChangesNothing) {
  SmallDecode decode({}, {{}, {}}, properties_);
  const auto run = [&] { return decode.Run(ChunkSplit::kApart, 8, stream_); };
  SetOverlap(Overlap::kOff);
  const SmallDecode::Result expected = run();
  SetOverlap(Overlap::kOn);
  // On the emulator kernels never overlap, and once is enough to see that the steps fit together.
  const int times = LinkedDevice() == DeviceKind::kGpu ? 100 : 1;
  for (int i = 0; i < times; ++i) ASSERT_TRUE(run() == expected) << "time " << i;
}

}  // namespace
}  // namespace chorale::kernels::cuda
