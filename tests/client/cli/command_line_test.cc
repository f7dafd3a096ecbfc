// The chorale program from outside: its output and exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/client/cli/command_line_fixture.h"
#include "tests/client/cli/program.h"
#include "tests/client/cpp/fake_service.h"
#include "tests/client/cpp/server_errors.h"
#include "tests/support/eventually.h"
#include "tests/support/test_authority.h"

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(CommandLineTest, WhatAFileOrAServerHoldsIsNoCommandToTheTerminal) {
  Write("odd.csv", "\x1b[2J,y\n1,2\n2,3\n3,5\n");
  const ProgramResult result = RunProgram({"register", Path("odd.csv"), "--target=y"});
  EXPECT_THAT(result.err, HasSubstr("\\x1b[2J"));
  EXPECT_THAT(result.err, Not(HasSubstr("\x1b")));
  server_.service().FailNext({grpc::Status(grpc::StatusCode::NOT_FOUND, "no \x1b]0;title\x07")});
  const ProgramResult refused = RunProgram({"show", "houses"});
  EXPECT_THAT(refused.err, HasSubstr("no \\x1b]0;title\\x07"));
}

TEST_F(CommandLineTest, RegisterShowsWhatItFound) {
  const ProgramResult result =
      Good({"register", Path("houses.csv"), "--target=price", "--categorical=zip", "--drop=note"});
  EXPECT_THAT(result.err, HasSubstr("size     numeric               -        0"));
  EXPECT_THAT(result.err, HasSubstr("zip      categorical           2        1"));
  EXPECT_THAT(result.err, Not(HasSubstr("note")));
  EXPECT_THAT(Column(result.out, "name"), ElementsAre("houses"));
  EXPECT_THAT(Column(result.out, "rows"), ElementsAre("4"));
  EXPECT_THAT(Column(result.out, "features"), ElementsAre("2"));
  const std::vector<v1::Table> chunks = server_.service().Chunks("houses");
  ASSERT_EQ(chunks.size(), 1u);
  ASSERT_EQ(chunks[0].columns_size(), 3);
  EXPECT_THAT(chunks[0].columns(1).categorical().categories(), ElementsAre("01", "02"));
  EXPECT_THAT(chunks[0].columns(1).categorical().codes(), ElementsAre(0, 1, 0, -1));
  EXPECT_THAT(chunks[0].columns(0).strings().values(), ElementsAre("10", "20", "30", "40"));
}

TEST_F(CommandLineTest, RegisterNamesAndReadsStandardInput) {
  Write("My Houses (2).csv", kHouses);
  const ProgramResult named = Good({"register", Path("My Houses (2).csv"), "--target", "price"});
  EXPECT_THAT(Column(named.out, "name"), ElementsAre("my-houses--2-"));
  const ProgramResult piped = Good({"register", "-", "--target", "price", "--name", "p"}, kHouses);
  EXPECT_THAT(Column(piped.out, "name"), ElementsAre("p"));
  ExpectFailure({"register", "-", "--target", "price"}, 2, "--name");
}

TEST_F(CommandLineTest, SeasonsAreShownAndCanBeForbidden) {
  Write("sales.csv", "month,y\n1,2\n2,3\n");
  const std::string line = "season: 12 steps of month\n";
  const std::vector<std::string> sought = {"register", Path("sales.csv"), "--target=y",
                                           "--format=table"};
  EXPECT_THAT(Good(sought).out, HasSubstr(line));
  const std::string table = Good({"show", "sales", "--format=table"}).out;
  EXPECT_THAT(table, HasSubstr(line + "calendar features of month: weekday, month\n"));
  const auto shown = nlohmann::json::parse(Good({"show", "sales", "--format=json"}).out);
  EXPECT_EQ(shown.at("features").at(0).at("season_steps"), 12);
  EXPECT_THAT(shown.at("features").at(0).at("calendar"), ElementsAre("weekday", "month"));
  std::vector<std::string> forbidden = sought;
  forbidden.insert(forbidden.end(), {"--no-seasons", "--name=alone"});
  EXPECT_THAT(Good(forbidden).out, Not(HasSubstr("season")));
}

