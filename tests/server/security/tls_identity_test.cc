#include "server/security/tls_identity.h"

#include <filesystem>
#include <fstream>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_authority.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TlsIdentityTest : public ::testing::Test {
 protected:
  TlsIdentityTest() : files_{Path("crt"), Path("key"), Path("ca")} {
    Write("ca", authority_.certificate());
    Put(authority_.IssueServer());
  }

  std::string Path(const std::string& name) const { return folder_ / name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
  }
  void Put(const TestPair& pair) const {
    Write("crt", pair.certificate);
    Write("key", pair.key);
  }
  std::string LoadError() const {
    return std::string(TlsIdentity::Load(files_).status().message());
  }

  const TestAuthority authority_{"authority"};
  const TempFolder folder_;
  const TlsFiles files_;
};

TEST_F(TlsIdentityTest, ReadsWhatTheFilesHold) {
  const auto identity = TlsIdentity::Load(files_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  int64_t version = 0;
  EXPECT_EQ((*identity)->content(&version).client_ca, authority_.certificate());
  EXPECT_EQ(version, 1);
  EXPECT_TRUE((*identity)->asks_for_client_certificates());
  EXPECT_NEAR(absl::ToDoubleSeconds((*identity)->expires() - absl::Now()), 24 * 3600, 60);
}

TEST_F(TlsIdentityTest, AReloadTakesOverAWholePairOrNothing) {
  const auto identity = TlsIdentity::Load(files_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  int64_t version = 0;
  const TlsIdentity::Content first = (*identity)->content(&version);
  EXPECT_EQ((*identity)->Reload(absl::Now()).value(), false);
  (*identity)->content(&version);
  EXPECT_EQ(version, 1) << "nothing has changed";

  const TestPair next = authority_.IssueServer();
  Write("crt", next.certificate);  // its key is not there yet
  EXPECT_THAT(std::string((*identity)->Reload(absl::Now()).status().message()),
              HasSubstr("does not match the certificate in"));
  EXPECT_EQ((*identity)->content(&version), first);
  EXPECT_EQ(version, 1);

  Write("key", next.key);
  EXPECT_EQ((*identity)->Reload(absl::Now()).value(), true);
  EXPECT_EQ((*identity)->content(&version).certificate, next.certificate);
  EXPECT_FALSE((*identity)->content().serial.empty());
  EXPECT_EQ(version, 2);
}

TEST_F(TlsIdentityTest, AChainThatIsNotValidReplacesNoneThatIs) {
  const auto identity = TlsIdentity::Load(files_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  const std::string first = (*identity)->content().certificate;
  const TestPair expired = authority_.Issue({.common_name = "server",
                                             .alternative_names = "IP:127.0.0.1",
                                             .valid_until = absl::Hours(-1)});
  const TestPair pair = authority_.IssueServer();
  const TestPair chain = {pair.certificate + expired.certificate, pair.key};
  for (const TestPair& wrong : {expired, chain}) {
    Put(wrong);
    EXPECT_THAT(std::string((*identity)->Reload(absl::Now()).status().message()),
                AllOf(HasSubstr(Path("crt")), HasSubstr("but not now")));
    EXPECT_EQ((*identity)->content().certificate, first);
  }
  // Neither is valid: the newer one is at least what the operator wants.
  Put(expired);
  EXPECT_EQ((*identity)->Reload(absl::Now() + absl::Hours(48)).value(), true);
  EXPECT_EQ((*identity)->content().certificate, expired.certificate);
  Put(pair);
  EXPECT_EQ((*identity)->Reload(absl::Now()).value(), true);
  EXPECT_TRUE(TlsIdentity::Load(files_).ok());
}

TEST_F(TlsIdentityTest, ExpiresWithTheFirstOfAllCertificates) {
  const TestPair leaf = authority_.Issue({.common_name = "server",
                                          .alternative_names = "IP:127.0.0.1",
                                          .valid_until = absl::Hours(10)});
  const TestPair intermediate =
      authority_.Issue({.common_name = "intermediate", .valid_until = absl::Hours(5)});
  const TestPair authority =
      authority_.Issue({.common_name = "clients", .valid_until = absl::Hours(3)});
  const auto hours = [this] {
    return absl::ToDoubleHours((*TlsIdentity::Load(files_))->expires() - absl::Now());
  };
  Put(leaf);
  EXPECT_NEAR(hours(), 10, 0.1);
  Put({leaf.certificate + intermediate.certificate, leaf.key});
  EXPECT_NEAR(hours(), 5, 0.1);
  Write("ca", authority_.certificate() + authority.certificate);
  EXPECT_NEAR(hours(), 3, 0.1);
}

// The certificate and its key are of each other, but no TLS library connects with them.
TEST_F(TlsIdentityTest, APairThatNoClientCanUseIsRefused) {
  const auto put = [&](EVP_PKEY* made) {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(made, &EVP_PKEY_free);
    Put(authority_.Issue({"server", "IP:127.0.0.1"}, key.get()));
  };
  const auto identity = TlsIdentity::Load(files_);
  ASSERT_TRUE(identity.ok()) << identity.status();
  const std::string first = (*identity)->content().certificate;
  for (EVP_PKEY* const unusable : {EVP_RSA_gen(1024), EVP_EC_gen("secp256k1")}) {
    put(unusable);
    EXPECT_THAT(LoadError(),
                AllOf(HasSubstr(Path("crt") + ": no client can connect"), HasSubstr(Path("key"))));
    EXPECT_FALSE((*identity)->Reload(absl::Now()).ok());
    EXPECT_EQ((*identity)->content().certificate, first);
  }
  for (EVP_PKEY* const usable :
       {EVP_RSA_gen(2048), EVP_EC_gen("P-384"), EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")}) {
    put(usable);
    EXPECT_EQ(LoadError(), "");
  }
}

TEST_F(TlsIdentityTest, ErrorsNameTheFile) {
  const TestPair pair = authority_.IssueServer();
  const auto expect = [&](const std::string& name, const std::string& text,
                          const std::string& what) {
    Put(pair);
    Write("ca", authority_.certificate());
    Write(name, text);
    EXPECT_THAT(LoadError(), AllOf(HasSubstr(Path(name)), HasSubstr(what))) << name << what;
  };
  expect("crt", "", "contains no PEM certificate");
  expect("crt", pair.key, "contains no PEM certificate");
  expect("crt", pair.certificate + "-----BEGIN CERTIFICATE-----\nAAAA\n", "cannot be parsed");
  expect("key", "", "contains no PEM private key");
  expect("key", authority_.IssueServer().key, "does not match the certificate in");
  expect("ca", "nothing", "contains no PEM certificate");
  Put(pair);
  Write("ca", authority_.certificate());
  EXPECT_EQ(LoadError(), "");
  std::filesystem::remove(Path("key"));
  EXPECT_THAT(LoadError(), AllOf(HasSubstr(Path("key")), HasSubstr("cannot be read")));
}

}  // namespace
}  // namespace chorale
