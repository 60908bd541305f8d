// HTTP over TLS: tests/unit/security has what is read from which files.
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/http/server.h"
#include "tests/support/certificates.h"
#include "tests/support/fake_clock.h"
#include "tests/support/http_client.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace foreshock::http {
namespace {

using ::testing::HasSubstr;

struct TlsReply {
  int status = 0;           // 0: no answer
  std::string text;         // all of it
  std::string common_name;  // of the server's certificate
};

// A client that trusts `ca` and shows `own`, if given.
class TlsPeer {
 public:
  TlsPeer(const std::string& address, const support::TestCertificate& ca,
          const support::TestCertificate* own = nullptr)
      : peer_(address),
        context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free),
        ssl_(nullptr, SSL_free) {
    using support::test_certificates::Memory;
    using support::test_certificates::Owned;
    const Owned<X509> authority(PEM_read_bio_X509(Memory(ca.cert).get(), nullptr, nullptr, nullptr),
                                X509_free);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), authority.get());
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    if (own != nullptr) {
      const Owned<X509> cert(PEM_read_bio_X509(Memory(own->cert).get(), nullptr, nullptr, nullptr),
                             X509_free);
      const Owned<EVP_PKEY> key(
          PEM_read_bio_PrivateKey(Memory(own->key).get(), nullptr, nullptr, nullptr),
          EVP_PKEY_free);
      SSL_CTX_use_certificate(context_.get(), cert.get());
      SSL_CTX_use_PrivateKey(context_.get(), key.get());
    }
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), peer_.fd());
    SSL_set1_host(ssl_.get(), "127.0.0.1");
    greeted_ = peer_.connected() && SSL_connect(ssl_.get()) == 1;
  }

  bool greeted() const { return greeted_; }

  // One answer; the connection stays open.
  TlsReply Call(const std::string& request) {
    TlsReply reply;
    if (!greeted_ || SSL_write(ssl_.get(), request.data(), static_cast<int>(request.size())) <= 0) {
      return reply;
    }
    size_t bytes = std::string::npos;  // with the headers, once they are known
    while (reply.text.size() < bytes) {
      char chunk[16384];
      const int got = SSL_read(ssl_.get(), chunk, sizeof(chunk));
      if (got <= 0) break;
      reply.text.append(chunk, static_cast<size_t>(got));
      const size_t end = reply.text.find("\r\n\r\n");
      const size_t length = reply.text.find("Content-Length: ");
      size_t body = 0;
      if (end == std::string::npos || length == std::string::npos) continue;
      const size_t from = length + 16;
      if (absl::SimpleAtoi(reply.text.substr(from, reply.text.find('\r', from) - from), &body)) {
        bytes = end + 4 + body;
      }
    }
    if (reply.text.size() > 12 && !absl::SimpleAtoi(reply.text.substr(9, 3), &reply.status))
      return {};
    const support::test_certificates::Owned<X509> cert(SSL_get1_peer_certificate(ssl_.get()),
                                                       X509_free);
    char name[256] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(cert.get()), NID_commonName, name,
                              sizeof(name));
    reply.common_name = name;
    return reply;
  }

 private:
  support::HttpPeer peer_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  bool greeted_ = false;
};

const char kGet[] = "GET /echo HTTP/1.1\r\nHost: t\r\n\r\n";

class HttpTlsTest : public ::testing::Test {
 protected:
  void StartWith(HttpOptions options, bool client_cert = false) {
    options.listen = "127.0.0.1:0";
    Serve(server_cert_);
    security::TlsOptions tls{.cert_file = dir_.File("pem"), .key_file = dir_.File("key")};
    if (client_cert) {
      support::WriteFile(dir_.File("ca"), ca_.cert);
      tls.client_ca_file = dir_.File("ca");
      tls.http_client_cert = true;
    }
    ASSERT_OK_AND_ASSIGN(tls_, security::TlsFiles::Open(tls, &clock_));
    server_ = std::make_unique<HttpServer>(options, tls_.get());
    server_->Handle("GET", "/echo",
                    [](const HttpRequest&) { return HttpResponse{.body = "here"}; });
    server_->Handle("POST", "/echo",
                    [](const HttpRequest& request) { return HttpResponse{.body = request.body}; });
    server_->Handle("GET", "/large", [](const HttpRequest&) {
      return HttpResponse{.body = std::string(4 << 20, 'x')};
    });
    ASSERT_OK_AND_ASSIGN(address_, server_->Start());
  }
  void Serve(const support::TestCertificate& pair) {
    support::WriteFile(dir_.File("key"), pair.key);
    support::WriteFile(dir_.File("pem"), pair.cert);
  }

