#include "daemon/config/remote_writes.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/config/receiver.h"

namespace foreshock::config {
namespace {

constexpr uint64_t kQueueBytesMin = 64u << 10;
constexpr uint64_t kQueueBytesMax = uint64_t{4} << 30;

bool IsLabelName(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(static_cast<unsigned char>(name[0]))) return false;
  for (const char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return !absl::StartsWith(name, "__");
}

void ReadLabels(const yaml::YamlNode& node, remote_write::RemoteWriteOptions* options) {
  for (const auto& [name, value] : node.Entries()) {
    if (!IsLabelName(name)) {
      value.Error(
          absl::StrCat("'", name,
                       "' is no name of a label: letters, digits and '_', no digit in front "
                       "and no '__'"));
    }
    options->external_labels[name] = value.String();
  }
}

// What we set ourselves, and what carries a secret, is not to be set here.
void ReadHeaders(const yaml::YamlNode& node, remote_write::RemoteWriteOptions* options) {
  for (const auto& [name, value] : node.Entries()) {
    const std::string text = value.String();
    bool good = !name.empty();
    for (const char c : name) {
      good = good && (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-');
    }
    for (const char c : text) good = good && !absl::ascii_iscntrl(static_cast<unsigned char>(c));
    for (const char* ours : {"authorization", "content-type", "content-encoding", "content-length",
                             "host", "x-prometheus-remote-write-version"}) {
      good = good && absl::AsciiStrToLower(name) != ours;
    }
    if (!good) {
      value.Error(
          "a header here is a name of letters, digits and '-' and a value on one line; not one "
          "that "
          "the protocol sets, and for Authorization there are bearer_token_file and password_file");
    }
    options->headers[name] = text;
  }
}

void ReadAuthentication(const yaml::YamlNode& node, remote_write::RemoteWriteOptions* options) {
  options->bearer_token = ReadSecretSource(node, "bearer_token");
  const yaml::YamlNode username = node.Get("username");
  options->username = username.String();
  options->password = ReadSecretSource(node, "password");
  if (options->username.empty() == options->password.given()) {
    node.Error("username and password_file (or password_env) belong together");
  }
  if (!options->username.empty() && options->bearer_token.given()) {
    username.Error("give a username or a bearer token, not both");
  }
  if (absl::StrContains(options->username, ":")) username.Error("a username has no ':'");
}

remote_write::RemoteWriteOptions ReadRemoteWrite(const yaml::YamlNode& node,
                                                 std::set<std::string>* names) {
  remote_write::RemoteWriteOptions options;
  options.name = ReadReceiverName(node.Get("name"), "a remote_write", options.name, names);
  const yaml::YamlNode url = node.Get("url");
  options.url = ReadPlainUrl(url);
  options.url_source = ReadSecretSource(node, "url");
  if (url.present() == options.url_source.given()) {
    node.Error("remote_write needs one of url, url_file and url_env");
  }
  ReadAuthentication(node, &options);
  ReadHeaders(node.Get("headers"), &options);
  ReadLabels(node.Get("external_labels"), &options);
  options.interval =
      node.Get("interval").Duration({absl::Seconds(1), absl::Minutes(5)}, options.interval);
  options.queue_bytes_max = static_cast<size_t>(
      node.Get("queue_bytes_max").Bytes({kQueueBytesMin, kQueueBytesMax}, options.queue_bytes_max));
  ReadHttpClient(node, &options.http);
  return options;
}

}  // namespace

std::vector<remote_write::RemoteWriteOptions> ReadRemoteWrites(const yaml::YamlNode& list) {
  std::vector<remote_write::RemoteWriteOptions> all;
  std::set<std::string> names;
  for (const yaml::YamlNode& item : list.Items()) all.push_back(ReadRemoteWrite(item, &names));
  return all;
}

std::string FormatRemoteWrites(const std::vector<remote_write::RemoteWriteOptions>& all) {
  if (all.empty()) return " []";
  std::string text;
  for (const remote_write::RemoteWriteOptions& options : all) {
    ReceiverText item;
    item.Add("name", options.name);
    item.AddQuoted("url", options.url);
    item.AddSource("url", options.url_source);
    item.AddSource("bearer_token", options.bearer_token);
    item.AddQuoted("username", options.username);
    item.AddSource("password", options.password);
    item.AddMap("headers", {options.headers.begin(), options.headers.end()});
    item.AddMap("external_labels",
                {options.external_labels.begin(), options.external_labels.end()});
    item.Add("interval", absl::FormatDuration(options.interval));
    item.Add("queue_bytes_max", absl::StrCat(options.queue_bytes_max));
    item.AddHttpClient(options.http);
    text += std::move(item).Take();
  }
  return text;
}

}  // namespace foreshock::config
