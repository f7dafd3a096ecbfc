#include "server/security/access_control.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// SHA-256 of "secret" and of "other".
constexpr char kSecret[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
constexpr char kOther[] = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

PresentedCredentials Token(const std::string& token) {
  return {{absl::StrCat("Bearer ", token)}, std::nullopt, "10.0.0.1"};
}

PresentedCredentials Certificate(const std::string& dns) {
  return {{}, CertificateNames{"CN=x", {dns}, {}}, "10.0.0.1"};
}

class AccessControlTest : public ::testing::Test {
 protected:
  AccessControlTest() {
    options_.token_file = Path("tokens");
    options_.tenant_file = Path("tenants");
    Write("tokens", absl::StrCat("trainer ", kSecret, " acme register 2027-01-31T00:00:00Z\n"));
    Write("tenants",
          "tenants: {acme: {weight: 2, certificates: [{dns: a.example, role: read}]}}\n");
  }

  std::string Path(const std::string& name) const { return folder_ / name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  void Load() {
    absl::StatusOr<std::unique_ptr<AccessControl>> access = AccessControl::Load(options_);
    ASSERT_TRUE(access.ok()) << access.status();
    access_ = *std::move(access);
  }
  // What it changed and refused, a line each.
  std::string Reload() {
    const AccessControl::Reloaded reloaded = access_->Reload(now_);
    std::vector<std::string> lines;
    for (const LogField& field : reloaded.changes) {
      lines.push_back(absl::StrCat(field.key, ": ", std::get<std::string>(field.value)));
    }
    for (const absl::Status& status : reloaded.refusals) {
      lines.push_back(absl::StrCat("refused: ", status.message()));
    }
    return absl::StrJoin(lines, "\n");
  }
  absl::StatusOr<Caller> Authenticate(const PresentedCredentials& presented) const {
    return access_->Authenticate(presented, now_);
  }

  const TempFolder folder_;
  absl::Time now_ = absl::FromCivil(absl::CivilDay(2027, 1, 30), absl::UTCTimeZone());
  SecurityOptions options_;
  std::unique_ptr<AccessControl> access_;
};

TEST_F(AccessControlTest, WithoutFilesEverybodyMayDoEverything) {
  options_ = {};
  Load();
  EXPECT_FALSE(access_->authenticates());
  const auto caller = Authenticate(Token("whatever"));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->tenant, "default");
  EXPECT_EQ(caller->role, Role::kAdmin);
  EXPECT_EQ(caller->peer_host, "10.0.0.1");
}

TEST_F(AccessControlTest, QuotasAloneAuthenticateNobody) {
  options_.token_file = "";
  Write("tenants", "tenants: {default: {max_contexts: 5}}\n");
  Load();
  const auto caller = Authenticate({});
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->tenant, "default");
  EXPECT_EQ(caller->policy.quotas.contexts, 5);
}

TEST_F(AccessControlTest, ATokenSaysWhoCalls) {
  Load();
  for (const char* scheme : {"Bearer ", "bearer ", "BEARER   "}) {
    const auto caller = Authenticate({{absl::StrCat(scheme, "secret")}, std::nullopt, "10.0.0.1"});
    ASSERT_TRUE(caller.ok()) << caller.status();
    EXPECT_EQ(caller->tenant, "acme");
    EXPECT_EQ(caller->name, "trainer");
    EXPECT_EQ(caller->role, Role::kRegister);
    EXPECT_EQ(caller->policy.weight, 2);
  }
}

TEST_F(AccessControlTest, ACertificateSaysWhoCalls) {
  Load();
  const auto caller = Authenticate(Certificate("a.example"));
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->tenant, "acme");
  EXPECT_EQ(caller->name, "dns:a.example");
  EXPECT_EQ(caller->role, Role::kRead);
}

