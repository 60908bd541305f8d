// The silences in force: while one lasts, no receiver pages anybody of the alerts that match it.
//
//   Silences silences(&clock, [&](const model::SilencesRow& row) { return store.Write(row); });
//   silences.Load(row);
//   FORESHOCK_ASSIGN_OR_RETURN(v1::Silence silence, silences.Add(request));
//   if (!silences.Matching(alert).empty()) ...
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/mutex.h"
#include "daemon/model/rows.pb.h"
#include "daemon/notify/matcher.h"
#include "foreshock/v1/admin.pb.h"

namespace foreshock::notify {

// Who someone is, and his reason: one line of 1 to 1 000 bytes of UTF-8 each; `why` may be empty.
// InvalidArgument says what is allowed.
absl::Status CheckBy(const std::string& by);
absl::Status CheckWhy(const std::string& why);

// Thread-safe.
class Silences {
 public:
  static constexpr size_t kSilencesMax = 1000;  // in force at once
  static constexpr int kMatchersMax = 32;       // of one
  static constexpr absl::Duration kLongest = absl::Hours(24 * 365);
  static constexpr absl::Duration kRemembered = absl::Hours(24 * 5);  // after its end

  // Stores all silences, so that they survive a restart.
  using WriteFn = std::function<absl::Status(const model::SilencesRow&)>;

  Silences(const base::Clock* clock, WriteFn write) : clock_(clock), write_(std::move(write)) {}

  // Replaces all silences. One with a matcher that this version cannot read matches nothing.
  void Load(const model::SilencesRow& row);

  // InvalidArgument says what is allowed; ResourceExhausted: too many are in force; else WriteFn's
  // error. After an error nothing has changed.
  absl::StatusOr<v1::Silence> Add(const v1::SilenceAlertsRequest& request);
  // NotFound names the silences in force.
  absl::StatusOr<v1::Silence> Expire(const std::string& id);

  // Those in force first, the longest first.
  std::vector<v1::Silence> List(bool expired) const;
  // The ids of the silences in force that match.
  std::vector<std::string> Matching(const v1::Alert& alert) const;
  // Of those the one that ends last; unset: the alert is not silenced.
  std::optional<v1::Silence> Longest(const v1::Alert& alert) const;

 private:
  struct Entry {
    v1::Silence silence{};
    std::vector<base::LabelMatcher> matchers{};
  };
  bool Holds(const Entry& entry, const v1::Alert& alert) const;
  bool InForce(const v1::Silence& silence) const {
    return clock_->Now() < absl::FromUnixNanos(silence.ends_unix_ns());
  }
  // Stores `entries`, and only then puts them in force.
  absl::Status Put(std::map<std::string, Entry> entries);

  const base::Clock* const clock_;
  const WriteFn write_;
  base::Mutex change_mutex_;  // one change at a time: writing waits for the disk
  mutable base::Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by id
  absl::BitGen random_ ABSL_GUARDED_BY(change_mutex_);
};

}  // namespace foreshock::notify
