// What the configuration says of everything that is sent somewhere over HTTP: notifiers and remote
// write.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "daemon/notify/http_client.h"
#include "daemon/notify/secret.h"
#include "daemon/yaml/yaml.h"

namespace foreshock::config {

// The label on metrics: letters, digits, '-' and '_', in no other entry of the list. `what` is it,
// in messages: "a notifier".
std::string ReadReceiverName(const yaml::YamlNode& node, absl::string_view what,
                             absl::string_view fallback, std::set<std::string>* names);
// A URL in plain sight; "" where there is none.
std::string ReadPlainUrl(const yaml::YamlNode& node);
// KEY_file or KEY_env.
notify::SecretSource ReadSecretSource(const yaml::YamlNode& node, absl::string_view key);
// ca_file, proxy, connect_timeout, timeout.
void ReadHttpClient(const yaml::YamlNode& node, notify::HttpClientOptions* http);

// One item of a list as the readers above would read it.
class ReceiverText {
 public:
  void Add(absl::string_view key, absl::string_view value);        // the first one opens the item
  void AddQuoted(absl::string_view key, absl::string_view value);  // unless it is empty
  void AddList(absl::string_view key, const std::vector<std::string>& values);  // likewise
  void AddMap(absl::string_view key,
              const std::vector<std::pair<std::string, std::string>>& entries);  // likewise
  void AddSource(absl::string_view key, const notify::SecretSource& source);
  void AddHttpClient(const notify::HttpClientOptions& http);
  std::string Take() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace foreshock::config
