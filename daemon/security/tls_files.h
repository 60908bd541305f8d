// The daemon's certificate, its key and the authority of its clients: read from PEM files, checked,
// and read again when a file changes. Both ports serve what Current() says, connection by
// connection.
//
//   FORESHOCK_ASSIGN_OR_RETURN(std::unique_ptr<TlsFiles> tls, TlsFiles::Open(options, &clock));
//   SSL_new(tls->Current()->context.get());
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"

struct ssl_ctx_st;  // SSL_CTX

namespace foreshock::security {

struct TlsOptions {
  std::string cert_file{};  // PEM, the daemon's certificate first, then the chain; empty: no TLS
  std::string key_file{};   // PEM, without a passphrase
  std::string client_ca_file{};  // PEM; clients must have a certificate of one of these
  // Where they must; only with client_ca_file.
  bool grpc_client_cert = false;
  bool http_client_cert = false;

  bool given() const { return !cert_file.empty(); }
};

// What was read at one moment. Immutable.
struct TlsMaterial {
  std::string cert_chain{};               // PEM
  std::string key{};                      // PEM
  std::string client_ca{};                // PEM; empty: clients are not asked
  absl::Time expires{};                   // of the daemon's own certificate
  std::shared_ptr<ssl_ctx_st> context{};  // for servers: TLS 1.2 and newer, clients not yet asked
};

enum class TlsFile { kCert, kKey, kClientCa };

// Reads and checks the files: parseable, the key is the certificate's, not over 1 MiB each. An
// expired certificate is no error. InvalidArgument, NotFound or PermissionDenied name the file;
// `at_fault` (may be null) says which option it was.
absl::StatusOr<TlsMaterial> ReadTls(const TlsOptions& options, TlsFile* at_fault);

// Thread-safe.
class TlsFiles {
 public:
  // The errors are ReadTls'. `clock` outlives it.
  static absl::StatusOr<std::unique_ptr<TlsFiles>> Open(TlsOptions options,
                                                        const base::Clock* clock);

  // Looks at the files at most once a second, on one of the calling threads, and reads them when
  // one has changed. Files that are wrong, or of which only one has been replaced yet, leave what
  // was there before, are counted and logged.
  std::shared_ptr<const TlsMaterial> Current();
  // Reads them now. After an error what was there before stays.
  absl::Status Reload();

  const TlsOptions& options() const { return options_; }
  absl::Time expires() const;
  uint64_t failures() const;  // changes that could not be taken

 private:
  TlsFiles(TlsOptions options, const base::Clock* clock)
      : options_(std::move(options)), clock_(clock) {}

  std::string Stamp() const;  // differs when one of the files was replaced or written
  absl::Status Take(const std::string& stamp);

  const TlsOptions options_;
  const base::Clock* const clock_;
  mutable base::Mutex mutex_;
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // steady
  std::string stamp_ ABSL_GUARDED_BY(mutex_);                         // of what was tried last
  std::shared_ptr<const TlsMaterial> current_ ABSL_GUARDED_BY(mutex_);
  uint64_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace foreshock::security
