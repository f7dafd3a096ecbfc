// Bad requests of many kinds: each is refused with the right code, naming the field, and a session
// that runs at the same time gives the same bits as ever.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/shared_server.h"
#include "tests/support/error_reasons.h"

namespace chorale::end_to_end {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One bad request: its actual and its expected status.
struct Refusal {
  std::string what;
  grpc::Status status;
  std::string field;    // part of the field named in BadRequest
  std::string mention;  // part of the message: a limit, a column
  grpc::StatusCode code = grpc::StatusCode::INVALID_ARGUMENT;
};

void ExpectRefused(const Refusal& refusal) {
  SCOPED_TRACE(absl::StrCat(refusal.what, ": ", refusal.status.error_message()));
  EXPECT_EQ(refusal.status.error_code(), refusal.code);
  EXPECT_THAT(refusal.status.error_message(), ::testing::HasSubstr(refusal.mention));
  if (refusal.field.empty()) return;
  const ErrorDetails details = DetailsOf(refusal.status);
  EXPECT_THAT(absl::StrJoin(details.fields, " "), ::testing::HasSubstr(refusal.field));
  EXPECT_FALSE(details.description.empty());
}

v1::Column* ColumnOf(v1::Table* table, int index) { return table->mutable_columns(index); }

// Ways to spoil the query rows, the same for every call that has some.
struct Spoiling {
  const char* what;
  void (*apply)(v1::Table*);
  const char* mention;
};
const Spoiling kSpoilings[] = {
    {"no query rows", [](v1::Table* t) { t->clear_columns(); }, ""},
    {"no rows",
     [](v1::Table* t) {
       for (auto& c : *t->mutable_columns()) c.mutable_numeric()->clear_values();
     },
     ""},
    {"a column missing", [](v1::Table* t) { t->mutable_columns()->RemoveLast(); }, "x2"},
    {"a column too many",
     [](v1::Table* t) {
       *t->add_columns() = t->columns(0);
       ColumnOf(t, 3)->set_name("extra");
     },
     "extra"},
    {"a column twice", [](v1::Table* t) { *t->add_columns() = t->columns(1); }, "x1"},
    {"a column of the wrong type",
     [](v1::Table* t) {
       const int rows = t->columns(1).numeric().values_size();
       auto* values = ColumnOf(t, 1)->mutable_categorical();
       values->add_categories("letter");
       for (int i = 0; i < rows; ++i) values->add_codes(0);
     },
     "x1"},
    {"a column without values", [](v1::Table* t) { ColumnOf(t, 1)->clear_values(); }, ""},
    {"columns of different lengths",
     [](v1::Table* t) { ColumnOf(t, 2)->mutable_numeric()->add_values(1); }, ""},
    {"an infinite number",
     [](v1::Table* t) { ColumnOf(t, 0)->mutable_numeric()->set_values(0, kInfinity); }, ""},
    {"a column without a name", [](v1::Table* t) { ColumnOf(t, 0)->set_name(""); }, ""},
    {"a name too long", [](v1::Table* t) { ColumnOf(t, 0)->set_name(std::string(257, 'n')); }, ""},
    {"too many rows",
     [](v1::Table* t) {
       for (auto& column : *t->mutable_columns()) {
         while (column.numeric().values_size() <= 16384) column.mutable_numeric()->add_values(0);
       }
     },
     "16384"},
};

class RefusalTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = SharedServer::Start().release();
    ASSERT_NE(server_, nullptr);
  }
  static void TearDownTestSuite() {
    if (server_ != nullptr) server_->Terminate();
    delete server_;
  }

  // A session runs all the time, and is compared all the time.
  void SetUp() override {
    ASSERT_NE(server_, nullptr);
    session_ = std::thread([this] {
      const ApiClient client(server_->address());
      do {
        EXPECT_EQ(Difference(client.Sample(SharedServer::ShortSession()), server_->undisturbed()),
                  "");
      } while (!stop_);
    });
  }
  void TearDown() override {
    stop_ = true;
    if (session_.joinable()) session_.join();
    if (server_ != nullptr) server_->ExpectUndisturbed();
  }

  static v1::SampleRequest GoodSample() { return MakeSample("data", RandomRows(4, 3, 1), 2, 1); }
  static v1::PredictRequest GoodPredict() { return MakePredict("data", RandomRows(4, 3, 1)); }
  static v1::LogDensityRequest GoodLogDensity() {
    return MakeLogDensity("data", RandomRows(4, 3, 1), {1, 2, 3, 4, 5, 6, 7, 8});
  }

  template <typename Change>
  static grpc::Status Sample(const Change& change) {
    v1::SampleRequest request = GoodSample();
    change(request);
    return server_->client().Sample(request).status;
  }
  template <typename Change>
  static grpc::Status Predict(const Change& change) {
    v1::PredictRequest request = GoodPredict();
    change(request);
    return server_->client().Predict(request).status;
  }
  template <typename Change>
  static grpc::Status LogDensity(const Change& change) {
    v1::LogDensityRequest request = GoodLogDensity();
    change(request);
    return server_->client().LogDensity(request).status;
  }

  static SharedServer* server_;
  std::atomic<bool> stop_{false};
  std::thread session_;
};

