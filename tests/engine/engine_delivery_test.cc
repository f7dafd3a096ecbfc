// How the values of Sample are delivered, over the fake backend: some paths of a seed, whole paths,
// and the precision.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/error_details.h"
#include "base/mutex.h"
#include "engine/session/random_key.h"
#include "gmock/gmock.h"
#include "tests/engine/engine_calls_fixture.h"
#include "tests/engine/engine_fixture.h"

namespace chorale::testing {
namespace {

using ::testing::Each;
using ::testing::Field;

constexpr int64_t kMostPath = std::numeric_limits<int32_t>::max();

class EngineDeliveryTest : public EngineCallsFixture {};

TEST_F(EngineDeliveryTest, PathsAreCountedFromThoseOfTheSeed) {
  for (const int64_t first : {int64_t{0}, int64_t{1}, int64_t{50}, kMostPath - 11}) {
    SampleRequest request = SampleOf("c", 11, 3);
    request.first_path = first;
    const auto recorder = Sample(request);
    const uint64_t key = RandomKey(7, recorder->summary().source);
    EXPECT_EQ(recorder->values(), 33);
    for (const SampleBlock& block : recorder->blocks()) {
      EXPECT_GE(block.first_path, first);
      EXPECT_LE(block.first_path + block.paths, first + 11);
      for (int64_t i = 0; i < block.paths * block.steps; ++i) {
        const float value =
            FakeValue(key, block.first_path + i / block.steps, block.first_step + i % block.steps);
        EXPECT_DOUBLE_EQ(block.values[i], transform_.ToUser(value));
      }
    }
  }
}

TEST_F(EngineDeliveryTest, PathsOfGroupsAreCountedFromThoseOfTheSeed) {
  SampleRequest request = SampleOf("c", 5, 6);
  request.group_sizes = {2, 3, 1};
  request.first_path = kMostPath - 5;
  const auto recorder = Sample(request);
  EXPECT_EQ(recorder->values(), 30);
  std::vector<int32_t> paths;
  for (const SampleBlock& block : recorder->blocks()) {
    if (block.first_step > 0) continue;
    paths.insert(paths.end(), block.path_indices.begin(), block.path_indices.end());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_EQ(paths.size(), 15u);
  for (int64_t i = 0; i < 15; ++i) EXPECT_EQ(paths[i], kMostPath - 5 + i / 3);
}

TEST_F(EngineDeliveryTest, ABlockOfWholePathsHasAllTheirSteps) {
  SampleRequest request = SampleOf("c", 11, 7);
  const auto expected = Sample(request)->ByTarget(11, 7);
  request.whole_paths = true;
  const auto recorder = Sample(request);
  EXPECT_EQ(recorder->ByTarget(11, 7), expected);
  EXPECT_THAT(recorder->blocks(), Each(Field(&SampleBlock::first_step, 0)));
  EXPECT_THAT(recorder->blocks(), Each(Field(&SampleBlock::steps, 7)));
  EXPECT_EQ(metrics_.values_of(WorkKind::kDecode), 2 * 77);
  EXPECT_EQ(metrics_.first_steps, 2);
}

TEST_F(EngineDeliveryTest, WholePathsOfGroupsHaveTheStepsOfTheirGroup) {
  SampleRequest request = SampleOf("c", 5, 6);
  request.group_sizes = {2, 3, 1};
  request.known = {{3}, {0.5}};
  request.order = RowOrder::kRandomPerPath;
  request.whole_paths = true;
  const auto recorder = Sample(request);
  EXPECT_EQ(recorder->values(), 5 * 5);
  for (const SampleBlock& block : recorder->blocks()) {
    EXPECT_EQ(block.first_step, 0);
    EXPECT_EQ(block.steps, block.query_rows.at(0) == 5 ? 1 : 2);
  }
}

TEST_F(EngineDeliveryTest, SummarizeDrawsThePathsOfSample) {
  SummarizeRequest request;
  static_cast<SampleRequest&>(request) = SampleOf("c", 5, 3);
  request.group_sizes = {2, 1};
  request.first_path = 50;
  request.returned_paths = 5;
  Answer<SummarizeResult> answer;
  engine_->Summarize(call_, request, answer.callback());
  const SummarizeResult summary = answer.Wait().value();
  const std::vector<double> all = Sample(request)->ByTarget(55, 3);
  EXPECT_EQ(summary.paths, std::vector<double>(all.begin() + 50 * 3, all.end()));
}

TEST_F(EngineDeliveryTest, Float32ValuesMustFit) {
  SampleRequest request = SampleOf("c", 2, 3);
  request.float32_values = true;
  EXPECT_EQ(Sample(request)->values(), 6);
  Dataset dataset = MakeDataset(10);
  for (double& y : dataset.y) y *= 1e30;
  ASSERT_TRUE(engine_->Register(kTenant, "large", "", dataset).ok());
  request.context = "large";
  auto recorder = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, request, recorder);
  EXPECT_EQ(ErrorField(recorder->Wait()), "float32_values");
  request.float32_values = false;
  EXPECT_EQ(Sample(request)->values(), 6);
}

// Of a stream of whole paths, values count as unread when they were passed on.
class WholePathsFlowTest : public EngineFixture {
 protected:
  // Less than the values of a path.
  static constexpr int64_t kMostUnacknowledged = 8;
  static constexpr int64_t kPaths = 40;
  static constexpr int64_t kRows = 16;
  static constexpr int64_t kValuesInFlight = 4 * 4 * kRows;  // slots, and paths of a tile