  const support::TempDir dir_;
  support::FakeClock clock_;
  const support::TestCertificate ca_ = support::MakeCertificate("ca");
  const support::TestCertificate server_cert_ = support::MakeCertificate("first", {.issuer = &ca_});
  std::unique_ptr<security::TlsFiles> tls_;
  std::unique_ptr<HttpServer> server_;
  std::string address_;
};

TEST_F(HttpTlsTest, AnswersWholeRequestsOverOneConnection) {
  StartWith({});
  TlsPeer peer(address_, ca_);
  ASSERT_TRUE(peer.greeted());
  EXPECT_THAT(peer.Call(kGet).text, HasSubstr("here"));
  EXPECT_THAT(peer.Call("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello").text,
              HasSubstr("hello"));
  EXPECT_GT(peer.Call("GET /large HTTP/1.1\r\nHost: t\r\n\r\n").text.size(), size_t{4} << 20);
}

TEST_F(HttpTlsTest, WhoTrustsAnotherAuthorityDoesNotConnect) {
  StartWith({});
  EXPECT_FALSE(TlsPeer(address_, support::MakeCertificate("other")).greeted());
}

TEST_F(HttpTlsTest, PlainRequestsAreNotAnswered) {
  StartWith({});
  EXPECT_EQ(support::HttpGet(address_, "/echo").status, 0);
  EXPECT_EQ(server_->stats().requests, 0u);
}

TEST_F(HttpTlsTest, WhereClientCertificatesAreRequiredOnlyThoseOfTheAuthorityGetAnAnswer) {
  StartWith({}, /*client_cert=*/true);
  const support::TestCertificate good = support::MakeCertificate("client", {.issuer = &ca_});
  const support::TestCertificate stranger = support::MakeCertificate("client");
  const support::TestCertificate expired = support::MakeCertificate(
      "client", {.issuer = &ca_, .not_before_s = -7200, .not_after_s = -3600});
  EXPECT_EQ(TlsPeer(address_, ca_).Call(kGet).status, 0);
  EXPECT_EQ(TlsPeer(address_, ca_, &stranger).Call(kGet).status, 0);
  EXPECT_EQ(TlsPeer(address_, ca_, &expired).Call(kGet).status, 0);
  EXPECT_EQ(server_->stats().requests, 0u);
  EXPECT_EQ(TlsPeer(address_, ca_, &good).Call(kGet).status, 200);
}

TEST_F(HttpTlsTest, NewConnectionsGetTheNewCertificateAndOpenOnesGoOn) {
  StartWith({});
  TlsPeer open(address_, ca_);
  EXPECT_EQ(open.Call(kGet).common_name, "first");
  Serve(support::MakeCertificate("second", {.issuer = &ca_}));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(TlsPeer(address_, ca_).Call(kGet).common_name, "second");
  const TlsReply reply = open.Call(kGet);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.common_name, "first");
}

TEST_F(HttpTlsTest, AHandshakeThatDoesNotComeEndsAtTheIdleTimeout) {
  StartWith({.threads = 1, .idle_timeout = absl::Seconds(1)});
  support::HttpPeer half(address_);
  ASSERT_TRUE(half.Send("\x16\x03\x01"));  // the beginning of a greeting
  EXPECT_EQ(TlsPeer(address_, ca_).Call(kGet).status, 200);
  EXPECT_TRUE(half.AtEnd());
}

}  // namespace
}  // namespace foreshock::http