TEST_F(CommandLineTest, RegisterFailures) {
  RegisterHouses();
  const ProgramResult again =
      Good({"register", Path("houses.csv"), "--target=price", "--categorical=zip", "--drop=note"});
  EXPECT_THAT(again.err, HasSubstr("already has this content"));
  ExpectFailure({"register", Path("houses.csv"), "--target", "price"}, 4, "taken by other content");
  ExpectFailure({"register", Path("houses.csv"), "--target", "cost"}, 2, "no column 'cost'");
  ExpectFailure({"register", Path("none.csv"), "--target", "y"}, 2, "cannot read this file");
  ExpectFailure({"register", Path("houses.csv"), "--target", "price", "--drop", "x"}, 2,
                "--drop: no column 'x'");
  ExpectFailure({"register", Path("houses.csv"), "--target", "price", "--numeric", "note"}, 2,
                "line 2, column 'note': 'x' is not a finite number");
  ExpectFailure({"register", Path("houses.csv"), "--target", "price", "--categorical", "price"}, 2,
                "'price' is categorical, but a target must be numeric");
  Write("gap.csv", "x,y\n1,2\n3,\n5,NULL\n");
  ExpectFailure(
      {"register", Path("gap.csv"), "--target", "y"}, 2,
      "gap.csv: line 3, column 'y': the value is missing, but a target requires a value in "
      "every row; missing in 2 of 3 rows");
  Write("ragged.csv", "a,b\n1,2\n3\n");
  ExpectFailure({"register", Path("ragged.csv"), "--target", "a"}, 2,
                "ragged.csv: line 3: 1 cell,");
}

TEST_F(CommandLineTest, ListShowWarmRemove) {
  EXPECT_EQ(Good({"ls", "--format", "json"}).out, "[]\n");
  RegisterHouses();
  EXPECT_THAT(Column(Good({"ls"}).out, "target"), ElementsAre("price"));
  EXPECT_THAT(Good({"ls", "--format", "table"}).out, HasSubstr("houses"));
  const auto listed = nlohmann::json::parse(Good({"--format=json", "ls"}).out);
  EXPECT_EQ(listed.at(0).at("rows"), 4);
  EXPECT_EQ(listed.at(0).at("features"), 2);
  const auto shown = nlohmann::json::parse(Good({"show", "houses", "--format", "json"}).out);
  EXPECT_EQ(shown.at("features").at(1).at("name"), "zip");
  EXPECT_EQ(shown.at("features").at(1).at("type"), "categorical");
  EXPECT_THAT(Good({"show", "houses", "--format", "table"}).out, HasSubstr("zip      categorical"));
  EXPECT_THAT(Column(Good({"warm", "houses"}).out, "state"), ElementsAre("resident"));
  EXPECT_THAT(Good({"rm", "houses"}).out, IsEmpty());
  ExpectFailure({"show", "houses"}, 3, "no context 'contexts/houses'");
  ExpectFailure({"rm", "houses"}, 3, "no context");
  ExpectFailure({"predict", "houses", Path("rows.csv")}, 3, "no context");
}

// Scores of rows.csv: size + the length of zip.
TEST_F(CommandLineTest, PredictFitsTheRowsToTheContext) {
  RegisterHouses();
  const ProgramResult result =
      Good({"predict", "houses", Path("rows.csv"), "--quantiles", "0.1,0.9", "--mixture"});
  EXPECT_THAT(Column(result.out, "row"), ElementsAre("0", "1", "2"));
  EXPECT_THAT(Column(result.out, "mean"), ElementsAre("3", "4", "6"));
  EXPECT_THAT(Column(result.out, "q0.9"), ElementsAre("3.9", "4.9", "6.9"));
  EXPECT_THAT(Column(result.out, "component1_mean"), ElementsAre("4", "5", "7"));
  EXPECT_THAT(result.err,
              HasSubstr("rows.csv: ignored columns, which are not features of 'houses': price"));
  const v1::PredictRequest sent = server_.service().predict_requests().at(0);
  ASSERT_EQ(sent.rows().columns_size(), 2);
  EXPECT_EQ(sent.rows().columns(0).name(), "size");
  EXPECT_THAT(sent.rows().columns(1).strings().values(), ElementsAre("a1", "a2", "b77"));
  EXPECT_THAT(Good({"predict", "houses", Path("rows.csv"), "--quiet"}).err, IsEmpty());
}

TEST_F(CommandLineTest, RowsThatDoNotFit) {
  RegisterHouses();
  Write("few.csv", "price\n1\n");
  ExpectFailure(
      {"predict", "houses", Path("few.csv")}, 2,
      "few.csv: missing columns 'size', 'zip'; the features of the context are: 'size', 'zip'");
  Write("none.csv", "size,zip\n");
  ExpectFailure({"predict", "houses", Path("none.csv")}, 2, "no rows");
}

