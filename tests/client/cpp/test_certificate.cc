#include "tests/client/cpp/test_certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

#include "gtest/gtest.h"

namespace chorale::client {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;

std::string Text(const Bio& bio) {
  char* data = nullptr;
  const auto bytes = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, bytes);
}

}  // namespace

TestCertificate MakeTestCertificate(const std::string& address, int from_day, int until_day) {
  constexpr int kDay = 24 * 60 * 60;
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> x509(X509_new(), &X509_free);
  X509_set_version(x509.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509.get()), from_day * kDay);
  X509_gmtime_adj(X509_getm_notAfter(x509.get()), until_day * kDay);
  X509_set_pubkey(x509.get(), key.get());
  X509_NAME* name = X509_get_subject_name(x509.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(address.c_str()), -1, -1, 0);
  X509_set_issuer_name(x509.get(), name);
  X509V3_CTX context;
  X509V3_set_ctx(&context, x509.get(), x509.get(), nullptr, nullptr, 0);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, &context, NID_subject_alt_name, ("IP:" + address).c_str());
  X509_add_ext(x509.get(), names, -1);
  X509_EXTENSION_free(names);
  EXPECT_GT(X509_sign(x509.get(), key.get(), EVP_sha256()), 0);

  const Bio certificate(BIO_new(BIO_s_mem()), &BIO_free_all);
  const Bio secret(BIO_new(BIO_s_mem()), &BIO_free_all);
  EXPECT_EQ(PEM_write_bio_X509(certificate.get(), x509.get()), 1);
  EXPECT_EQ(
      PEM_write_bio_PrivateKey(secret.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
  return {.certificate = Text(certificate), .key = Text(secret)};
}

}  // namespace chorale::client
