#include "tests/support/test_authority.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdint>

#include "gtest/gtest.h"

namespace chorale {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Key NewKey() { return Key(EVP_EC_gen("P-256"), &EVP_PKEY_free); }

template <typename Write>
std::string Pem(Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> bio(BIO_new(BIO_s_mem()), &BIO_free_all);
  EXPECT_EQ(write(bio.get()), 1);
  char* data = nullptr;
  const auto bytes = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, bytes);
}

void AddName(X509_NAME* name, const char* field, const std::string& value) {
  X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(value.c_str()), -1, -1, 0);
}

void AddExtension(X509* certificate, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  ASSERT_NE(extension, nullptr) << value;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// `issuer` null: signed by the key itself.
Certificate Make(const TestSubject& subject, EVP_PKEY* key, const X509* issuer,
                 EVP_PKEY* issuer_key) {
  static int64_t serial = 1;
  Certificate x509(X509_new(), &X509_free);
  X509_set_version(x509.get(), 2);  // version 3
  ASN1_INTEGER_set_int64(X509_get_serialNumber(x509.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(x509.get()), absl::ToInt64Seconds(subject.valid_from));
  X509_gmtime_adj(X509_getm_notAfter(x509.get()), absl::ToInt64Seconds(subject.valid_until));
  X509_set_pubkey(x509.get(), key);
  X509_NAME* name = X509_get_subject_name(x509.get());
  AddName(name, "O", "Tests");
  AddName(name, "CN", subject.common_name);
  X509_set_issuer_name(x509.get(), issuer == nullptr ? name : X509_get_subject_name(issuer));
  if (issuer == nullptr) AddExtension(x509.get(), NID_basic_constraints, "critical,CA:TRUE");
  if (!subject.alternative_names.empty()) {
    AddExtension(x509.get(), NID_subject_alt_name, subject.alternative_names);
  }
  EXPECT_GT(X509_sign(x509.get(), issuer_key, EVP_sha256()), 0);
  return x509;
}

std::string CertificatePem(const X509* x509) {
  return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, x509); });
}

std::string KeyPem(const EVP_PKEY* key) {
  return Pem([&](BIO* bio) {
    return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

}  // namespace

TestPair SelfSigned(const TestSubject& subject) {
  const Key key = NewKey();
  return {CertificatePem(Make(subject, key.get(), nullptr, key.get()).get()), KeyPem(key.get())};
}

TestAuthority::TestAuthority(const std::string& name)
    : key_(NewKey()),
      x509_(Make({name}, key_.get(), nullptr, key_.get())),
      certificate_(CertificatePem(x509_.get())) {}

TestPair TestAuthority::Issue(const TestSubject& subject) const {
  return Issue(subject, NewKey().get());
}

TestPair TestAuthority::Issue(const TestSubject& subject, EVP_PKEY* key) const {
  return {CertificatePem(Make(subject, key, x509_.get(), key_.get()).get()), KeyPem(key)};
}

}  // namespace chorale