TEST_F(CommandLineTest, SampleWritesEveryValue) {
  RegisterHouses();
  const ProgramResult result = Good({"sample", "houses", Path("rows.csv"), "--paths", "5", "--seed",
                                     "7", "--order", "random", "--log-density"});
  const std::vector<std::string> values = Column(result.out, "price");
  const std::vector<std::string> densities = Column(result.out, "log_density");
  ASSERT_EQ(values.size(), 15u);
  const double scores[] = {3, 4, 6};
  for (int i = 0; i < 15; ++i) {
    double value = 0.0;
    ASSERT_TRUE(absl::SimpleAtod(values[i], &value));
    EXPECT_EQ(value, SampleValue(scores[i % 3], i / 3, 7));
    ASSERT_TRUE(absl::SimpleAtod(densities[i], &value));
    EXPECT_EQ(value, SampleLogDensity(i / 3, i % 3));
  }
  // The fake draws target (step + path) mod 3.
  EXPECT_THAT(Column(result.out, "step"), ElementsAre("0", "1", "2", "2", "0", "1", "1", "2", "0",
                                                      "0", "1", "2", "2", "0", "1"));
  EXPECT_THAT(result.err, HasSubstr("seed 7"));
}

TEST_F(CommandLineTest, SampleAsJson) {
  RegisterHouses();
  const auto object = nlohmann::json::parse(
      Good({"sample", "houses", Path("rows.csv"), "--paths=2", "--seed=7", "--format=json"}).out);
  EXPECT_EQ(object.at("seed"), 7);
  EXPECT_EQ(object.at("target"), "price");
  ASSERT_EQ(object.at("values").size(), 2u);
  EXPECT_EQ(object.at("values").at(1).at(2), SampleValue(6, 1, 7));
}

TEST_F(CommandLineTest, SampleSummary) {
  RegisterHouses();
  const std::vector<std::string> command = {"sample", "houses", Path("partly.csv"), "--paths", "64",
                                            "--seed", "7",      "--summary"};
  std::vector<std::string> table = command;
  table.insert(table.end(), {"--format", "table"});
  const ProgramResult summary = Good(table);
  EXPECT_THAT(summary.err, Not(HasSubstr("ignored columns")));
  const std::string& text = summary.out;
  EXPECT_THAT(text,
              HasSubstr("price of 3 query rows in 64 joint sample paths (context houses, seed 7)"));
  // Path p adds p / 1024 to every row: the rows move together.
  EXPECT_THAT(text, HasSubstr("the mean correlation between two rows is 1.000"));
  EXPECT_THAT(text, HasSubstr("the standard deviation of the sum is"));
  // Known values: 10 and 1000, the row without one is not counted; rows lie near 10 and 13.
  EXPECT_THAT(text, HasSubstr("Comparison with 2 observed values:"));
  EXPECT_THAT(text, HasSubstr("90 % intervals (q0.05 to q0.95): mean width 0.05537; 0 observed "
                              "values inside (0 %), expected 0 to 2"));
  EXPECT_THAT(text, HasSubstr("the standard deviation of the observed values is 700"));
  const std::string csv = Good(command).out;
  EXPECT_THAT(Column(csv, "quantity"),
              ElementsAre("row 0", "row 1", "row 2", "sum", "mean", "max", "min"));
  EXPECT_THAT(Column(csv, "actual"), ElementsAre("10", "", "1000", "", "", "", ""));
  std::vector<std::string> json = command;
  json.push_back("--format=json");
  const auto object = nlohmann::json::parse(Good(json).out);
  EXPECT_EQ(object.at("coverage").at("known"), 2);
  EXPECT_EQ(object.at("coverage").at("interval_90").at("inside"), 0);
  EXPECT_NEAR(object.at("mean_pairwise_correlation").get<double>(), 1.0, 1e-9);
}

