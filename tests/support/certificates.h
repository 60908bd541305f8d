// Certificates for tests: real ones, made on the spot. Link OpenSSL::Crypto.
//
//   const TestCertificate ca = MakeCertificate("ca");
//   const TestCertificate server = MakeCertificate("localhost", {.issuer = &ca});
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <memory>
#include <string>

#include "daemon/base/check.h"

namespace foreshock::support {

struct TestCertificate {
  std::string cert{};  // PEM
  std::string key{};   // PEM, without a passphrase
};

struct CertificateOptions {
  const TestCertificate* issuer = nullptr;  // null: its own
  long not_before_s = -3600;                // from now
  long not_after_s = 3600;
};

namespace test_certificates {

inline std::string TextOf(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  return std::string(data, static_cast<size_t>(size));
}

template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

inline Owned<BIO> Memory(const std::string& text = "") {
  BIO* const memory = text.empty() ? BIO_new(BIO_s_mem())
                                   : BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
  return {memory, [](BIO* bio) { BIO_free(bio); }};
}

}  // namespace test_certificates

// `name` is its common name and its DNS name; also good for 127.0.0.1. A P-256 key.
inline TestCertificate MakeCertificate(const std::string& name,
                                       const CertificateOptions& options = {}) {
  using test_certificates::Memory;
  using test_certificates::Owned;
  using test_certificates::TextOf;
  const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Owned<X509> cert(X509_new(), X509_free);
  FORESHOCK_CHECK(key != nullptr && cert != nullptr);
  static long serial = 0;
  X509_set_version(cert.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), options.not_before_s);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), options.not_after_s);
  X509_set_pubkey(cert.get(), key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.data()),
                             static_cast<int>(name.size()), -1, 0);
  const auto extend = [&cert](int id, const std::string& value) {
    const Owned<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str()),
                                          X509_EXTENSION_free);
    FORESHOCK_CHECK(extension != nullptr);
    X509_add_ext(cert.get(), extension.get(), -1);
  };
  extend(NID_subject_alt_name, "DNS:" + name + ",IP:127.0.0.1");
  if (options.issuer == nullptr) extend(NID_basic_constraints, "critical,CA:TRUE");

  Owned<X509> issuer(nullptr, X509_free);
  Owned<EVP_PKEY> issuer_key(nullptr, EVP_PKEY_free);
  if (options.issuer != nullptr) {
    issuer.reset(PEM_read_bio_X509(Memory(options.issuer->cert).get(), nullptr, nullptr, nullptr));
    issuer_key.reset(
        PEM_read_bio_PrivateKey(Memory(options.issuer->key).get(), nullptr, nullptr, nullptr));
    FORESHOCK_CHECK(issuer != nullptr && issuer_key != nullptr);
  }
  const X509* const signer = issuer == nullptr ? cert.get() : issuer.get();
  X509_set_issuer_name(cert.get(), X509_get_subject_name(signer));
  FORESHOCK_CHECK(X509_sign(cert.get(), issuer_key == nullptr ? key.get() : issuer_key.get(),
                            EVP_sha256()) > 0);

  const Owned<BIO> cert_text = Memory();
  const Owned<BIO> key_text = Memory();
  PEM_write_bio_X509(cert_text.get(), cert.get());
  PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {TextOf(cert_text.get()), TextOf(key_text.get())};
}

// The same key under a passphrase.
inline std::string WithPassphrase(const std::string& key_pem) {
  using namespace test_certificates;  // NOLINT(google-build-using-namespace): of this file
  const Owned<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(Memory(key_pem).get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  const Owned<BIO> text = Memory();
  unsigned char passphrase[] = "secret";
  PEM_write_bio_PrivateKey(text.get(), key.get(), EVP_aes_128_cbc(), passphrase, 6, nullptr,
                           nullptr);
  return TextOf(text.get());
}

inline void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

}  // namespace foreshock::support
