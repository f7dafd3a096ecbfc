#include "server/codec/request_decoder.h"

#include <functional>
#include <limits>
#include <string>

#include "base/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/tables.h"

namespace chorale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename Message>
Message Valid() {
  Message message;
  message.set_context("contexts/houses");
  *message.mutable_rows() = SmallTable();
  return message;
}

v1::SampleRequest ValidSample() {
  auto message = Valid<v1::SampleRequest>();
  message.set_path_count(7);
  return message;
}

v1::LogDensityRequest ValidLogDensity() {
  auto message = Valid<v1::LogDensityRequest>();
  for (double value : {1., 2., 3., 4., 5., 6.}) message.add_values(value);
  return message;
}

void ExpectRefused(const absl::Status& status, const std::string& field, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorField(status), field);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

template <typename Message>
void AddKnown(Message* message) {
  for (const int32_t row : {2, 0}) message->mutable_known()->add_rows(row);
  for (const double value : {0.5, -1.5}) message->mutable_known()->add_values(value);
}

void ExpectKnown(const KnownValues& known) {
  EXPECT_THAT(known.rows, ElementsAre(2, 0));
  EXPECT_THAT(known.values, ElementsAre(0.5, -1.5));
}

TEST(RequestDecoderTest, PredictKeepsEverything) {
  auto message = Valid<v1::PredictRequest>();
  AddKnown(&message);
  message.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  message.add_quantiles(0.1);
  message.add_quantiles(0.9);
  message.set_include_mixtures(true);
  message.set_snapping(v1::SNAPPING_OFF);
  message.set_local_row_count(30);
  const absl::StatusOr<PredictRequest> request = DecodePredict(message, Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->context, "houses");
  EXPECT_EQ(request->query_rows.rows(), 3);
  EXPECT_THAT(request->quantiles, ElementsAre(0.1, 0.9));
  EXPECT_TRUE(request->want_mixtures);
  ExpectKnown(request->known);
  EXPECT_EQ(request->beyond_buffer, BeyondBuffer::kWrap);
  EXPECT_EQ(request->local_rows, 30);
  EXPECT_EQ(request->snapping, Snapping::kOff);

  message.set_snapping(static_cast<v1::Snapping>(3));
  ExpectRefused(DecodePredict(message, Limits()).status(), "snapping", "has no value 3");
}

