#include "daemon/security/tls_files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/base/file.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"

namespace foreshock::security {
namespace {

constexpr size_t kPemBytesMax = 1u << 20;
constexpr absl::Duration kLookInterval = absl::Seconds(1);

template <auto free_function>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    free_function(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<&BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<&X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<&EVP_PKEY_free>>;

absl::Status Wrong(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// What the library says of its last failure; says nothing of the content.
std::string LibraryReason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return reason == nullptr ? "" : absl::StrCat(" (", reason, ")");
}

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  FORESHOCK_ASSIGN_OR_RETURN(std::string text, base::ReadFile(path, kPemBytesMax));
  if (text.empty()) return Wrong(path, "is empty");
  return text;
}

Bio MemoryOf(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// All certificates of the text, at least one.
absl::StatusOr<std::vector<Certificate>> Certificates(const std::string& path,
                                                      const std::string& text) {
  const Bio memory = MemoryOf(text);
  std::vector<Certificate> certificates;
  while (X509* certificate = PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(certificate);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = LibraryReason();
  if (certificates.empty() || !at_end) {
    return Wrong(path, absl::StrCat("no certificate in PEM could be read at its place number ",
                                    certificates.size() + 1, reason));
  }
  return certificates;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return absl::InfinitePast();
  return absl::FromTM(fields, absl::UTCTimeZone());
}

// A key with a passphrase has nobody to ask.
int NoPassphrase(char*, int, int, void*) { return 0; }

}  // namespace

absl::StatusOr<TlsMaterial> ReadTls(const TlsOptions& options, TlsFile* at_fault) {
  TlsFile unused;
  TlsFile& file = at_fault == nullptr ? unused : *at_fault;
  TlsMaterial material;
  ERR_clear_error();
  material.context.reset(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX* const context = material.context.get();
  if (context == nullptr) return absl::InternalError(absl::StrCat("TLS", LibraryReason()));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Sessions are not resumed: what a client may do is judged anew with each connection.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);

  file = TlsFile::kCert;
  FORESHOCK_ASSIGN_OR_RETURN(material.cert_chain, ReadPem(options.cert_file));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<Certificate> chain,
                             Certificates(options.cert_file, material.cert_chain));
  material.expires = TimeOf(X509_get0_notAfter(chain[0].get()));
  if (SSL_CTX_use_certificate(context, chain[0].get()) != 1) {
    return Wrong(options.cert_file, absl::StrCat("cannot be used", LibraryReason()));
  }
  for (size_t i = 1; i < chain.size(); ++i) SSL_CTX_add1_chain_cert(context, chain[i].get());

  file = TlsFile::kKey;
  FORESHOCK_ASSIGN_OR_RETURN(material.key, ReadPem(options.key_file));
  const Bio key_text = MemoryOf(material.key);
  const Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, &NoPassphrase, nullptr));
  if (key == nullptr) {
    return Wrong(options.key_file,
                 absl::StrCat("no private key in PEM without a passphrase", LibraryReason()));
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return Wrong(options.key_file, absl::StrCat("is not the key of the certificate in ",
                                                options.cert_file, LibraryReason()));
  }

  if (options.client_ca_file.empty()) return material;
  file = TlsFile::kClientCa;
  FORESHOCK_ASSIGN_OR_RETURN(material.client_ca, ReadPem(options.client_ca_file));
  FORESHOCK_ASSIGN_OR_RETURN(const std::vector<Certificate> authorities,
                             Certificates(options.client_ca_file, material.client_ca));
  for (const Certificate& authority : authorities) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get());
    SSL_CTX_add_client_CA(context, authority.get());
  }
  return material;
}

absl::StatusOr<std::unique_ptr<TlsFiles>> TlsFiles::Open(TlsOptions options,
                                                         const base::Clock* clock) {
  std::unique_ptr<TlsFiles> files(new TlsFiles(std::move(options), clock));
  FORESHOCK_RETURN_IF_ERROR(files->Reload());
  return files;
}

std::string TlsFiles::Stamp() const {
  std::string stamp;
  for (const std::string* path :
       {&options_.cert_file, &options_.key_file, &options_.client_ca_file}) {
    struct stat found {};
    if (path->empty() || stat(path->c_str(), &found) != 0) {
      absl::StrAppend(&stamp, "-;");
      continue;
    }
    absl::StrAppend(&stamp, found.st_dev, ",", found.st_ino, ",", found.st_size, ",",
                    found.st_mtim.tv_sec, ".", found.st_mtim.tv_nsec, ";");
  }
  return stamp;
}

// Reads without the lock: who connects meanwhile gets what there was before.
absl::Status TlsFiles::Take(const std::string& stamp) {
  absl::StatusOr<TlsMaterial> fresh = ReadTls(options_, nullptr);
  const absl::Status read = fresh.status();
  const absl::Time expires = read.ok() ? fresh->expires : absl::Time();
  {
    base::MutexLock lock(&mutex_);
    stamp_ = stamp;
    if (read.ok()) current_ = std::make_shared<const TlsMaterial>(*std::move(fresh));
  }
  if (!read.ok()) return base::Annotate(read, "TLS");
  const std::string until = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", expires, absl::UTCTimeZone());
  if (expires <= clock_->Now()) {
    base::LogError("tls", "the certificate has expired: clients will refuse it",
                   {{"file", options_.cert_file}, {"expired", until}});
  } else {
    base::LogInfo("tls", "certificate read", {{"file", options_.cert_file}, {"expires", until}});
  }
  return absl::OkStatus();
}

std::shared_ptr<const TlsMaterial> TlsFiles::Current() {
  const absl::Time now = clock_->Steady();
  std::string tried;
  {
    base::MutexLock lock(&mutex_);
    if (now - looked_ < kLookInterval) return current_;
    looked_ = now;
    tried = stamp_;
  }
  const std::string stamp = Stamp();  // before reading: what changes meanwhile is seen next time
  absl::Status status;
  if (stamp != tried) status = Take(stamp);
  if (!status.ok()) {
    base::LogEvery("tls.reload", base::LogLevel::kError, "tls",
                   "the changed files cannot be used; the certificate before them stays",
                   {{"reason", std::string(status.message())}});
  }
  base::MutexLock lock(&mutex_);
  if (!status.ok()) ++failures_;
  return current_;
}

absl::Status TlsFiles::Reload() { return Take(Stamp()); }

absl::Time TlsFiles::expires() const {
  base::MutexLock lock(&mutex_);
  return current_->expires;
}

uint64_t TlsFiles::failures() const {
  base::MutexLock lock(&mutex_);
  return failures_;
}

}  // namespace foreshock::security
