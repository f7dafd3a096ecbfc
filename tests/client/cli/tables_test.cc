// Tables as people have them: what the chorale program makes of their texts, types and names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/tables_fixture.h"

namespace chorale::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// "Größe" in the two forms of Unicode.
constexpr char kComposed[] = "Gr\u00F6\u00DFe";
constexpr char kDecomposed[] = "Gro\u0308\u00DFe";

TEST_F(TablesTest, MarksOfMissingCells) {
  EXPECT_THAT(
      Register("age,y\n30,1\nNULL,2\n40,3\n\\N,4\n"),
      AllOf(HasSubstr("age      numeric  -                 2"), Not(HasSubstr("chorale:"))));
  EXPECT_THAT(Registered(0).strings().values(), ElementsAre("30", "", "40", ""));
  Predict("age\n\\N\nn/a\n35\n-\n");
  EXPECT_THAT(Asked(0).strings().values(), ElementsAre("", "", "35", "-"));
  Good({"rm", "t"});
  Register("age,y\n30,1\nn.d.,2\nNA,3\n", {"--missing=n.d."});
  EXPECT_THAT(Registered(0).strings().values(), ElementsAre("30", "", ""));
}

TEST_F(TablesTest, TextsThatLookEqualAreEqual) {
  Register(absl::StrCat(kComposed, ",c,y\n1,", kComposed, ",1\n2,two\u00A0words,2\n3,", kDecomposed,
                        ",3\n"));
  EXPECT_EQ(Registered(0).name(), kComposed);
  EXPECT_THAT(Registered(1).strings().values(), ElementsAre(kComposed, "two words", kComposed));
  const std::string note = Predict(
      absl::StrCat("\"", kDecomposed, "\u00A0\",c\n7,", kDecomposed, "\n8,\"two  words\"\n"));
  EXPECT_THAT(note, IsEmpty());
  EXPECT_EQ(Asked(0).name(), kComposed);
  EXPECT_THAT(Asked(1).strings().values(), ElementsAre(kComposed, "two words"));
  EXPECT_THAT(Asked(0).strings().values(), ElementsAre("7", "8"));
}

TEST_F(TablesTest, ATextThatIsLookedUpMayBeLong) {
  Register("note,y\na,1\nb,2\n");
  const std::string text(300, 'x');
  EXPECT_THAT(Predict(absl::StrCat("note\na\n", text, "\n")), IsEmpty());
  EXPECT_THAT(Asked(0).strings().values(), ElementsAre("a", std::string(257, 'x')));
}

TEST_F(TablesTest, ATextThatIsTooLongToRegisterIsNamed) {
  const std::string text(300, 'x');
  EXPECT_THAT(
      RegisterError(absl::StrCat("note,y\na,1\n", text, ",2\n")),
      AllOf(HasSubstr("t.csv: line 3, column 'note': 'xxx"),
            HasSubstr(
                "has 300 bytes; the limit for a text is 256; drop the column with --drop=note")));
  EXPECT_THAT(RegisterError(absl::StrCat("a,", text, ",y\n1,2,3\n")),
              HasSubstr("the header: the name 'xxx"));
  Register(absl::StrCat("note,x,y\na,5,1\n", text, ",6,2\n"), {"--drop=note"});
}

TEST_F(TablesTest, TheServersWarningsAreShown) {
  EXPECT_THAT(Register("x,y\n1,1\n2000000,2\n"),
              HasSubstr("chorale: warning: column \"x\": 1 too large"));
  EXPECT_THAT(Predict("x\n1\n2000000\n3000000\n"),
              HasSubstr("chorale: warning: column \"x\": 2 too large"));
  EXPECT_THAT(Predict("x\n1\n"), IsEmpty());
}

// A name can be given to another table between the calls of a command.
TEST_F(TablesTest, EveryCommandHoldsToTheTableWhoseColumnsItRead) {
  Register("x,y\n1,1\n2,2\n");
  Predict("x,y\n1,1\n");
  Good({"sample", "t", Path("rows.csv"), "--paths=1"});
  Good({"log-density", "t", Path("rows.csv")});
  const FakeService& service = server_.service();
  for (const v1::Source& expected :
       {service.predict_requests().back().expected_source(),
        service.last_sample().expected_source(), service.last_log_density().expected_source()}) {
    EXPECT_THAT(expected.context_digest(), HasSubstr("digest "));
  }
}