// "acne" for "acme" would give nobody a quota, without a word.
TEST_F(AccessControlTest, TenantsThatDoNotMatchAreNamed) {
  const auto unmatched = [this] { return FormatText("", access_->UnmatchedTenants()); };
  Load();
  EXPECT_EQ(unmatched(), "");
  Write("tenants", "tenants: {acne: {weight: 2}, beta: {weight: 3}}\n");
  EXPECT_THAT(Reload(),
              HasSubstr("tenants_without_callers: acne,beta\ntenants_without_quota: acme"));
  // Whom the file does not name has the quotas of others.
  Write("tenants", "tenants: {acme: {}}\nothers: {max_contexts: 1}\n");
  Write("tokens", absl::StrCat("trainer ", kSecret, " gamma register\n"));
  EXPECT_THAT(Reload(), AllOf(HasSubstr("tenants_without_callers: acme"),
                              Not(HasSubstr("tenants_without_quota"))));
  // Who has a certificate needs no token.
  Write("tenants", "tenants: {gamma: {}, acme: {certificates: [{dns: a.example, role: read}]}}\n");
  Load();
  EXPECT_THAT(unmatched(),
              HasSubstr("tenants_without_callers=acme"));  // no certificate is asked for
  options_.tls.client_ca = "unread";
  options_.tls.certificate = "";
  Load();
  EXPECT_EQ(unmatched(), "");
  options_ = {};
  options_.tenant_file = Path("tenants");
  Write("tenants", "tenants: {default: {}, acme: {}}\n");
  Load();
  EXPECT_THAT(unmatched(), HasSubstr("tenants_without_callers=acme"));
}

TEST_F(AccessControlTest, AllRefusalsAreTheSame) {
  Load();
  PresentedCredentials wrong_token = Token("wrong");
  wrong_token.certificate = Certificate("a.example").certificate;
  std::set<std::string> answers;
  for (const PresentedCredentials& presented :
       {PresentedCredentials(), Token("wrong"), Token(""), Token(kSecret), wrong_token,
        PresentedCredentials{{"secret"}, std::nullopt, ""},
        PresentedCredentials{{"Basic secret"}, std::nullopt, ""},
        PresentedCredentials{{"Bearer secret", "Bearer secret"}, std::nullopt, ""},
        Certificate("b.example"), Certificate("")}) {
    answers.insert(Authenticate(presented).status().ToString());
  }
  now_ += absl::Hours(24);  // the token's last moment is over
  answers.insert(Authenticate(Token("secret")).status().ToString());
  ASSERT_EQ(answers.size(), 1);
  EXPECT_THAT(*answers.begin(), HasSubstr("UNAUTHENTICATED"));
}

TEST_F(AccessControlTest, ExpiredTokensAreNamedInTheLogAlone) {
  Load();
  EXPECT_TRUE(access_->ExpiredTokens(now_).empty());
  now_ += absl::Hours(24);
  EXPECT_EQ(FormatText("expired", access_->ExpiredTokens(now_)),
            "expired expired_tokens=\"1: trainer\"");
  EXPECT_EQ(access_->Reload(now_).warnings.size(), 1);
  std::string expired;
  EXPECT_FALSE(access_->Authenticate(Token("secret"), now_, &expired).ok());
  EXPECT_EQ(expired, "trainer");
  expired = "";
  EXPECT_FALSE(access_->Authenticate(Token("wrong"), now_, &expired).ok());
  EXPECT_EQ(expired, "");
}

TEST_F(AccessControlTest, OfManyChangesTheFirstAreNamed) {
  Load();
  std::string many;
  for (int i = 10; i < 22; ++i)
    absl::StrAppend(&many, "t", i, " ", i, std::string(62, '0'), " a read\n");
  Write("tokens", many);
  EXPECT_THAT(Reload(), StartsWith("tokens: added t10,t11,t12,t13,t14,t15,t16,t17,t18,t19 and 2 "
                                   "more; removed trainer: 12 now"));
}

TEST_F(AccessControlTest, AReloadTakesTokensAway) {
  Load();
  Write("tokens", absl::StrCat("reader ", kOther, " zeta read\n"));
  EXPECT_TRUE(Authenticate(Token("secret")).ok());
  EXPECT_THAT(Reload(), StartsWith("tokens: added reader; removed trainer: 1 now"));
  EXPECT_FALSE(Authenticate(Token("secret")).ok());
  EXPECT_EQ(Authenticate(Token("other"))->tenant, "zeta");
  EXPECT_EQ(Reload(), "");
}

