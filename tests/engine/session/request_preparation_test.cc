#include "engine/session/request_preparation.h"

#include <memory>
#include <string>
#include <utility>

#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/engine_fixture.h"

namespace chorale {
namespace {

using testing::FakeBackendLog;
using testing::MakeDataset;
using testing::MakeTargets;
using testing::NewFakeBackend;

class RequestPreparationTest : public ::testing::Test {
 protected:
  RequestPreparationTest() : backend_(NewFakeBackend({.context_pool_bytes = 640}, &log_)) {
    record_.rows = 10;  // 640 bytes when resident
    record_.columns = {{.name = "a"}, {.name = "b"}};
    model_.config.buffer_size = 8;
    model_.config.num_components = 1;
    request_.query_rows = MakeTargets(3);
    request_.paths = 2;
  }

  template <typename Request>
  std::shared_ptr<const Preparation> Of(const Request& request) const {
    return MakePreparation(std::make_shared<const Request>(request), &limits_, backend_.get());
  }
  absl::Status Check() const { return Of(request_)->Check(record_, model_); }
  std::string RefusedField() const { return ErrorField(Check()); }
  std::string RefusedFieldOfWarm() const {
    return ErrorField(Of(WarmRequest())->Check(record_, model_));
  }
  std::shared_ptr<const RegisteredContext> Context() const {
    auto served = std::make_shared<ServedModel>();
    served->info = model_;
    auto context = std::make_shared<RegisteredContext>();
    context->record = record_;
    context->transform = *FeatureTransform::Fit(MakeDataset(10), model_.config);
    context->model = std::move(served);
    return context;
  }

  FakeBackendLog log_;
  const std::unique_ptr<Backend> backend_;
  const Limits limits_;
  SampleRequest request_;
  ContextRecord record_;
  ModelInfo model_;
};

TEST_F(RequestPreparationTest, TheRecordAloneTellsWhatIsWrong) {
  EXPECT_TRUE(Check().ok()) << Check();
  record_.columns[1].type = ColumnType::kCategorical;
  EXPECT_TRUE(Check().ok()) << "numbers may be categories";
  request_.query_rows.columns[1].meaning = Meaning::kDate;
  EXPECT_EQ(RefusedField(), "rows.columns[\"b\"]");
  record_.columns.pop_back();
  EXPECT_EQ(RefusedField(), "rows.columns[\"b\"]");
  record_.rows = 11;
  EXPECT_EQ(RefusedField(), "context");
  EXPECT_EQ(RefusedFieldOfWarm(), "name");
  request_.paths = 0;
  EXPECT_EQ(RefusedField(), "path_count");
  record_.rows = 10;
  EXPECT_EQ(RefusedFieldOfWarm(), "");
}

// A job of several calls names what it began with.
TEST_F(RequestPreparationTest, OfWhatIsExpected) {
  record_.name = "trees";
  record_.digest = "aa";
  model_.digest = "bb";
  for (const Source& expected :
       {Source{}, Source{"aa", ""}, Source{"", "bb"}, Source{"aa", "bb"}}) {
    request_.expected = expected;
    EXPECT_TRUE(Check().ok());
  }
  for (const Source& expected : {Source{"ab", "bb"}, Source{"aa", "ba"}, Source{"bb", "aa"}}) {
    request_.expected = expected;
    const absl::Status status = Check();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(ErrorReasonOf(status), "SOURCE_CHANGED");
    EXPECT_THAT(status.message(), ::testing::HasSubstr("\"trees\""));
  }
}

// Whatever type it has, too.
TEST_F(RequestPreparationTest, AColumnThatIsLeftOutTakesAnything) {
  record_.columns[1].left_out = true;
  record_.columns[1].type = ColumnType::kCategorical;
  EXPECT_TRUE(Check().ok());
}

TEST_F(RequestPreparationTest, TheRestNeedsTheTransform) {
  const auto context = Context();
  const auto prepared = Of(request_)->Prepare(context);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->context, context);
  EXPECT_EQ(prepared->query_rows.x, context->transform.Apply(request_.query_rows)->x);