TEST_F(CommandLineTest, OutputFileAppearsOnlyWhenAllWentWell) {
  RegisterHouses();
  const std::string output = Path("out.csv");
  const ProgramResult good = Good({"predict", "houses", Path("rows.csv"), "--output", output});
  EXPECT_THAT(good.out, IsEmpty());
  EXPECT_THAT(Column(Read("out.csv"), "mean"), ElementsAre("3", "4", "6"));
  server_.service().FailNext(
      {grpc::Status::OK, grpc::Status(grpc::StatusCode::INTERNAL, "broken")});
  Write("out.csv", "precious");
  ExpectFailure({"predict", "houses", Path("rows.csv"), "--output", output}, 1, "broken");
  EXPECT_EQ(Read("out.csv"), "precious");
  EXPECT_FALSE(std::filesystem::exists(output + ".partial"));
  ExpectFailure({"ls", "--output", Path("nowhere/x.csv")}, 2, "cannot write");
}

TEST_F(CommandLineTest, UsageErrors) {
  ExpectFailure({}, 2, "A command is required");
  ExpectFailure({"sing"}, 2, "sing");
  ExpectFailure({"sample", "houses"}, 2, "ROWS");
  // Numbers beyond these limits would overflow.
  for (const char* paths : {"0", "9223372036854775807"}) {
    ExpectFailure({"sample", "houses", "x.csv", "--paths", paths}, 2, "--paths");
  }
  ExpectFailure({"ls", "--retries", "2147483647"}, 2, "must be an integer from 0 to 1000000");
  ExpectFailure({"predict", "houses", "x.csv", "--quantiles", "0.5,1"}, 2,
                "strictly between 0 and 1");
  ExpectFailure({"ls", "--format", "xml"}, 2, "--format");
  const ProgramResult help = Good({"--help"});
  EXPECT_THAT(help.out, HasSubstr("Exit codes"));
  EXPECT_THAT(Good({"sample", "--help"}).out, HasSubstr("Examples"));
  EXPECT_THAT(Good({"--version"}).out, HasSubstr("chorale "));
}

TEST_F(CommandLineTest, ASeedIsAWholeNumber) {
  for (const char* seed : {"-1", "1.5", "18446744073709551616", "x", "+1", " 1"}) {
    ExpectFailure({"sample", "c", "x.csv", absl::StrCat("--seed=", seed)}, 2,
                  "must be an integer from 0 to 2^64 - 1");
    ExpectFailure({"log-density", "c", "x.csv", "--orders=2", absl::StrCat("--seed=", seed)}, 2,
                  "must be an integer");
  }
  ExpectFailure({"sample", "c", "x.csv", "--seed", "-1"}, 2, "must be an integer");
  RegisterHouses();
  Good({"sample", "houses", Path("rows.csv"), "--seed=18446744073709551615"});
  EXPECT_EQ(server_.service().last_sample().seed(), ~uint64_t{0});
}

TEST_F(CommandLineTest, ASummaryOfOnePathHasNoDeviations) {
  RegisterHouses();
  std::vector<std::string> command = {"sample", "houses", Path("rows.csv"), "--paths=1",
                                      "--summary"};
  for (const char* format : {"table", "csv", "json"}) {
    std::vector<std::string> one = command;
    one.push_back(absl::StrCat("--format=", format));
    const ProgramResult result = Good(one);
    EXPECT_THAT(result.out, Not(HasSubstr("nan"))) << format;
  }
  EXPECT_THAT(Column(Good(command).out, "sd"), ElementsAre("", "", "", "", "", "", ""));
}

TEST_F(CommandLineTest, HelpThatCannotBeWrittenIsAnError) {
  for (const char* arguments : {"--help", "sample --help", "--version"}) {
    const std::string line = absl::StrCat("'" CHORALE_PROGRAM "' ", arguments, " > /dev/full");
    const ProgramResult result = Program({"/bin/sh", "-c", line}, {}, "").Wait();
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_THAT(result.err, HasSubstr("cannot write to standard output"));
  }
}

TEST_F(CommandLineTest, AddressesThatUsersWrite) {
  Good({"ls", "--server", absl::StrCat("http://", server_.address())});
  Good({"ls", "--server", absl::StrCat("grpc://", server_.address(), "/")});
  Good({"ls", "--server", absl::StrCat("dns:///", server_.address())});
  ExpectFailure({"ls", "--server", absl::StrCat("https://", server_.address())}, 1,
                "does not speak TLS");
  ExpectFailure({"ls", "--server", "example.org"}, 2, "has no port (example: example.org:50051)");
  ExpectFailure({"ls", "--server", "ftp://example.org:1"}, 2, "has the unknown scheme 'ftp'");
  ExpectFailure({"ls", "--tls", "--server", "http://example.org:1"}, 2, "TLS is requested");
  ExpectFailure({"ls", "--server", ""}, 2, "the server's address is empty");
}

