// What the configuration says of one receiver of remote write. docs/config.md explains the keys.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "daemon/notify/http_client.h"
#include "daemon/notify/secret.h"

namespace foreshock::remote_write {

struct RemoteWriteOptions {
  std::string name = "remote";  // the label on metrics; unique
  std::string url{};            // or:
  notify::SecretSource url_source{};
  notify::SecretSource bearer_token{};
  std::string username{};  // of basic authentication, with:
  notify::SecretSource password{};
  std::map<std::string, std::string> headers{};          // X-Scope-OrgID and the like
  std::map<std::string, std::string> external_labels{};  // job and instance where not given
  absl::Duration interval = absl::Seconds(15);
  size_t queue_bytes_max = 16u << 20;  // compressed requests that wait
  notify::HttpClientOptions http{};
};

}  // namespace foreshock::remote_write
