#include "client/cpp/src/channel.h"

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "daemon/base/file.h"
#include "daemon/base/status_macros.h"

namespace foreshock::client_internal {
namespace {

constexpr size_t kFileBytesMax = 1u << 20;
constexpr absl::string_view kSystem = "system";
constexpr char kSystemAuthorities[] = "/etc/ssl/certs/ca-certificates.crt";

// `what` names the option.
absl::StatusOr<std::string> ReadWhole(absl::string_view what, const std::string& path) {
  FORESHOCK_ASSIGN_OR_RETURN(std::string text,
                             base::ReadFile(path, kFileBytesMax, absl::StrCat(what, " ")));
  if (text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(what, " ", path, ": is empty"));
  }
  return text;
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  FORESHOCK_ASSIGN_OR_RETURN(const std::string text, ReadWhole("token file", path));
  const std::string token(absl::StripAsciiWhitespace(text));
  for (const char c : token) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(
          absl::StrCat("token file ", path, ": allowed is one token on one line"));
    }
  }
  if (token.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("token file ", path, " is empty"));
  }
  return token;
}

// Adds the token to the metadata of every call.
class BearerToken final : public grpc::experimental::Interceptor {
 public:
  explicit BearerToken(const std::string* header) : header_(header) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert({"authorization", *header_});
    }
    methods->Proceed();
  }

 private:
  const std::string* const header_;
};

class BearerTokenFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit BearerTokenFactory(const std::string& token) : header_("Bearer " + token) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new BearerToken(&header_);
  }

 private:
  const std::string header_;
};

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(const Secrets& secrets) {
  if (!secrets.tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = secrets.ca,
                               .pem_private_key = secrets.key,
                               .pem_cert_chain = secrets.cert});
}

}  // namespace

absl::StatusOr<Secrets> ReadSecrets(const Credentials& credentials) {
  FORESHOCK_RETURN_IF_ERROR(CheckCredentials(credentials));
  Secrets secrets;
  secrets.server_name = credentials.server_name;
  if (!credentials.ca_file.empty()) {
    secrets.tls = true;
    FORESHOCK_ASSIGN_OR_RETURN(
        secrets.ca, ReadWhole("CA file", credentials.ca_file == kSystem ? kSystemAuthorities
                                                                        : credentials.ca_file));
  }
  if (!credentials.cert_file.empty()) {
    FORESHOCK_ASSIGN_OR_RETURN(secrets.cert, ReadWhole("certificate file", credentials.cert_file));
    FORESHOCK_ASSIGN_OR_RETURN(secrets.key, ReadWhole("key file", credentials.key_file));
  }
  if (!credentials.token_file.empty()) {
    FORESHOCK_ASSIGN_OR_RETURN(secrets.token, ReadToken(credentials.token_file));
  }
  return secrets;
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target, const Secrets& secrets,
                                           grpc::ChannelArguments arguments) {
  if (secrets.tls && !secrets.server_name.empty()) {
    arguments.SetSslTargetNameOverride(secrets.server_name);
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  if (!secrets.token.empty()) {
    interceptors.push_back(std::make_unique<BearerTokenFactory>(secrets.token));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      target, ChannelCredentials(secrets), arguments, std::move(interceptors));
}

}  // namespace foreshock::client_internal

namespace foreshock {

Credentials CredentialsFromEnvironment() {
  const auto value = [](const char* name) -> std::string {
    const char* const found = std::getenv(name);
    return found == nullptr ? "" : found;
  };
  return {.ca_file = value("FORESHOCK_CA_FILE"),
          .cert_file = value("FORESHOCK_CERT_FILE"),
          .key_file = value("FORESHOCK_KEY_FILE"),
          .server_name = value("FORESHOCK_SERVER_NAME"),
          .token_file = value("FORESHOCK_TOKEN_FILE")};
}

absl::Status CheckCredentials(const Credentials& credentials) {
  if (credentials.cert_file.empty() != credentials.key_file.empty()) {
    return absl::InvalidArgumentError("a certificate file and its key file are given both or not");
  }
  if (!credentials.cert_file.empty() && credentials.ca_file.empty()) {
    return absl::InvalidArgumentError(
        "a certificate file is given without a CA file, which turns TLS on ('system': the "
        "machine's authorities)");
  }
  return absl::OkStatus();
}

}  // namespace foreshock
