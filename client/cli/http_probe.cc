#include "client/cli/http_probe.h"

#include <httplib.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/tls_probe.h"
#include "client/cpp/src/channel.h"
#include "daemon/base/status_macros.h"

namespace foreshock::cli {
namespace {

// httplib::Client, or httplib::SSLClient with what the credentials say.
std::unique_ptr<httplib::ClientImpl> MakeHttpClient(const std::string& host, int port,
                                                    const Credentials& credentials) {
  if (credentials.ca_file.empty()) return std::make_unique<httplib::ClientImpl>(host, port);
  const std::string& name = credentials.server_name.empty() ? host : credentials.server_name;
  auto client =
      std::make_unique<httplib::SSLClient>(name, port, credentials.cert_file, credentials.key_file);
  if (name != host) client->set_hostname_addr_map({{name, ResolveHost(host)}});
  if (credentials.ca_file != "system") client->set_ca_cert_path(credentials.ca_file.c_str(), "");
  client->enable_server_certificate_verification(true);
  return client;
}

}  // namespace

absl::StatusOr<HttpAnswer> HttpGet(const std::string& address, const std::string& path,
                                   const Credentials& credentials, absl::Duration timeout) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is no address: expected HOST:PORT, port 1 to 65535"));
  }
  FORESHOCK_ASSIGN_OR_RETURN(const auto secrets, client_internal::ReadSecrets(credentials));
  const auto client = MakeHttpClient(address.substr(0, colon), port, credentials);
  const auto chrono_timeout = absl::ToChronoMicroseconds(timeout);
  client->set_connection_timeout(chrono_timeout);
  client->set_read_timeout(chrono_timeout);
  if (!secrets.token.empty()) client->set_bearer_token_auth(secrets.token.c_str());
  const httplib::Result result = client->Get(path.c_str());
  if (!result) {
    return absl::UnavailableError(absl::StrCat("GET ", secrets.tls ? "https://" : "http://",
                                               address, path, ": ",
                                               httplib::to_string(result.error())));
  }
  HttpAnswer answer{.status = result->status, .body = result->body};
  std::string error;
  absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", result->get_header_value("Date"), &answer.date,
                  &error);
  return answer;
}

std::string HttpUrl(const Credentials& credentials, const std::string& address,
                    const std::string& path) {
  return absl::StrCat(credentials.ca_file.empty() ? "http://" : "https://", address, path);
}

}  // namespace foreshock::cli
