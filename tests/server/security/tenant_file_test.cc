#include "server/security/tenant_file.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kFile[] = R"(
tenants:
  acme:
    weight: 2
    max_contexts: 3
    max_dataset_mib: 4
    max_resident_mib: 5
    max_concurrent_calls: 6
    max_values_per_second: 7
    certificates:
      - {dns: trainer.acme.example, role: register}
      - {uri: "spiffe://acme.example/reader", role: read}
  zeta:
    certificates:
      - {subject: "CN=root,O=Zeta", role: admin}
others: {max_contexts: 1}
)";

TenantTable Parsed(const std::string& text) {
  absl::StatusOr<TenantTable> table = TenantTable::Parse(text, "tenants.yaml");
  EXPECT_TRUE(table.ok()) << table.status();
  return table.ok() ? *std::move(table) : TenantTable();
}

std::string ErrorOf(const std::string& text) {
  return std::string(TenantTable::Parse(text, "tenants.yaml").status().message());
}

TEST(TenantFileTest, SaysSharesAndQuotas) {
  const TenantTable table = Parsed(kFile);
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(table.PolicyOf("acme"), (TenantPolicy{2,
                                                  {.contexts = 3,
                                                   .dataset_bytes = 4 << 20,
                                                   .resident_bytes = 5 << 20,
                                                   .concurrent_calls = 6,
                                                   .values_per_second = 7}}));
  EXPECT_EQ(table.PolicyOf("zeta"), TenantPolicy());
  EXPECT_EQ(table.PolicyOf("someone"), (TenantPolicy{1, {.contexts = 1}}));
}

TEST(TenantFileTest, KnowsCertificates) {
  const TenantTable table = Parsed(kFile);
  const auto trainer = table.Find({"CN=x", {"unknown.example", "trainer.acme.example"}, {}});
  ASSERT_TRUE(trainer.has_value());
  EXPECT_EQ(trainer->tenant, "acme");
  EXPECT_EQ(trainer->role, Role::kRegister);
  EXPECT_EQ(trainer->name, "dns:trainer.acme.example");
  const auto root = table.Find({"CN=root,O=Zeta", {}, {}});
  ASSERT_TRUE(root.has_value());
  EXPECT_EQ(root->tenant, "zeta");
  EXPECT_EQ(root->role, Role::kAdmin);
  // A name counts only as what it is: whoever gets a DNS name signed is not that subject.
  EXPECT_FALSE(table.Find({"", {"CN=root,O=Zeta", "spiffe://acme.example/reader"}, {}}));
  EXPECT_FALSE(table.Find({"trainer.acme.example", {}, {"trainer.acme.example"}}));
  EXPECT_FALSE(table.Find({}));
}

TEST(TenantFileTest, ACertificateOfTwoOwnersIsNobodys) {
  const TenantTable table = Parsed(kFile);
  EXPECT_FALSE(table.Find({"CN=root,O=Zeta", {"trainer.acme.example"}, {}}));
  EXPECT_FALSE(table.Find({"", {"trainer.acme.example"}, {"spiffe://acme.example/reader"}}));
}

TEST(TenantFileTest, AnEmptyFileSaysNothing) {
  for (const char* text : {"", "# nothing\n", "---\n"}) {
    EXPECT_EQ(Parsed(text).size(), 0);
    EXPECT_EQ(Parsed(text).PolicyOf("acme"), TenantPolicy());
  }
}

TEST(TenantFileTest, ErrorsNameTheLineAndTheField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"tenant: {}", "\"tenant\" is not a section of the file"},
      {"tenants: [a]", "tenants must be a map"},
      {"tenants: {a: 1}", "\"a\" must be a map"},
      {"tenants: {A: {}}", "the tenant"},
      {"tenants: {a: {}, a: {}}", "\"a\" occurs twice"},
      {"tenants: {a: {max_context: 1}}", "\"max_context\" is not a field of a tenant"},
      {"tenants: {a: {weight: 0}}", "weight must be an integer from 1 to 1000"},
      {"tenants: {a: {weight: 1001}}", "weight must be"},
      {"tenants: {a: {max_contexts: many}}", "max_contexts must be an integer"},
      {"tenants: {a: {max_contexts: [1]}}", "max_contexts must be an integer"},
      {"tenants: {a: {max_contexts: 1, max_contexts: 2}}", "\"max_contexts\" occurs twice"},
      {"tenants: {a: {certificates: {}}}", "certificates must be a list"},
      {"tenants: {a: {certificates: [x]}}", "a certificate must be a map"},
      {"tenants: {a: {certificates: [{dns: x}]}}", "a certificate must have a role"},
      {"tenants: {a: {certificates: [{role: read}]}}", "must have dns, uri or subject"},
      {"tenants: {a: {certificates: [{dns: x, uri: y, role: read}]}}", "one of dns, uri and"},
      {"tenants: {a: {certificates: [{dns: x, role: owner}]}}", "role must be read"},
      {"tenants: {a: {certificates: [{dns: x, rolle: read}]}}", "\"rolle\" is not a field"},
      {"tenants: {a: {certificates: [{dns: '', role: read}]}}", "must be a single value"},
      {"tenants: {a: {certificates: [{dns: x, role: read}]}, "
       "b: {certificates: [{dns: x, role: read}]}}",
       "\"dns:x\" occurs twice"},
      {"others: {certificates: []}", "\"certificates\" is not a field of others"},
      {"tenants: {", "line"},
      {"[1]", "the file must be a map"},
  };
  for (const auto& [text, what] : cases) {
    EXPECT_THAT(ErrorOf("# first\n" + text + "\n"),
                AllOf(HasSubstr("tenants.yaml: line "), HasSubstr(what)))
        << text;
  }
  EXPECT_THAT(ErrorOf("tenants:\n  a:\n    weight: 0\n"), HasSubstr("line 3: weight"));
  EXPECT_THAT(ErrorOf("a: 1\n---\nb: 2\n"), HasSubstr("single YAML document"));
  EXPECT_THAT(ErrorOf(","), HasSubstr("tenants.yaml: "));
}

TEST(TenantFileTest, AllMistakesAreNamed) {
  EXPECT_THAT(ErrorOf("tenants:\n  a:\n    weight: 0\n    max_contexts: many\n"
                      "    certificates: [x, {dns: y}]\n  b: 1\nothers: {wait: 1}\nmore: {}\n"),
              AllOf(HasSubstr("line 3: weight"), HasSubstr("line 4: max_contexts"),
                    HasSubstr("a certificate must be a map"), HasSubstr("must have a role"),
                    HasSubstr("line 6: \"b\" must be a map"), HasSubstr("not a field of others"),
                    HasSubstr("line 8: \"more\" is not a section")));
}

}  // namespace
}  // namespace chorale