TEST_F(TablesTest, CategoriesThatCountAsMissingAreNoted) {
  EXPECT_THAT(
      Register("grade,y\nNA,1\nA,2\nNone,3\n"),
      HasSubstr(
          "column 'grade' is categorical, and 2 of its cells are read as missing: 'NA', 'None'"));
  EXPECT_THAT(Predict("grade\nNA\n"), HasSubstr("1 of its cells are read as missing: 'NA'"));
  Good({"rm", "t"});
  EXPECT_THAT(Register("grade,y\nNA,1\nA,2\nNone,3\n", {"--missing", ""}),
              Not(HasSubstr("chorale:")));
  EXPECT_THAT(Registered(0).strings().values(), ElementsAre("NA", "A", "None"));
}

TEST_F(TablesTest, EveryNameCanBeGivenToEveryOption) {
  const std::string table =
      "\"Revenue, net\",\"5\"\" disk\",a,\"b \"\"c\"\", d\",[e],y\n1,2,3,4,5,6\n2,3,4,5,6,7\n";
  const std::vector<std::string> names = {"Revenue, net", "5\" disk", "a", "b \"c\", d", "[e]"};
  for (const std::string& name : names) {
    Register(table, {absl::StrCat("--categorical=", name)});
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(Registered(i).has_categorical(), names[i] == name) << name;
    }
    Good({"rm", "t"});
    Register(table, {"--drop", name, "--numeric", "a"});
    EXPECT_EQ(server_.service().Chunks("t").at(0).columns_size(), 5) << name;
    Good({"rm", "t"});
  }
  // Several at once, and the option again.
  Register(table, {"--categorical=\"Revenue, net\", a", "--categorical=[e]", "--categorical=a"});
  EXPECT_TRUE(Registered(0).has_categorical());
  EXPECT_TRUE(Registered(2).has_categorical());
  EXPECT_TRUE(Registered(4).has_categorical());
  EXPECT_FALSE(Registered(1).has_categorical());
  EXPECT_THAT(RegisterError(table, {"--drop=Revenue,a"}),
              AllOf(HasSubstr("--drop: no column 'Revenue'"), HasSubstr("in double quotes")));
}

TEST_F(TablesTest, ATargetAndValuesMayHaveAnyName) {
  Write("u.csv", "x,\"Price, offer\"\n1,2\n2,3\n");
  Good({"register", Path("u.csv"), "--target", "Price, offer", "--name=u"});
  EXPECT_THAT(Column(Good({"log-density", "u", Path("u.csv")}).out, "vector"),
              ElementsAre("Price, offer"));
  Write("v.csv", "x,\"Price, offer\",b\n1,2,5\n2,3,6\n");
  EXPECT_THAT(
      Column(Good({"log-density", "u", Path("v.csv"), "--values", "Price, offer"}).out, "vector"),
      ElementsAre("Price, offer"));
  EXPECT_THAT(
      Column(Good({"log-density", "u", Path("v.csv"), "--values", "b,\"Price, offer\""}).out,
             "vector"),
      ElementsAre("b", "Price, offer"));
}

TEST_F(TablesTest, QuantilesHaveNamesOfTheirOwn) {
  Register("x,y\n1,1\n2,2\n");
  Write("rows.csv", "x\n1\n");
  const std::vector<std::string> command = {
      "predict", "t", Path("rows.csv"),
      "--quantiles=0.999999,0.9999999,0.99999999,0.05,0.0001,0.12345678901234566"};
  const std::string csv = Good(command).out;
  for (const char* name :
       {"q0.999999", "q0.9999999", "q0.99999999", "q0.05", "q0.0001", "q0.12345678901234566"}) {
    EXPECT_EQ(Column(csv, name).size(), 1u) << name << "\n" << csv;
  }
  std::vector<std::string> json = command;
  json.push_back("--format=json");
  EXPECT_EQ(nlohmann::json::parse(Good(json).out).at(0).size(), 3u + 6u);
  ExpectFailure({"predict", "t", Path("rows.csv"), "--quantiles=0.5,0.1,0.50"}, 2,
                "--quantiles: 0.5 is given twice");
}

TEST_F(TablesTest, FilesWithOtherLettersHaveNamesOfTheirOwn) {
  for (const auto& [file, name] :
       {std::pair{"gr\u00F6\u00DFe.csv", "grosse"}, {"gr\u00FC\u00DFe.csv", "grusse"}}) {
    Write(file, "x,y\n1,1\n2,2\n");
    EXPECT_THAT(Column(Good({"register", Path(file), "--target=y"}).out, "name"),
                ElementsAre(name));
  }
}

}  // namespace
}  // namespace chorale::client