  request_.query_rows.columns[0].numbers[1] = 1e300;
  EXPECT_TRUE(Check().ok());
  EXPECT_EQ(ErrorField(Of(request_)->Prepare(context).status()),
            "rows.columns[\"a\"].numeric.values[1]");

  LogDensityRequest density;
  density.query_rows = MakeTargets(1);
  density.vectors = 1;
  for (const double y :
       {1e300, -1e300, context->transform.ToUser(1.1e15f), context->transform.ToUser(-1.1e15f)}) {
    density.y = {y};
    EXPECT_TRUE(Of(density)->Check(record_, model_).ok());
    const absl::Status status = Of(density)->Prepare(context).status();
    EXPECT_EQ(ErrorField(status), "values[0]") << y;
    EXPECT_THAT(status.message(), ::testing::HasSubstr("the limit is 1e+15"));
  }
  density.y = {context->transform.ToUser(0.9e15f)};
  EXPECT_TRUE(Of(density)->Prepare(context).ok());
}

// Of the context, and of the paths; a marginal prediction has no path.
TEST_F(RequestPreparationTest, WarnsOfWhatIsBeyondTheTraining) {
  EXPECT_THAT(Of(request_)->Prepare(Context())->notes, ::testing::IsEmpty());
  model_.config.trained_rows = 9;
  model_.config.buffer_size = 2;
  request_.beyond_buffer = BeyondBuffer::kWrap;
  const std::vector<ColumnNote> notes = Of(request_)->Prepare(Context())->notes;
  ASSERT_EQ(notes.size(), 2);
  EXPECT_THAT(notes[0].beyond_training, ::testing::HasSubstr("10 rows; the model was trained on"));
  EXPECT_THAT(notes[1].beyond_training,
              ::testing::HasSubstr("3 query rows; the model was trained on at most 2"));
  PredictRequest predict;
  predict.query_rows = request_.query_rows;
  EXPECT_EQ(Of(predict)->Prepare(Context())->notes.size(), 1);
}

TEST_F(RequestPreparationTest, LocalRowsCountInsteadOfThoseOfTheContext) {
  record_.rows = 1000;  // more than the pool has room for
  EXPECT_EQ(RefusedField(), "context");
  model_.config.trained_rows = 9;
  request_.local_rows = 9;
  EXPECT_TRUE(Check().ok()) << Check();
  EXPECT_EQ(Of(request_)->LocalRows(record_), 9);
  EXPECT_THAT(Of(request_)->Prepare(Context())->notes, ::testing::IsEmpty());
  request_.local_rows = 11;
  EXPECT_EQ(RefusedField(), "local_row_count");
  request_.local_rows = 1000;
  EXPECT_EQ(Of(request_)->LocalRows(record_), 0);
  EXPECT_EQ(RefusedField(), "context");
  EXPECT_EQ(Of(WarmRequest())->LocalRows(record_), 0);
}

TEST_F(RequestPreparationTest, DistancesAreLimited) {
  request_.local_rows = 10;
  record_.rows = (int64_t{1} << 28) / 3;
  EXPECT_TRUE(Check().ok()) << Check();
  ++record_.rows;
  EXPECT_EQ(RefusedField(), "local_row_count");
}

// A context that is in memory is not looked up in the store: no Check comes first.
TEST_F(RequestPreparationTest, ThePreparationChecksWhatTheRecordTells) {
  request_.paths = 0;
  EXPECT_EQ(ErrorField(Of(request_)->Prepare(Context()).status()), "path_count");
  record_.rows = 11;
  EXPECT_EQ(ErrorField(Of(WarmRequest())->Prepare(Context()).status()), "name");
}

}  // namespace
}  // namespace chorale