SharedServer* RefusalTest::server_ = nullptr;

TEST_F(RefusalTest, TheRequestsAreGoodBeforeTheyAreSpoilt) {
  const auto nothing = [](auto&) {};
  EXPECT_TRUE(Sample(nothing).ok()) << Sample(nothing).error_message();
  EXPECT_TRUE(Predict(nothing).ok()) << Predict(nothing).error_message();
  EXPECT_TRUE(LogDensity(nothing).ok()) << LogDensity(nothing).error_message();
  // A missing cell is none of the errors.
  EXPECT_TRUE(Predict([](auto& r) {
                r.mutable_rows()->mutable_columns(0)->mutable_numeric()->set_values(0, kNan);
              }).ok());
}

TEST_F(RefusalTest, QueryRows) {
  for (const Spoiling& spoiling : kSpoilings) {
    const auto change = [&](auto& request) { spoiling.apply(request.mutable_rows()); };
    ExpectRefused(
        {absl::StrCat("Sample, ", spoiling.what), Sample(change), "rows", spoiling.mention});
    ExpectRefused(
        {absl::StrCat("Predict, ", spoiling.what), Predict(change), "rows", spoiling.mention});
    ExpectRefused({absl::StrCat("LogDensity, ", spoiling.what), LogDensity(change), "rows",
                   spoiling.mention});
  }
}

TEST_F(RefusalTest, ContextNames) {
  const auto named = [](const char* name) {
    return [name](auto& request) { request.set_context(name); };
  };
  for (const char* name :
       {"", "data", "contexts/", "contexts/..", "contexts/../data", "models/data", "contexts/Data",
        "contexts/data/", "contexts/-data", "contexts/a b"}) {
    ExpectRefused({absl::StrCat("Sample of '", name, "'"), Sample(named(name)), "context", ""});
    ExpectRefused({absl::StrCat("Predict of '", name, "'"), Predict(named(name)), "context", ""});
  }
  for (const auto& status :
       {Sample(named("contexts/unknown")), Predict(named("contexts/unknown")),
        LogDensity(named("contexts/unknown")), server_->client().Get("unknown").status,
        server_->client().Warm("unknown").status, server_->client().Delete("unknown")}) {
    ExpectRefused({"unknown", status, "", "unknown", grpc::StatusCode::NOT_FOUND});
    EXPECT_EQ(ReasonOf(status), "CONTEXT_NOT_FOUND");
  }
}

