#include "client/cli/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/cpp/csv.h"

namespace chorale::client {
namespace {

std::string Report(Format format) {
  std::ostringstream out;
  ReportWriter report({"name", "size", "x"}, format, &out);
  report.Add({"a, \"b\"", Bytes{1536}, 0.1});
  report.Add({"\xC3\xA9", Bytes{7}, std::nan("")});
  report.Add({Cell(), int64_t{12}, 1.0 / 3.0});
  report.Finish();
  return out.str();
}

TEST(ReportTest, CsvReadsBackExactly) {
  EXPECT_EQ(Report(Format::kCsv),
            "name,size,x\n\"a, \"\"b\"\"\",1536,0.1\n\xC3\xA9,7,\n,12,0.3333333333333333\n");
}

TEST(ReportTest, JsonIsAnArrayOfObjects) {
  const auto report = nlohmann::json::parse(Report(Format::kJson));
  ASSERT_EQ(report.size(), 3u);
  EXPECT_EQ(report[0]["name"], "a, \"b\"");
  EXPECT_EQ(report[0]["size"], 1536);
  EXPECT_TRUE(report[1]["x"].is_null());
  EXPECT_TRUE(report[2]["name"].is_null());
  EXPECT_EQ(report[2]["x"].get<double>(), 1.0 / 3.0);
}

TEST(ReportTest, TableLinesUp) {
  EXPECT_EQ(Report(Format::kTable),
            "name       size         x\n"
            "a, \"b\"  1.5 KiB       0.1\n"
            "\xC3\xA9           7 B         -\n"
            "-            12  0.333333\n");
}

TEST(ReportTest, EmptyReports) {
  for (const auto& [format, expected] :
       {std::pair{Format::kCsv, "a\n"}, {Format::kJson, "[]\n"}, {Format::kTable, "a\n"}}) {
    std::ostringstream out;
    ReportWriter report({"a"}, format, &out);
    report.Finish();
    EXPECT_EQ(out.str(), expected);
  }
}

}  // namespace
}  // namespace chorale::client