  WholePathsFlowTest() {
    options_.max_unacknowledged_values = kMostUnacknowledged;
    StartEngine();
    Register("c");
    MakeResident("c");
    request_ = SampleOf("c", kPaths, kRows);
    request_.whole_paths = true;
  }

  SampleRequest request_;
};

TEST_F(WholePathsFlowTest, AReaderThatAcknowledgesEveryBlockGetsAll) {
  std::shared_ptr<Call> call;
  Mutex mutex;
  auto recorder = std::make_shared<SampleRecorder>();
  recorder->on_block = [&](const SampleBlock& block) {
    MutexLock lock(&mutex);
    call->Acknowledge(static_cast<int64_t>(block.values.size()));
  };
  {
    MutexLock lock(&mutex);  // held until there is a call to acknowledge to
    call = engine_->Sample(call_, request_, recorder);
  }
  EXPECT_TRUE(recorder->Wait().ok());
  EXPECT_EQ(recorder->values(), kPaths * kRows);
}

TEST_F(WholePathsFlowTest, TheTilesInFlightBoundTheUnreadValues) {
  auto recorder = std::make_shared<SampleRecorder>();
  const auto call = engine_->Sample(call_, request_, recorder);
  for (int64_t read = 0; read < kPaths * kRows;) {
    recorder->WaitForValues(read + 1);
    const int64_t unread = recorder->values() - read;
    EXPECT_LT(unread, kMostUnacknowledged + kValuesInFlight);
    call->Acknowledge(unread);
    read += unread;
  }
  EXPECT_TRUE(recorder->Wait().ok());
}

TEST_F(WholePathsFlowTest, AReaderThatAcknowledgesNothingStopsTheCall) {
  auto recorder = std::make_shared<SampleRecorder>();
  const auto call = engine_->Sample(call_, request_, recorder);
  recorder->WaitForValues(1);
  const auto other = std::make_shared<SampleRecorder>();
  engine_->Sample(call_, SampleOf("c", 1, 4), other);  // fewer values than may be unread
  EXPECT_TRUE(other->Wait().ok());
  EXPECT_FALSE(recorder->is_done());
  call->Cancel();
  EXPECT_TRUE(absl::IsCancelled(recorder->Wait()));
  EXPECT_LE(recorder->values(), kValuesInFlight);
}

}  // namespace
}  // namespace chorale::testing