TEST_F(RefusalTest, Sample) {
  const auto with_paths = [](int64_t paths) {
    return Sample([=](auto& request) { request.set_path_count(paths); });
  };
  ExpectRefused({"no paths", with_paths(0), "path_count", ""});
  ExpectRefused({"negative paths", with_paths(-1), "path_count", ""});
  ExpectRefused({"too many paths", with_paths(16'385), "path_count", "16384"});
  EXPECT_EQ(ReasonOf(with_paths(0)), "INVALID_FIELD");
  EXPECT_EQ(ReasonOf(with_paths(16'385)), "LIMIT_EXCEEDED");
  ExpectRefused({"far too many paths", with_paths(int64_t{1} << 62), "path_count", "16384"});
  ExpectRefused({"too many values", Sample([](auto& r) {
                   *r.mutable_rows() = FeatureTable(RandomRows(300, 3, 1));
                   r.set_path_count(16'384);
                   r.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
                 }),
                 "", "4194304"});
  ExpectRefused({"unknown order",
                 Sample([](auto& r) { r.set_order(static_cast<v1::SampleRequest::Order>(9)); }),
                 "order", ""});
  ExpectRefused({"unknown beyond_buffer",
                 Sample([](auto& r) { r.set_beyond_buffer(static_cast<v1::BeyondBuffer>(9)); }),
                 "beyond_buffer", ""});
}

TEST_F(RefusalTest, Predict) {
  for (const double q : {0.0, 1.0, -0.1, 1.1, kNan, kInfinity}) {
    ExpectRefused({absl::StrCat("quantile ", q), Predict([q](auto& r) { r.add_quantiles(q); }),
                   "quantiles", ""});
  }
  ExpectRefused({"too many quantiles", Predict([](auto& r) {
                   for (int i = 0; i < 65; ++i) r.add_quantiles(0.5);
                 }),
                 "quantiles", "64"});
}

TEST_F(RefusalTest, LogDensity) {
  ExpectRefused({"no values", LogDensity([](auto& r) { r.clear_values(); }), "values", ""});
  ExpectRefused({"not a multiple", LogDensity([](auto& r) { r.add_values(1); }), "values", ""});
  for (const double y : {kNan, kInfinity, -kInfinity}) {
    ExpectRefused({"not finite", LogDensity([y](auto& r) { r.set_values(3, y); }), "values", ""});
  }
  const auto with_orders = [](int32_t orders) {
    return [orders](v1::LogDensityRequest& r) { r.set_random_order_count(orders); };
  };
  ExpectRefused({"negative orders", LogDensity(with_orders(-1)), "random_order_count", ""});
  ExpectRefused({"too many orders", LogDensity(with_orders(1025)), "random_order_count", "1024"});
  ExpectRefused({"terms of random orders", LogDensity([&](auto& r) {
                   with_orders(2)(r);
                   r.set_include_terms(true);
                 }),
                 "include_terms", ""});
  ExpectRefused({"mixtures of random orders", LogDensity([&](auto& r) {
                   with_orders(2)(r);
                   r.set_include_mixtures(true);
                 }),
                 "include_mixtures", ""});
  ExpectRefused({"cdfs of random orders", LogDensity([&](auto& r) {
                   with_orders(2)(r);
                   r.set_include_cdfs(true);
                 }),
                 "include_cdfs", ""});
}

TEST(ResponseLimitTest, FollowsTheMessageLimit) {
  const std::unique_ptr<SharedServer> server = SharedServer::Start({"--max_message_mib=1"});
  ASSERT_NE(server, nullptr);
  // 15 numbers for each value: more than a MiB less 16 KiB for 2200 vectors of 4, less for 2100.
  const auto mixtures = [&](size_t vectors) {
    v1::LogDensityRequest request =
        MakeLogDensity("data", RandomRows(4, 3, 1), std::vector<double>(vectors * 4, 0.5));
    request.set_include_mixtures(true);
    return server->client().LogDensity(request).status;
  };
  EXPECT_TRUE(mixtures(2100).ok()) << mixtures(2100).error_message();
  ExpectRefused({"a response too large", mixtures(2200), "include_mixtures", "1032192"});
  server->Terminate();
}

TEST_F(RefusalTest, AMessageOverTheLimit) {
  const Rows rows = RandomRows(200'000, 3, 1);  // 4.8 MB
  const auto reply = server_->client().Register("huge-message", rows, "", rows.count());
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(reply.status), "MESSAGE_TOO_LARGE");
  EXPECT_FALSE(DetailsOf(reply.status).has_retry_delay);
}

TEST_F(RefusalTest, CompressedRequestsAreNotEvenDecompressed) {
  // Eight million zeros: 64 MB once decompressed, 64 KB on the wire.
  v1::LogDensityRequest request = GoodLogDensity();
  request.mutable_values()->Resize(8'000'000, 0.0);
  const int64_t before = server_->process().ResidentBytes();
  int64_t largest = before;
  std::atomic<bool> done{false};
  std::thread watcher([&] {
    while (!done) {
      largest = std::max(largest, server_->process().ResidentBytes());
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    v1::LogDensityResponse response;
    const grpc::Status status = server_->client().stub().LogDensity(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
  }
  done = true;
  watcher.join();
  if (!kSanitized) {
    EXPECT_LT(largest - before, 32 << 20);
  }
}

}  // namespace
}  // namespace chorale::end_to_end
