// chorale bench, from outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "client/cli/bench_load.h"
#include "tests/client/cli/command_line_fixture.h"
#include "tests/client/cpp/server_errors.h"
#include "tests/support/eventually.h"

namespace chorale::client {
namespace {

using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class BenchTest : public CommandLineTest {
 protected:
  // A small load; `more` may have other values of its options.
  static std::vector<std::string> Command(std::vector<std::string> more) {
    std::vector<std::string> command = {"bench"};
    for (const std::string& option : std::vector<std::string>{
             "--context-rows=4", "--contexts=1", "--warm-up=0", "--query-rows=3", "--paths=7"}) {
      const std::string prefix = option.substr(0, option.find('=') + 1);
      const auto has = [&](const std::string& other) { return absl::StartsWith(other, prefix); };
      if (std::none_of(more.begin(), more.end(), has)) command.push_back(option);
    }
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  static std::vector<double> Numbers(const ProgramResult& result, const std::string& column) {
    std::vector<double> numbers;
    for (const std::string& cell : Column(result.out, column)) {
      double number = -1.0;
      EXPECT_TRUE(absl::SimpleAtod(cell, &number)) << column << ": '" << cell << "'";
      numbers.push_back(number);
    }
    return numbers;
  }

  void ExpectNoContexts() { EXPECT_THAT(Column(Good({"ls"}).out, "name"), IsEmpty()); }
};

TEST(PercentileTest, IsTheSmallestThatTheShareDoesNotExceed) {
  EXPECT_EQ(Percentile({5.0}, 0.5), 5.0);
  EXPECT_EQ(Percentile({1.0, 2.0, 3.0, 4.0}, 0.5), 2.0);
  EXPECT_EQ(Percentile({1.0, 2.0, 3.0, 4.0}, 0.51), 3.0);
  EXPECT_EQ(Percentile({1.0, 2.0, 3.0, 4.0}, 0.99), 4.0);
}

TEST(BenchTableTest, TablesDifferAndRepeat) {
  const DataFrame first = BenchTable(0, 10, 2);
  ASSERT_EQ(first.columns().size(), 3u);
  EXPECT_EQ(first.columns()[2].name, "y");
  EXPECT_EQ(first.columns()[0].numbers, BenchTable(0, 10, 2).columns()[0].numbers);
  EXPECT_NE(first.columns()[0].numbers, BenchTable(1, 10, 2).columns()[0].numbers);
  EXPECT_NE(first.columns()[0].numbers, first.columns()[1].numbers);
}

TEST_F(BenchTest, MeasuresEachConcurrencyAndDeletesItsContexts) {
  server_.service().set_delay(absl::Milliseconds(20));
  const ProgramResult result = Good(Command({"--concurrency=1,3", "--duration=0.5"}));
  EXPECT_THAT(Column(result.out, "concurrency"), ElementsAre("1", "3"));
  const std::vector<double> calls = Numbers(result, "calls_per_second");
  const std::vector<double> times = Numbers(result, "call_ms_p50");
  ASSERT_EQ(calls.size(), 2u);
  for (size_t line = 0; line < calls.size(); ++line) {
    EXPECT_GT(calls[line], 0.0);
    EXPECT_LE(calls[line], line == 0 ? 55.0 : 165.0) << "a client has one call at a time";
    EXPECT_GE(times[line], 20.0);
    EXPECT_GE(Numbers(result, "call_ms_p99")[line], times[line]);
    EXPECT_GE(times[line], Numbers(result, "first_values_ms_p50")[line]);
  }
  EXPECT_THAT(Numbers(result, "refused"), Each(0.0));
  EXPECT_THAT(Numbers(result, "unavailable"), Each(0.0));
  EXPECT_EQ(server_.service().last_sample().path_count(), 7);
  EXPECT_EQ(server_.service().last_sample().rows().columns_size(), 5) << "without the target";
  ExpectNoContexts();
}

TEST_F(BenchTest, CountsTheValuesOfEachMethod) {
  for (const auto& [method, values] :
       {std::pair{"sample", 21.0}, {"predict", 3.0}, {"log-density", 21.0}}) {
    SCOPED_TRACE(method);
    // The window cuts calls at both ends; of many, those are few.
    const ProgramResult result =
        Good(Command({"--concurrency=1", "--duration=0.5", std::string("--method=") + method}));
    const double calls = Numbers(result, "calls_per_second").at(0);
    EXPECT_GT(calls, 2.0);
    EXPECT_NEAR(Numbers(result, "values_per_second").at(0) / values, calls, 4.0);
    const std::vector<std::string> first = Column(result.out, "first_values_ms_p50");
    EXPECT_EQ(first.at(0).empty(), std::string(method) != "sample");
  }
  ExpectNoContexts();
}

TEST_F(BenchTest, CountsWhatTheServerRefuses) {
  std::vector<grpc::Status> statuses(2, grpc::Status::OK);  // registration, residency
  statuses.resize(
      10'000, WithRetryInfo(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", absl::Milliseconds(1)));
  server_.service().FailNext(statuses);
  const ProgramResult result = RunProgram(Command({"--concurrency=1", "--duration=0.5"}));
  EXPECT_EQ(result.exit_code, 5) << "a context may be left";
  EXPECT_EQ(Numbers(result, "calls_per_second"), std::vector<double>{0.0});
  EXPECT_GT(Numbers(result, "refused").at(0), 0.0);
  EXPECT_THAT(result.err, HasSubstr("no call was completed during the measurement"));
  EXPECT_THAT(result.err,
              HasSubstr("was not deleted (full; try again in 1ms): delete it with 'chorale rm'"));
}

TEST_F(BenchTest, AServerThatIsGoneIsNotCalledFull) {
  std::vector<grpc::Status> statuses(3, grpc::Status::OK);  // registration, residency, one call
  statuses.resize(10'000, grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"));
  server_.service().FailNext(statuses);
  const ProgramResult result = RunProgram(Command({"--concurrency=1", "--duration=0.5"}));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(Numbers(result, "refused"), ElementsAre(0.0));
  EXPECT_GT(Numbers(result, "unavailable").at(0), 0.0);
  EXPECT_THAT(result.err, HasSubstr("the server was unavailable for"));
}

TEST_F(BenchTest, OnlyAnAcknowledgedContextIsCalledLeft) {
  const grpc::Status denied(grpc::StatusCode::PERMISSION_DENIED, "no role");
  server_.service().FailNext({denied, denied});
  const ProgramResult result = RunProgram(Command({}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("no role"));
  EXPECT_THAT(result.err, Not(HasSubstr("not deleted")));
  EXPECT_EQ(server_.service().call_count(), 2);
}

TEST_F(BenchTest, AContextWhoseRegistrationDidNotEndInTimeIsDeleted) {
  server_.service().FailNext({grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "late")});
  ExpectFailure(Command({"--contexts=3"}), 1, "no complete response");
  EXPECT_EQ(server_.service().call_count(), 2) << "a registration and a deletion";
}

TEST_F(BenchTest, AServerThatDoesNotAnswerIsNotAskedToDeleteEachContext) {
  std::vector<grpc::Status> statuses(12, grpc::Status::OK);  // registration, residency, a call
  statuses.push_back(WithBadField("bad", "path_count", "must be at most 5"));
  statuses.resize(10'000, grpc::Status(grpc::StatusCode::INTERNAL, "broken"));
  server_.service().FailNext(statuses);
  ExpectFailure(Command({"--contexts=6", "--concurrency=1"}), 2, "6 contexts from 'bench-");
  EXPECT_EQ(server_.service().call_count(), 13 + 3);
}

TEST_F(BenchTest, WhatWasMeasuredBeforeAnErrorIsWritten) {
  server_.service().set_delay(absl::Milliseconds(50));
  // The first measurement has fewer calls than this: ten in half a second.
  std::vector<grpc::Status> statuses(30, grpc::Status::OK);
  statuses.resize(10'000, WithBadField("bad", "path_count", "must be at most 5"));
  server_.service().FailNext(statuses);
  const ProgramResult result = RunProgram(Command({"--concurrency=1,8,8,8", "--duration=0.5"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(Column(result.out, "concurrency").at(0), "1");
}

TEST_F(BenchTest, AnErrorEndsItAndContextsAreDeleted) {
  server_.service().FailNext(
      {grpc::Status::OK, grpc::Status::OK, WithBadField("bad", "path_count", "must be at most 5")});
  ExpectFailure(Command({"--concurrency=2"}), 2, "path_count");
  ExpectNoContexts();
}

TEST_F(BenchTest, AnInterruptEndsItAndContextsAreDeleted) {
  server_.service().set_stream_fault(StreamFault::kHang);
  Program program = Start(Command({"--duration=600"}));
  ASSERT_TRUE(Eventually([&] { return server_.service().last_sample().path_count() == 7; }));
  program.Signal(SIGINT);
  EXPECT_EQ(program.Wait().exit_code, 130);
  server_.service().set_stream_fault(StreamFault::kNone);
  ExpectNoContexts();
}

TEST_F(BenchTest, TheEndOfATerminalEndsItAndContextsAreDeleted) {
  server_.service().set_stream_fault(StreamFault::kHang);
  Program program = Start(Command({"--duration=600"}));
  ASSERT_TRUE(Eventually([&] { return server_.service().last_sample().path_count() == 7; }));
  program.Signal(SIGHUP);
  EXPECT_EQ(program.Wait().exit_code, 129);
  server_.service().set_stream_fault(StreamFault::kNone);
  ExpectNoContexts();
}

TEST_F(BenchTest, ASecondInterruptNamesWhatIsLeft) {
  server_.service().set_stream_fault(StreamFault::kHang);
  Program program = Start(Command({"--duration=600", "--contexts=5"}));
  ASSERT_TRUE(Eventually([&] { return server_.service().last_sample().path_count() == 7; }));
  server_.service().set_delay(absl::Seconds(5));
  const int calls = server_.service().call_count();
  program.Signal(SIGTERM);
  ASSERT_TRUE(Eventually([&] { return server_.service().call_count() > calls; }));
  program.Signal(SIGTERM);
  const ProgramResult result = program.Wait();
  EXPECT_EQ(result.exit_code, 143);
  EXPECT_THAT(result.err, ContainsRegex("5 contexts from 'bench-[0-9a-f]*-0' to "
                                        "'bench-[0-9a-f]*-4' were not deleted"));
}

TEST_F(BenchTest, SizesThatNothingCanHoldAreRefusedBeforeAnyCall) {
  ExpectFailure(Command({"--method=log-density", "--paths=1000000000", "--query-rows=500000",
                         "--features=1"}),
                2, "--paths x --query-rows: 500000000000000 exceeds the limit of 524288 values");
  ExpectFailure(Command({"--query-rows=1000000", "--features=100000"}), 2,
                "--query-rows x --features: 100000000000 exceeds the limit of 524288 values");
  ExpectFailure(Command({"--context-rows=1000000000"}), 2,
                "--context-rows x (--features + 1): 6000000000 exceeds the limit of 134217728");
  EXPECT_EQ(server_.service().call_count(), 0);
}

TEST_F(BenchTest, AnOutputThatCannotBeWrittenIsFoundFirst) {
  ExpectFailure(Command({"--output", Path("no/such/folder.csv")}), 2, "--output: cannot write");
  ExpectFailure(Command({"--output", folder_.path()}), 2, "Is a directory");
  EXPECT_EQ(server_.service().call_count(), 0);
}

TEST_F(BenchTest, WrongOptionsAreNamed) {
  ExpectFailure(Command({"--duration=nan"}), 2, "--duration: must be a number of seconds");
  ExpectFailure(Command({"--warm-up=nan"}), 2, "--warm-up");
  ExpectFailure(Command({"--timeout=nan"}), 2, "--timeout");
  ExpectFailure(Command({"--concurrency=1,0"}), 2, "--concurrency");
  ExpectFailure(Command({"--method=draw"}), 2, "--method");
  ExpectFailure(Command({"--duration=-1"}), 2, "--duration");
  ExpectFailure(Command({"--paths=0"}), 2, "--paths");
}

}  // namespace
}  // namespace chorale::client