TEST(RequestDecoderTest, SampleKeepsEverything) {
  v1::SampleRequest message = ValidSample();
  message.set_seed(std::numeric_limits<uint64_t>::max());
  message.set_order(v1::SampleRequest::ORDER_RANDOM_PER_PATH);
  message.set_include_log_densities(true);
  message.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  message.set_snapping(v1::SNAPPING_OFF);
  message.set_first_path(50);
  message.set_whole_paths(true);
  message.set_float32_values(true);
  for (const double lower : {-std::numeric_limits<double>::infinity(), 2.5}) {
    message.mutable_known_totals()->add_lower(lower);
  }
  for (const double upper : {1.5, 2.5}) message.mutable_known_totals()->add_upper(upper);
  AddKnown(&message);
  const absl::StatusOr<SampleRequest> request = DecodeSample(message, Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->context, "houses");
  EXPECT_EQ(request->paths, 7);
  EXPECT_EQ(request->seed, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(request->order, RowOrder::kRandomPerPath);
  EXPECT_TRUE(request->want_log_densities);
  EXPECT_EQ(request->beyond_buffer, BeyondBuffer::kWrap);
  EXPECT_EQ(request->snapping, Snapping::kOff);
  EXPECT_EQ(request->first_path, 50);
  EXPECT_TRUE(request->whole_paths);
  EXPECT_TRUE(request->float32_values);
  EXPECT_THAT(request->known_totals->lower,
              ElementsAre(-std::numeric_limits<double>::infinity(), 2.5));
  EXPECT_THAT(request->known_totals->upper, ElementsAre(1.5, 2.5));
  ExpectKnown(request->known);
}

TEST(RequestDecoderTest, AFirstPathRequiresASeed) {
  v1::SampleRequest message = ValidSample();
  message.set_first_path(50);
  ExpectRefused(DecodeSample(message, Limits()).status(), "seed", "first_path is 50");
  message.set_seed(0);
  EXPECT_TRUE(DecodeSample(message, Limits()).ok());
}

TEST(RequestDecoderTest, SampleDefaults) {
  const absl::StatusOr<SampleRequest> request = DecodeSample(ValidSample(), Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_FALSE(request->seed.has_value());
  EXPECT_EQ(request->order, RowOrder::kGiven);
  EXPECT_FALSE(request->want_log_densities);
  EXPECT_EQ(request->beyond_buffer, BeyondBuffer::kRefuse);
  EXPECT_EQ(request->snapping, Snapping::kOn);
  EXPECT_EQ(request->known.count(), 0);
  EXPECT_EQ(request->first_path, 0);
  EXPECT_FALSE(request->whole_paths);
  EXPECT_FALSE(request->float32_values);
  EXPECT_FALSE(request->known_totals.has_value());
}

// The engine refuses them: it knows the number of groups.
TEST(RequestDecoderTest, TotalsWithoutEndsAreNotLost) {
  v1::SampleRequest message = ValidSample();
  message.mutable_known_totals();
  const absl::StatusOr<SampleRequest> request = DecodeSample(message, Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(request->known_totals.has_value());
}

TEST(RequestDecoderTest, LogDensityKeepsEverything) {
  v1::LogDensityRequest message = ValidLogDensity();
  message.set_seed(5);
  message.set_include_terms(true);
  message.set_include_mixtures(true);
  message.set_include_cdfs(true);
  message.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  absl::StatusOr<LogDensityRequest> request = DecodeLogDensity(message, Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->vectors, 2);
  EXPECT_THAT(request->y, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(request->random_orders, 0);
  EXPECT_EQ(request->seed, 5);
  EXPECT_TRUE(request->want_terms);
  EXPECT_TRUE(request->want_cdfs);
  EXPECT_TRUE(request->want_mixtures);
  EXPECT_EQ(request->beyond_buffer, BeyondBuffer::kWrap);

  message = ValidLogDensity();
  message.set_random_order_count(9);
  request = DecodeLogDensity(message, Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->random_orders, 9);
}

TEST(RequestDecoderTest, VectorsHaveAValueForEachRowThatIsNotKnown) {
  v1::LogDensityRequest message = ValidLogDensity();
  AddKnown(&message);
  const absl::StatusOr<LogDensityRequest> request = DecodeLogDensity(message, Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  ExpectKnown(request->known);
  EXPECT_EQ(request->vectors, 6);
  message.mutable_known()->add_rows(1);
  message.mutable_known()->add_rows(1);  // more than there are query rows: the engine refuses it
  EXPECT_EQ(DecodeLogDensity(message, Limits())->vectors, 6);
}

TEST(RequestDecoderTest, BaseIsCheckedForEveryMethod) {
  for (const char* name : {"", "houses", "models/houses", "contexts/", "contexts/Houses",
                           "contexts/a/b", "contexts/..", "contexts/-a", "contexts/ a"}) {
    auto predict = Valid<v1::PredictRequest>();
    predict.set_context(name);
    ExpectRefused(DecodePredict(predict, Limits()).status(), "context", "");
    auto sample = ValidSample();
    sample.set_context(name);
    ExpectRefused(DecodeSample(sample, Limits()).status(), "context", "");
    auto density = ValidLogDensity();
    density.set_context(name);
    ExpectRefused(DecodeLogDensity(density, Limits()).status(), "context", "");
  }
  auto sample = ValidSample();
  sample.clear_rows();
  ExpectRefused(DecodeSample(sample, Limits()).status(), "rows.columns", "empty");
  Limits limits;
  limits.max_query_rows = 2;
  ExpectRefused(DecodeSample(ValidSample(), limits).status(), "rows", "the limit is 2");
}

// The engine refuses these.
TEST(RequestDecoderTest, ValuesThatTheEngineRefusesAreConverted) {
  auto predict = Valid<v1::PredictRequest>();
  predict.add_quantiles(2);
  EXPECT_THAT(DecodePredict(predict, Limits())->quantiles, ElementsAre(2));
  auto sample = ValidSample();
  sample.set_path_count(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(DecodeSample(sample, Limits())->paths, std::numeric_limits<int64_t>::max());
  auto density = ValidLogDensity();
  density.add_values(kNan);
  density.set_random_order_count(-1);
  density.set_include_terms(true);
  const absl::StatusOr<LogDensityRequest> request = DecodeLogDensity(density, Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->y.size(), 7u);
  EXPECT_EQ(request->vectors, 2);
  EXPECT_EQ(request->random_orders, -1);
}

struct BadSample {
  const char* what;
  std::function<void(v1::SampleRequest*)> spoil;
  const char* field;
};

TEST(RequestDecoderTest, BadSamples) {
  const BadSample cases[] = {
      {"order", [](auto* m) { m->set_order(static_cast<v1::SampleRequest::Order>(3)); }, "order"},
      {"beyond_buffer", [](auto* m) { m->set_beyond_buffer(static_cast<v1::BeyondBuffer>(-4)); },
       "beyond_buffer"},
      {"snapping", [](auto* m) { m->set_snapping(static_cast<v1::Snapping>(3)); }, "snapping"},
  };
  for (const BadSample& bad : cases) {
    SCOPED_TRACE(bad.what);
    v1::SampleRequest message = ValidSample();
    bad.spoil(&message);
    ExpectRefused(DecodeSample(message, Limits()).status(), bad.field, "");
  }
}

struct BadDensity {
  const char* what;
  std::function<void(v1::LogDensityRequest*)> spoil;
  const char* field;
};

TEST(RequestDecoderTest, BadLogDensities) {
  const BadDensity cases[] = {
      {"beyond_buffer", [](auto* m) { m->set_beyond_buffer(static_cast<v1::BeyondBuffer>(2)); },
       "beyond_buffer"},
  };
  for (const BadDensity& bad : cases) {
    SCOPED_TRACE(bad.what);
    v1::LogDensityRequest message = ValidLogDensity();
    bad.spoil(&message);
    ExpectRefused(DecodeLogDensity(message, Limits()).status(), bad.field, "");
  }
}

TEST(RequestDecoderTest, AppendKeepsEverything) {
  v1::AppendRowsRequest message;
  message.set_name("contexts/houses");
  absl::StatusOr<AppendRequest> request = DecodeAppend(message);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->context, "houses");
  EXPECT_FALSE(request->first_row.has_value());
  EXPECT_EQ(request->etag, "");
  EXPECT_EQ(request->expected_digest, "");
  EXPECT_FALSE(request->drop_missing_targets);
  EXPECT_FALSE(request->validate_only);

  message.set_first_row(0);
  message.set_etag("e");
  message.mutable_expected_source()->set_context_digest("d");
  message.set_missing_targets(v1::ContextSpec::MISSING_TARGETS_DROP);
  message.set_validate_only(true);
  request = DecodeAppend(message);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->first_row, 0);
  EXPECT_EQ(request->etag, "e");
  EXPECT_EQ(request->expected_digest, "d");
  EXPECT_TRUE(request->drop_missing_targets);
  EXPECT_TRUE(request->validate_only);
  message.set_missing_targets(v1::ContextSpec::MISSING_TARGETS_REJECT);
  EXPECT_FALSE(DecodeAppend(message)->drop_missing_targets);
}

TEST(RequestDecoderTest, BadAppends) {
  v1::AppendRowsRequest message;
  message.set_name("houses");
  ExpectRefused(DecodeAppend(message).status(), "name", "");
  message.set_name("contexts/houses");
  message.set_first_row(-1);
  ExpectRefused(DecodeAppend(message).status(), "first_row", "is -1; it must not be negative");
  message.set_first_row(1);
  message.set_missing_targets(static_cast<v1::ContextSpec::MissingTargets>(3));
  ExpectRefused(DecodeAppend(message).status(), "missing_targets", "has no value 3");
}

TEST(RequestDecoderTest, PageSizes) {
  EXPECT_EQ(DecodePageSize(0).value(), 100);
  EXPECT_EQ(DecodePageSize(1).value(), 1);
  EXPECT_EQ(DecodePageSize(1000).value(), 1000);
  EXPECT_EQ(DecodePageSize(1001).value(), 1000);
  ExpectRefused(DecodePageSize(-1).status(), "page_size", "negative");
}

}  // namespace
}  // namespace chorale
