#include "daemon/rpc/server_credentials.h"

#include <string>

#include "daemon/base/check.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security.h"

namespace foreshock::rpc {
namespace {

// gRPC's C++ interface has a fixed certificate, or files that it reads by itself and hands on
// without a look at whether key and certificate belong together. Its C interface asks for the
// certificate at each handshake.
class RotatingCredentials final : public grpc::ServerCredentials {
 public:
  explicit RotatingCredentials(security::TlsFiles* tls) : tls_(tls) {
    const auto asked = tls->options().grpc_client_cert
                           ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                           : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(asked, &Fetch, this));
    FORESHOCK_CHECK(credentials_ != nullptr);
  }
  ~RotatingCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    FORESHOCK_CHECK(false);  // tokens are judged by each service
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // gRPC asks one at a time.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<RotatingCredentials*>(self)->Fetch(config);
  }
  grpc_ssl_certificate_config_reload_status Fetch(grpc_ssl_server_certificate_config** config) {
    std::shared_ptr<const security::TlsMaterial> material = tls_->Current();
    if (material == given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {material->key.c_str(), material->cert_chain.c_str()};
    // gRPC wants some authorities also where no client is asked and nothing is judged by them.
    const std::string& authorities =
        material->client_ca.empty() ? material->cert_chain : material->client_ca;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    given_ = std::move(material);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  security::TlsFiles* const tls_;
  std::shared_ptr<const security::TlsMaterial> given_;
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(security::TlsFiles* tls) {
  return std::make_shared<RotatingCredentials>(tls);
}

}  // namespace foreshock::rpc
