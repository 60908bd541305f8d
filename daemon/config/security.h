// Who may reach the daemon and do what: the `tls` and `access` blocks of the configuration file.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/security/access.h"
#include "daemon/security/tls_files.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::config {

struct AccessOptions {
  std::string tokens_file{};                   // empty: no tokens, everyone may do everything
  std::vector<security::TokenGrant> tokens{};  // what it says
  bool insecure = false;  // listen beyond this machine although it is not closed
};

// Both read the files that are named as well; mistakes, theirs too, are recorded in the document.
security::TlsOptions ReadTlsOptions(const yaml::YamlNode& node);
AccessOptions ReadAccessOptions(const yaml::YamlNode& node);

// As the functions above would read them; of the files only where they stand.
std::string FormatTls(const security::TlsOptions& options);
std::string FormatAccess(const AccessOptions& options);

// The tokens file. InvalidArgument with every mistake as file:line:column; NotFound,
// PermissionDenied.
absl::StatusOr<std::vector<security::TokenGrant>> ReadTokens(const std::string& path);
// The same from text; `name` stands for the file in messages.
absl::StatusOr<std::vector<security::TokenGrant>> ParseTokens(absl::string_view name,
                                                              absl::string_view text);

// What keeps others away from a port that other machines reach: TLS, and either tokens or client
// certificates. Empty: nothing is missing; else what is, for a sentence.
std::string MissingProtection(const std::string& listen, const security::TlsOptions& tls,
                              bool client_cert, const AccessOptions& access);

}  // namespace foreshock::config
