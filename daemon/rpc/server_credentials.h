// TLS for the gRPC port, with a certificate that is looked at for every connection.
#pragma once

#include <memory>

#include "daemon/security/tls_files.h"
#include "grpcpp/security/server_credentials.h"

namespace foreshock::rpc {

// They and `tls` must outlive the server, which asks them for every connection. Clients are asked
// for a certificate where options().grpc_client_cert says so.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(security::TlsFiles* tls);

}  // namespace foreshock::rpc
