#include "daemon/config/security.h"

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/base/status_macros.h"
#include "daemon/security/address.h"

namespace foreshock::config {
namespace {

std::string QuotedPath(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

constexpr size_t kTokensMax = 1000;
constexpr size_t kTokenNameMax = 64;

void ReadTokenName(const yaml::YamlNode& node, std::set<std::string>* names,
                   security::TokenGrant* grant) {
  grant->name = node.String();
  bool good = !grant->name.empty() && grant->name.size() <= kTokenNameMax;
  for (const char c : grant->name) {
    good = good &&
           (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.');
  }
  if (!good) {
    node.Error(absl::StrCat("a token's name has 1 to ", kTokenNameMax,
                            " letters, digits, '-', '_' or '.'"));
  } else if (!names->insert(grant->name).second) {
    node.Error(absl::StrCat("two tokens are called '", grant->name, "'"));
  }
}

void ReadTokenHash(const yaml::YamlNode& node, security::TokenGrant* grant) {
  if (!node.present()) return;  // Require has said so
  // What stands there may be the token itself, which nobody is to see.
  const std::optional<security::TokenHash> hash = security::ParseTokenHash(node.String());
  if (!hash.has_value()) {
    node.Error(
        "this is no SHA-256: allowed are 64 hexadecimal digits, as `foreshock token new` "
        "prints them");
    return;
  }
  grant->hash = *hash;
}

void ReadTokenRuns(const yaml::YamlNode& node, security::TokenGrant* grant) {
  for (const yaml::YamlNode& text : node.Items()) {
    const absl::StatusOr<base::LabelMatcher> matcher = base::LabelMatcher::Parse(text.String());
    if (!matcher.ok()) {
      text.Error(matcher.status().message());
    } else if (matcher->label() != "run") {
      text.Error(
          absl::StrCat("'", matcher->label(), "' is not known before a push; allowed is run"));
    } else {
      grant->runs.push_back(*matcher);
    }
  }
  if (node.present() && !grant->Allows(security::Role::kPush)) {
    node.Error("match is for tokens with the role push; read, operate and admin are for all runs");
  }
}

security::TokenGrant ReadToken(const yaml::YamlNode& node, std::set<std::string>* names) {
  security::TokenGrant grant;
  ReadTokenName(node.Require("name"), names, &grant);
  ReadTokenHash(node.Require("sha256"), &grant);
  const yaml::YamlNode roles = node.Require("roles");
  for (const yaml::YamlNode& role : roles.Items()) {
    const std::string word = role.Word(security::kRoleNames, security::kRoleNames[0]);
    for (size_t i = 0; i < security::kRoleNames.size(); ++i) {
      if (word == security::kRoleNames[i]) grant.roles.push_back(static_cast<security::Role>(i));
    }
  }
  if (roles.present() && grant.roles.empty()) {
    roles.Error("a token needs at least one role: push, read, operate or admin");
  }
  ReadTokenRuns(node.Get("match"), &grant);
  return grant;
}

}  // namespace

absl::StatusOr<std::vector<security::TokenGrant>> ParseTokens(absl::string_view name,
                                                              absl::string_view text) {
  yaml::YamlDocument document(name, text);
  const yaml::YamlNode list = document.root().Require("tokens");
  std::vector<security::TokenGrant> grants;
  std::set<std::string> names;
  for (const yaml::YamlNode& item : list.Items()) grants.push_back(ReadToken(item, &names));
  if (grants.size() > kTokensMax) {
    list.Error(absl::StrCat("there are ", grants.size(), " tokens; allowed are ", kTokensMax));
  }
  FORESHOCK_RETURN_IF_ERROR(document.status());
  return grants;
}

absl::StatusOr<std::vector<security::TokenGrant>> ReadTokens(const std::string& path) {
  std::string text;
  FORESHOCK_RETURN_IF_ERROR(yaml::ReadYamlFile(path, &text));
  return ParseTokens(path, text);
}

security::TlsOptions ReadTlsOptions(const yaml::YamlNode& node) {
  security::TlsOptions options;
  const yaml::YamlNode cert = node.Get("cert_file");
  const yaml::YamlNode key = node.Get("key_file");
  const yaml::YamlNode client_ca = node.Get("client_ca_file");
  options.cert_file = cert.String();
  options.key_file = key.String();
  options.client_ca_file = client_ca.String();
  const std::string where = node.Get("require_client_cert").Word({"both", "grpc", "http"}, "both");
  if (options.cert_file.empty() != options.key_file.empty()) {
    (cert.present() ? cert : key).Error("tls needs both of cert_file and key_file");
    return options;
  }
  if (!options.client_ca_file.empty() && !options.given()) {
    client_ca.Error("client_ca_file needs cert_file and key_file");
    return options;
  }
  options.grpc_client_cert = !options.client_ca_file.empty() && where != "http";
  options.http_client_cert = !options.client_ca_file.empty() && where != "grpc";
  if (!options.given()) return options;
  security::TlsFile at_fault = security::TlsFile::kCert;
  if (const absl::Status status = security::ReadTls(options, &at_fault).status(); !status.ok()) {
    const yaml::YamlNode& wrong = at_fault == security::TlsFile::kCert  ? cert
                                  : at_fault == security::TlsFile::kKey ? key
                                                                        : client_ca;
    wrong.Error(status.message());
  }
  return options;
}

AccessOptions ReadAccessOptions(const yaml::YamlNode& node) {
  AccessOptions options;
  const yaml::YamlNode file = node.Get("tokens_file");
  options.tokens_file = file.String();
  options.insecure = node.Get("insecure").Bool();
  if (options.tokens_file.empty()) return options;
  absl::StatusOr<std::vector<security::TokenGrant>> tokens = ReadTokens(options.tokens_file);
  if (tokens.ok()) {
    options.tokens = *std::move(tokens);
  } else {
    file.Error(tokens.status().message());
  }
  return options;
}

std::string FormatAccess(const AccessOptions& options) {
  return absl::StrCat("\naccess:\n  tokens_file: ", QuotedPath(options.tokens_file),
                      "\n  insecure: ", options.insecure ? "true" : "false");
}

std::string MissingProtection(const std::string& listen, const security::TlsOptions& tls,
                              bool client_cert, const AccessOptions& access) {
  if (security::IsLocalAddress(listen)) return "";
  const bool known = client_cert || !access.tokens_file.empty();
  if (tls.given() && known) return "";
  if (tls.given())
    return "neither tokens (access.tokens_file) nor client certificates are asked for";
  return known ? "tokens would cross the network in the clear (set tls)"
               : "there is no TLS (tls) and nobody has to show a token (access.tokens_file)";
}

std::string FormatTls(const security::TlsOptions& options) {
  const char* const where = options.grpc_client_cert == options.http_client_cert ? "both"
                            : options.grpc_client_cert                           ? "grpc"
                                                                                 : "http";
  return absl::StrCat("\ntls:\n  cert_file: ", QuotedPath(options.cert_file),
                      "\n  key_file: ", QuotedPath(options.key_file),
                      "\n  client_ca_file: ", QuotedPath(options.client_ca_file),
                      "\n  require_client_cert: ", where);
}

}  // namespace foreshock::config
