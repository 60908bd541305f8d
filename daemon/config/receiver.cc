#include "daemon/config/receiver.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace foreshock::config {
namespace {

constexpr size_t kReceiverNameMax = 64;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

}  // namespace

std::string ReadReceiverName(const yaml::YamlNode& node, absl::string_view what,
                             absl::string_view fallback, std::set<std::string>* names) {
  const std::string name = node.String(fallback);
  bool good = !name.empty() && name.size() <= kReceiverNameMax;
  for (const char c : name) {
    good = good && (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_');
  }
  if (!good) {
    node.Error(
        absl::StrCat(what, "'s name has 1 to ", kReceiverNameMax, " letters, digits, '-' or '_'"));
  } else if (!names->insert(name).second) {
    node.Error(absl::StrCat("'", name, "' is the name of another one; names are unique"));
  }
  return name;
}

std::string ReadPlainUrl(const yaml::YamlNode& node) {
  const std::string url = node.String();
  if (const std::string wrong = node.present() ? notify::CheckPlainUrl(url) : ""; !wrong.empty()) {
    // The URL itself may hold what nobody is to see.
    node.Error(absl::StrCat("this URL is ", wrong,
                            "; allowed is http(s)://HOST[:PORT][/PATH]; one with a secret in it "
                            "belongs into a file (url_file)"));
  }
  return url;
}

notify::SecretSource ReadSecretSource(const yaml::YamlNode& node, absl::string_view key) {
  notify::SecretSource source;
  const yaml::YamlNode env = node.Get(absl::StrCat(key, "_env"));
  source.file = node.Get(absl::StrCat(key, "_file")).String();
  source.env = env.String();
  if (!source.file.empty() && !source.env.empty()) {
    env.Error(absl::StrCat("give ", key, "_file or ", key, "_env, not both"));
  }
  return source;
}

void ReadHttpClient(const yaml::YamlNode& node, notify::HttpClientOptions* http) {
  http->ca_file = node.Get("ca_file").String();
  const yaml::YamlNode proxy = node.Get("proxy");
  http->proxy = proxy.String();
  if (const std::string wrong = proxy.present() ? notify::CheckPlainUrl(http->proxy) : "";
      !wrong.empty()) {
    proxy.Error(absl::StrCat("this URL is ", wrong, "; allowed is http(s)://HOST:PORT"));
  }
  constexpr yaml::YamlRange<absl::Duration> kRange = {absl::Milliseconds(10), absl::Minutes(5)};
  http->connect_timeout = node.Get("connect_timeout").Duration(kRange, http->connect_timeout);
  http->timeout = node.Get("timeout").Duration(kRange, http->timeout);
}

void ReceiverText::Add(absl::string_view key, absl::string_view value) {
  absl::StrAppend(&text_, text_.empty() ? "\n  - " : "\n    ", key, ": ", value);
}

void ReceiverText::AddQuoted(absl::string_view key, absl::string_view value) {
  if (!value.empty()) Add(key, Quoted(value));
}

void ReceiverText::AddList(absl::string_view key, const std::vector<std::string>& values) {
  if (values.empty()) return;
  const auto quoted = [](std::string* out, const std::string& value) {
    absl::StrAppend(out, Quoted(value));
  };
  Add(key, absl::StrCat("[", absl::StrJoin(values, ", ", quoted), "]"));
}

void ReceiverText::AddMap(absl::string_view key,
                          const std::vector<std::pair<std::string, std::string>>& entries) {
  if (entries.empty()) return;
  const auto quoted = [](std::string* out, const auto& entry) {
    absl::StrAppend(out, Quoted(entry.first), ": ", Quoted(entry.second));
  };
  Add(key, absl::StrCat("{", absl::StrJoin(entries, ", ", quoted), "}"));
}

void ReceiverText::AddSource(absl::string_view key, const notify::SecretSource& source) {
  AddQuoted(absl::StrCat(key, "_file"), source.file);
  AddQuoted(absl::StrCat(key, "_env"), source.env);
}

void ReceiverText::AddHttpClient(const notify::HttpClientOptions& http) {
  AddQuoted("ca_file", http.ca_file);
  AddQuoted("proxy", http.proxy);
  Add("connect_timeout", absl::FormatDuration(http.connect_timeout));
  Add("timeout", absl::FormatDuration(http.timeout));
}

}  // namespace foreshock::config
