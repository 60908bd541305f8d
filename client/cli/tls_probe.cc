#include "client/cli/tls_probe.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace foreshock::cli {
namespace {

constexpr char kSystemAuthorities[] = "/etc/ssl/certs/ca-certificates.crt";

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

struct HostAndPort {
  std::string host;
  std::string port;
};

HostAndPort SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return {std::string(host), colon == std::string::npos ? "" : address.substr(colon + 1)};
}

// Connected, with the timeout on every call; -1: nobody there.
int ConnectTo(const HostAndPort& at, absl::Duration timeout) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &found) != 0) return -1;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  const timeval limit = absl::ToTimeval(timeout);
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    const int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, info->ai_protocol);
    if (fd < 0) continue;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, info->ai_addr, info->ai_addrlen) == 0) return fd;
    close(fd);
  }
  return -1;
}

std::string NameText(const X509_NAME* name) {
  char text[256] = "";
  X509_NAME_oneline(name, text, sizeof(text));
  return text;
}

std::string DayOf(const ASN1_TIME* time) {
  tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return "an unknown day";
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::FromTM(fields, absl::UTCTimeZone()),
                          absl::UTCTimeZone());
}

bool Names(X509* certificate, const std::string& host) {
  unsigned char numeric[sizeof(in6_addr)];
  if (inet_pton(AF_INET, host.c_str(), numeric) == 1 ||
      inet_pton(AF_INET6, host.c_str(), numeric) == 1) {
    return X509_check_ip_asc(certificate, host.c_str(), 0) == 1;
  }
  return X509_check_host(certificate, host.c_str(), host.size(), 0, nullptr) == 1;
}

TlsFault JudgeCertificate(SSL* tls, X509* certificate, const Credentials& credentials,
                          const std::string& host) {
  const long verdict = SSL_get_verify_result(tls);  // NOLINT(google-runtime-int): the library's
  switch (verdict) {
    case X509_V_OK:
      break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return {absl::StrCat("the daemon's certificate has expired on ",
                           DayOf(X509_get0_notAfter(certificate))),
              "put a new one in the place of tls.cert_file and tls.key_file; the daemon takes it "
              "within seconds"};
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return {absl::StrCat("the daemon's certificate is valid only from ",
                           DayOf(X509_get0_notBefore(certificate))),
              "is this machine's clock right?"};
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return {absl::StrCat("the daemon's certificate is of another CA: it is signed by ",
                           NameText(X509_get_issuer_name(certificate)), ", which ",
                           credentials.ca_file, " does not vouch for"),
              "give the CA that signed it with --ca-file or FORESHOCK_CA_FILE"};
    default:
      return {absl::StrCat("the daemon's certificate is not accepted: ",
                           X509_verify_cert_error_string(verdict)),
              "mend the certificate, or give its CA with --ca-file"};
  }
  if (Names(certificate, host)) return {};
  return {absl::StrCat("the daemon's certificate is not for ", host, ": its subject is ",
                       NameText(X509_get_subject_name(certificate))),
          "give the name that is in it with --server-name, or make one with this address in its "
          "subjectAltName"};
}

bool HasExpired(const std::string& cert_file) {
  const std::unique_ptr<BIO, int (*)(BIO*)> file(BIO_new_file(cert_file.c_str(), "r"), BIO_free);
  if (file == nullptr) return false;
  const std::unique_ptr<X509, void (*)(X509*)> certificate(
      PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), X509_free);
  return certificate != nullptr && X509_cmp_current_time(X509_get0_notAfter(certificate.get())) < 0;
}

// Why the daemon did not go on. It may say so, or just hang up (gRPC does).
TlsFault JudgeRefusal(const Credentials& credentials, bool asked_for_certificate) {
  const int reason = ERR_GET_REASON(ERR_peek_last_error());
  const char* const text = ERR_reason_error_string(ERR_peek_last_error());
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
      reason == SSL_R_HTTP_REQUEST) {
    return {"the daemon does not speak TLS here",
            "leave --ca-file and FORESHOCK_CA_FILE away, or set tls in its configuration"};
  }
  if (!asked_for_certificate) {
    return {absl::StrCat("the daemon ends the handshake of TLS: ",
                         text == nullptr ? "it hangs up" : text),
            "look at the daemon's log"};
  }
  const char* const mend = "give one of its CA with --cert-file and --key-file";
  if (credentials.cert_file.empty()) {
    return {"the daemon asks for a client certificate and none was given", mend};
  }
  if (HasExpired(credentials.cert_file)) {
    return {absl::StrCat("the certificate in ", credentials.cert_file, " has expired"), mend};
  }
  return {absl::StrCat("the daemon does not accept the certificate in ", credentials.cert_file,
                       ": its CA is not the one of tls.client_ca_file"),
          mend};
}

}  // namespace

std::string ResolveHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
  char text[NI_MAXHOST] = "";
  getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

TlsFault ProbeTls(const std::string& address, const Credentials& credentials,
                  absl::Duration timeout) {
  const bool wanted = !credentials.ca_file.empty();
  const HostAndPort at = SplitAddress(address);
  const Socket peer(ConnectTo(at, timeout));
  if (peer.fd() < 0) return {};
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);  // judged below, in words
  if (wanted) {
    const bool system = credentials.ca_file == "system";
    SSL_CTX_load_verify_file(context.get(),
                             system ? kSystemAuthorities : credentials.ca_file.c_str());
  }
  if (!credentials.cert_file.empty() &&
      (SSL_CTX_use_certificate_chain_file(context.get(), credentials.cert_file.c_str()) != 1 ||
       SSL_CTX_use_PrivateKey_file(context.get(), credentials.key_file.c_str(), SSL_FILETYPE_PEM) !=
           1)) {
    return {absl::StrCat("the certificate in ", credentials.cert_file, " and the key in ",
                         credentials.key_file, " cannot be used together"),
            "give a PEM certificate with --cert-file and its key with --key-file"};
  }
  const std::unique_ptr<SSL, void (*)(SSL*)> tls(SSL_new(context.get()), SSL_free);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(tls.get(), kHttp2, sizeof(kHttp2));
  bool asked_for_certificate = false;
  SSL_set_cert_cb(
      tls.get(),
      [](SSL*, void* asked) {
        *static_cast<bool*>(asked) = true;
        return 1;
      },
      &asked_for_certificate);
  const std::string& name = credentials.server_name.empty() ? at.host : credentials.server_name;
  SSL_set_tlsext_host_name(tls.get(), name.c_str());
  SSL_set_fd(tls.get(), peer.fd());
  ERR_clear_error();
  const bool greeted = SSL_connect(tls.get()) == 1;
  if (!wanted) {
    if (!greeted) return {};
    return {"the daemon speaks TLS, and this program was not told to",
            "give the CA of its certificate with --ca-file or FORESHOCK_CA_FILE"};
  }
  if (!greeted) return JudgeRefusal(credentials, asked_for_certificate);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(SSL_get1_peer_certificate(tls.get()),
                                                           X509_free);
  TlsFault fault = JudgeCertificate(tls.get(), certificate.get(), credentials, name);
  if (!fault.detail.empty()) return fault;
  // With TLS 1.3 what the daemon thinks of our certificate comes after the handshake; HTTP/2 begins
  // with its settings.
  char byte = 0;
  ERR_clear_error();
  const int got = SSL_read(tls.get(), &byte, 1);
  if (got == 1) return {};
  const bool silent = SSL_get_error(tls.get(), got) == SSL_ERROR_WANT_READ;
  return silent ? TlsFault{} : JudgeRefusal(credentials, asked_for_certificate);
}

}  // namespace foreshock::cli