TEST_F(CommandLineTest, ProxiesAreForOtherMachinesAndNamed) {
  const std::string port = server_.address().substr(server_.address().rfind(':'));
  // Debian's c-ares loses ten bytes whenever it looks up "localhost".
  const std::vector<std::string> proxy = {"http_proxy=http://user:secret@127.0.0.1:9",
                                          "ASAN_OPTIONS=detect_leaks=0"};
  for (const std::string& address :
       {server_.address(), "localhost" + port, "LOCALHOST" + port, "http://127.0.0.1" + port,
        "dns:///localhost" + port, "ipv4:" + server_.address()}) {
    const ProgramResult result = StartIn(proxy, {"ls", "--server", address}).Wait();
    EXPECT_EQ(result.exit_code, 0) << address << ": " << result.err;
  }
  const ProgramResult result = StartIn(proxy, {"ls", "--server=server.invalid:1"}).Wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("no server at server.invalid:1 through the proxy "
                                          "http://127.0.0.1:9 (set by http_proxy; no_proxy"),
                                Not(HasSubstr("start a server")), Not(HasSubstr("secret"))));
}

TEST_F(CommandLineTest, ServerErrors) {
  RegisterHouses();
  std::string gone;
  { gone = FakeServer().address(); }
  ExpectFailure({"ls", "--server", gone, "--connect-timeout", "0.1"}, 1,
                absl::StrCat("no server at ", gone, ": Connection refused - start a server with"));
  ExpectFailure(
      {"ls", "--tls"}, 1,
      absl::StrCat("chorale: the server at ", server_.address(), " does not speak TLS\n"));
  server_.service().FailNext(
      {WithRetryInfo(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full", absl::Seconds(2))});
  ExpectFailure({"show", "houses", "--retries", "0"}, 5, "the queue is full; try again in 2s");
  server_.service().FailNext({grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining")});
  const ProgramResult retried = Good({"show", "houses"});
  EXPECT_THAT(retried.err, HasSubstr("draining - retrying in"));
  server_.service().FailNext({WithBadField("", "beyond_buffer", "40 rows, the buffer has 32")});
  ExpectFailure({"show", "houses"}, 2,
                "40 rows, the buffer has 32 - use --wrap to allow more rows");
  server_.service().set_delay(absl::Seconds(1));
  ExpectFailure({"show", "houses", "--timeout", "0.1"}, 1, "--timeout");
}

TEST_F(CommandLineTest, ACallThatTheServerCancelsIsNoInterrupt) {
  server_.service().FailNext({grpc::Status(grpc::StatusCode::CANCELLED, "shutting down")});
  ExpectFailure({"ls", "--retries=0"}, 5, "the server cancelled the call: shutting down");
}

TEST_F(CommandLineTest, TerminationCancelsTheCall) {
  RegisterHouses();
  server_.service().set_stream_fault(StreamFault::kHang);
  Program program = Start({"sample", "houses", Path("rows.csv")});
  ASSERT_TRUE(Eventually([&] { return server_.service().last_sample().path_count() == 100; }));
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait().exit_code, 143);
}

TEST_F(CommandLineTest, InterruptCancelsTheCall) {
  RegisterHouses();
  server_.service().set_stream_fault(StreamFault::kHang);
  Program program = Start({"sample", "houses", Path("rows.csv")});
  ASSERT_TRUE(Eventually([&] { return server_.service().last_sample().path_count() == 100; }));
  program.Signal(SIGINT);
  const ProgramResult result = program.Wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.err, HasSubstr("cancelled"));
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_TRUE(Eventually([&] { return server_.service().cancelled_count() == 1; }));
}

TEST_F(CommandLineTest, AServerThatMayWantTlsIsHintedAt) {
  const TestPair own = SelfSigned({"127.0.0.1", "IP:127.0.0.1"});
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({own.key, own.certificate});
  const FakeServer tls("127.0.0.1:0", grpc::SslServerCredentials(options));
  std::string error;  // the timeout may be too short to try
  EXPECT_TRUE(Eventually([&] {
    error = RunProgram({"--server", tls.address(), "--connect-timeout=0.3", "ls"}).err;
    return error.find("it may require TLS - use --tls") != std::string::npos;
  })) << error;
}

}  // namespace
}  // namespace chorale::client
