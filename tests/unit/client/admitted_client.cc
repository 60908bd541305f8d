#include "tests/unit/client/admitted_client.h"

#include <memory>

#include "daemon/security/access.h"

namespace foreshock::client_internal {

std::string AdmittedName(const std::string& name) {
  const auto client = std::make_unique<security::Client>();
  client->name = name;
  return client->name;
}

}  // namespace foreshock::client_internal
