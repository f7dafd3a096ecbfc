// Overlapping kernels (kernels/cuda/runtime/launch.h): several decode steps have the same bits with
// and without overlap, for any number of rows a block, and whether attention or the layer kernel
// combines the partials.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/kernels/cuda/device_test.h"
#include "tests/kernels/cuda/small_decode.h"
#include "tests/support/length.h"

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
  // The second tile has idle blocks from the start, and is idle before the first one is done.
  const SmallTile few = {
      .context_rows = 700, .paths = 9, .steps = 2, .in_order = false, .first_drawn = 2};
  SmallDecode decode({}, {{}, few}, properties_);
  SetOverlap(Overlap::kOff);
  const SmallDecode::Result expected = decode.Run(KvSplit::kSplit, 8, stream_);
  SetOverlap(Overlap::kOn);
  std::vector<std::pair<int, KvSplit>> forms;
  for (const int block_rows : {8, 16, 32}) {
    for (const KvSplit split : {KvSplit::kSplit, KvSplit::kSingle}) {
      forms.emplace_back(block_rows, split);
    }
  }
  int times = 100;
  if (LinkedDevice() == DeviceKind::kEmulator) {
    // There kernels never overlap: one run suffices to test that the steps fit together.
    times = 1;
    if (!FullLength()) forms = {{16, KvSplit::kSingle}};
  }
  for (const auto& [block_rows, split] : forms) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(decode.Run(split, block_rows, stream_) == expected)
          << block_rows << " rows, time " << i;
    }
  }
}

}  // namespace
}  // namespace chorale::kernels::cuda