// As while it is written, or on a full disk.
TEST_F(AccessControlTest, AFileThatHasLostItsEntriesIsRefused) {
  Load();
  for (const char* text : {"", "\n", "# nobody\n"}) {
    Write("tokens", text);
    Write("tenants", text);
    EXPECT_THAT(Reload(),
                AllOf(HasSubstr("refused: "), HasSubstr("tokens: has no entries, but had 1"),
                      HasSubstr("tenants: has no entries, but had 1")));
    EXPECT_TRUE(Authenticate(Token("secret")).ok());
    EXPECT_TRUE(Authenticate(Certificate("a.example")).ok());
  }
  Write("tokens", "# intentionally empty\n");
  Write("tenants", "  # intentionally empty\n");
  EXPECT_THAT(Reload(), AllOf(HasSubstr("tokens: removed trainer: 0 now"),
                              HasSubstr("tenants: removed acme: 0 now")));
  EXPECT_FALSE(Authenticate(Token("secret")).ok());
  Write("tokens", "");
  EXPECT_EQ(Reload(), "") << "it had none";
}

// Of two files, the one that is right is taken over.
TEST_F(AccessControlTest, AFileThatIsWrongLeavesWhatItSaidBefore) {
  Load();
  Write("tokens", absl::StrCat("reader ", kOther, " zeta read\nnonsense\n"));
  Write("tenants", "tenants: {acme: {weight: 3}}\n");
  EXPECT_THAT(Reload(),
              AllOf(HasSubstr("tokens: line 2"), HasSubstr("tenants: changed acme: 1 now")));
  EXPECT_FALSE(Authenticate(Token("other")).ok());
  ASSERT_TRUE(Authenticate(Token("secret")).ok());
  EXPECT_EQ(Authenticate(Token("secret"))->policy.weight, 3);
  EXPECT_FALSE(Authenticate(Certificate("a.example")).ok());
  std::filesystem::remove(Path("tokens"));
  EXPECT_THAT(Reload(), HasSubstr("refused: "));
  EXPECT_THAT(Reload(), HasSubstr("cannot be read"));
  EXPECT_TRUE(Authenticate(Token("secret")).ok());
}

TEST_F(AccessControlTest, AtTheStartEveryFileMustBeRight) {
  Write("tenants", "tenants: {acme: {wait: 3}}\n");
  EXPECT_THAT(std::string(AccessControl::Load(options_).status().message()),
              HasSubstr("\"wait\" is not a field"));
}

TEST(RoleTest, EachRoleIncludesThoseBeforeIt) {
  for (size_t i = 0; i < kMethodNames.size(); ++i) {
    const auto method = static_cast<Method>(i);
    const bool changes = method == Method::kRegisterContext || method == Method::kCreateContext ||
                         method == Method::kAppendRows || method == Method::kDeleteContext;
    EXPECT_EQ(RoleFor(method), changes ? Role::kRegister : Role::kRead) << MethodName(method);
    for (const Role role : {Role::kRead, Role::kRegister, Role::kAdmin}) {
      Caller caller;
      caller.role = role;
      EXPECT_EQ(AccessControl::Authorize(caller, method).ok(), role >= RoleFor(method));
    }
  }
  Caller reader;
  reader.role = Role::kRead;
  EXPECT_EQ(AccessControl::Authorize(reader, Method::kDeleteContext),
            absl::PermissionDeniedError("DeleteContext requires the role register; the caller "
                                        "has the role read"));
  EXPECT_EQ(AccessControl::Authorize(reader, "the field", Role::kRegister),
            absl::PermissionDeniedError("the field requires the role register; the caller has the "
                                        "role read"));
  reader.role = Role::kRegister;
  EXPECT_TRUE(AccessControl::Authorize(reader, "the field", Role::kRegister).ok());
}

}  // namespace
}  // namespace chorale
