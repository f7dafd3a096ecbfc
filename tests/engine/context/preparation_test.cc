#include "engine/context/preparation.h"

#include <memory>
#include <string>

#include "base/error_details.h"
#include "engine/session/warm_session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace chorale {
namespace {

using testing::FakeBackendLog;
using testing::MakeDataset;
using testing::MakeTargets;
using testing::NewFakeBackend;

class PreparationTest : public ::testing::Test {
 protected:
  PreparationTest() : backend_(NewFakeBackend({.context_pool_bytes = 640}, &log_)) {
    record_.rows = 10;  // 640 bytes when resident
    record_.columns = {{.name = "a"}, {.name = "b"}};
    request_->targets = MakeTargets(3);
  }

  Preparation Prepare(absl::Status validation = absl::OkStatus()) {
    return PrepareTargets(
        request_, backend_.get(), [validation](const ModelConfig&) { return validation; }, true);
  }
  std::string RefusedField(const Preparation& preparation) {
    absl::Status status = preparation.check(record_, model_);
    if (preparation.check_columns) status.Update(preparation.check_columns(record_));
    return ErrorField(status);
  }

  FakeBackendLog log_;
  const std::unique_ptr<Backend> backend_;
  const std::shared_ptr<RequestBase> request_ = std::make_shared<RequestBase>();
  ContextRecord record_;
  ModelInfo model_;
};

TEST_F(PreparationTest, TheRecordAloneTellsWhatIsWrong) {
  EXPECT_TRUE(Prepare().check(record_, model_).ok());
  EXPECT_EQ(RefusedField(Prepare(InvalidField("path_count", "is odd"))), "path_count");
  record_.columns[1].type = ColumnType::kCategorical;
  EXPECT_EQ(RefusedField(Prepare()), "targets.columns[\"b\"]");
  record_.columns.pop_back();
  EXPECT_EQ(RefusedField(Prepare()), "targets.columns[\"b\"]");
  record_.rows = 11;
  EXPECT_EQ(RefusedField(Prepare()), "context");
  EXPECT_EQ(RefusedField(WarmSession::Prepare(nullptr, nullptr, backend_.get())), "name");
  record_.rows = 10;
  EXPECT_EQ(RefusedField(WarmSession::Prepare(nullptr, nullptr, backend_.get())), "");
}

// A job of several calls names what it began with.
TEST_F(PreparationTest, OfWhatIsExpected) {
  record_.name = "trees";
  record_.digest = "aa";
  model_.digest = "bb";
  for (const Source& expected :
       {Source{}, Source{"aa", ""}, Source{"", "bb"}, Source{"aa", "bb"}}) {
    request_->expected = expected;
    EXPECT_TRUE(Prepare().check(record_, model_).ok());
  }
  for (const Source& expected : {Source{"ab", "bb"}, Source{"aa", "ba"}, Source{"bb", "aa"}}) {
    request_->expected = expected;
    const absl::Status status = Prepare().check(record_, model_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(ErrorReason(status), "SOURCE_CHANGED");
    EXPECT_THAT(status.message(), ::testing::HasSubstr("\"trees\""));
  }
}

// Whatever type it has, too.
TEST_F(PreparationTest, AColumnThatIsLeftOutTakesAnything) {
  record_.columns[1].left_out = true;
  record_.columns[1].type = ColumnType::kCategorical;
  EXPECT_TRUE(Prepare().check_columns(record_).ok());
}

TEST_F(PreparationTest, TheRestNeedsTheTransform) {
  ModelConfig config;
  auto context = std::make_shared<RegisteredContext>();
  context->transform = *FeatureTransform::Fit(MakeDataset(10), config);
  const auto prepared = Prepare().finish(context);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->context, context);
  EXPECT_EQ(prepared->targets.x, context->transform.Apply(request_->targets)->x);

  request_->targets.columns[0].numbers[1] = 1e300;
  EXPECT_TRUE(Prepare().check(record_, model_).ok());
  EXPECT_EQ(ErrorField(Prepare().finish(context).status()),
            "targets.columns[\"a\"].numeric.values[1]");
}

}  // namespace
}  // namespace chorale
