// Foreshock's silences in one replica of Alertmanager: while an alert is silenced here, a silence
// there matches the labels of that alert and of no other. The list of Alertmanager is read before
// each change, so nothing is made twice, over restarts of either side and in a cluster.
//
//   AlertmanagerSilences silences("http://am:9093", headers, poster);
//   FORESHOCK_RETURN_IF_ERROR(silences.Raise({{labels, silence}}, now));   // then show the alerts
//   FORESHOCK_RETURN_IF_ERROR(silences.Lift(labels_of_others));
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/notify/http_client.h"
#include "foreshock/v1/query.pb.h"

namespace foreshock::notify {

// "2027-01-15T08:00:00.000Z"
std::string AlertmanagerTime(absl::Time time);

// The text of a field of Alertmanager's answers; "" where it is missing or no text.
std::string TextOf(const nlohmann::json& object, const char* name);

// The most that is read of a list. Alertmanager's has the silences of the last five days too.
inline constexpr size_t kListBytesMax = 4u << 20;

// Used by one thread.
class AlertmanagerSilences {
 public:
  using Labels = std::map<std::string, std::string>;

  // `poster` outlives this.
  AlertmanagerSilences(std::string url, std::vector<std::string> headers, HttpPoster* poster)
      : url_(std::move(url)), headers_(std::move(headers)), poster_(poster) {}

  // Whether Alertmanager may hold a silence of ours: it does, or nobody has looked yet.
  bool may_hold() const { return may_hold_; }

  // Makes or prolongs a silence for each alert of `wanted`, until the end of the silence here.
  // Errors: what Alertmanager or the network says.
  absl::Status Raise(const std::map<Labels, v1::Silence>& wanted, absl::Time now);
  // Ends the silences of ours for these alerts, as the last Raise found them.
  absl::Status Lift(const std::vector<Labels>& alerts);

 private:
  struct Held {
    std::string id{};
    std::string starts{};  // as Alertmanager writes it
    absl::Time ends{};
  };

  absl::Status Read();
  absl::StatusOr<std::string> Ask(const HttpCall& call);

  const std::string url_;
  const std::vector<std::string> headers_;
  HttpPoster* const poster_;
  bool may_hold_ = true;
  std::multimap<Labels, Held> held_;  // as Read found them
};

}  // namespace foreshock::notify
