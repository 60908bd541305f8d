// What a client shows the daemon, and what it wants to see: files, never secrets themselves.
//
//   options.credentials = foreshock::CredentialsFromEnvironment();
#pragma once

#include <string>

#include "absl/status/status.h"

namespace foreshock {

// Everything empty: no TLS, no token, which is enough for a daemon on loopback. The files are read
// again for every new stream, so that a rotated certificate or token needs no restart.
struct Credentials {
  std::string ca_file{};      // PEM, who may sign the daemon's certificate; "system": the machine's
                              // authorities. Turns TLS on
  std::string cert_file{};    // PEM, this client's own certificate, where the daemon wants one
  std::string key_file{};     // PEM, its key
  std::string server_name{};  // the certificate's, if it is not the target's host
  std::string token_file{};   // one line, from `foreshock token new`
};

// From FORESHOCK_CA_FILE, FORESHOCK_CERT_FILE, FORESHOCK_KEY_FILE, FORESHOCK_SERVER_NAME and
// FORESHOCK_TOKEN_FILE.
Credentials CredentialsFromEnvironment();

// InvalidArgument for what can never work: a certificate without its key or without TLS. Reads no
// file.
absl::Status CheckCredentials(const Credentials& credentials);

}  // namespace foreshock
