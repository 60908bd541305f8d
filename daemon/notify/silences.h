// The silences in force: while one lasts nobody is told of alerts that match it.
//
//   Silences silences(&clock, [&](const model::SilencesRow& row) { return store.Write(row); });
//   silences.Load(row);
//   FORESHOCK_ASSIGN_OR_RETURN(v1::Silence silence, silences.Add(request));
//   if (!silences.Matching(alert).empty()) ...
#pragma once

#include <functional>
#include <map>
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

// What someone writes of himself or of his reasons: one line of 1 to 1 000 bytes of UTF-8; `why`
// may be empty. InvalidArgument says what is allowed.
absl::Status CheckBy(const std::string& by);
absl::Status CheckWhy(const std::string& why);

// Thread-safe.
class Silences {
 public:
  static constexpr size_t kSilencesMax = 1000;  // in force at once
  static constexpr int kMatchersMax = 32;       // of one
  static constexpr absl::Duration kLongest = absl::Hours(24 * 365);
  static constexpr absl::Duration kRemembered = absl::Hours(24 * 5);  // after its end

  // Puts all of them where they survive a restart.
  using WriteFn = std::function<absl::Status(const model::SilencesRow&)>;

  Silences(const base::Clock* clock, WriteFn write) : clock_(clock), write_(std::move(write)) {}

  // Replaces what is there. A matcher that this version cannot read never matches.
  void Load(const model::SilencesRow& row);

  // InvalidArgument says what is allowed, ResourceExhausted when there are too many; else what
  // WriteFn says, and then nothing has changed.
  absl::StatusOr<v1::Silence> Add(const v1::SilenceAlertsRequest& request);
  // NotFound names those in force.
  absl::StatusOr<v1::Silence> Expire(const std::string& id);

  // In force first, then the one that ends last.
  std::vector<v1::Silence> List(bool expired) const;
  // Ids of those in force that match.
  std::vector<std::string> Matching(const v1::Alert& alert) const;

 private:
  struct Entry {
    v1::Silence silence{};
    std::vector<base::LabelMatcher> matchers{};
  };
  bool InForce(const v1::Silence& silence) const {
    return clock_->Now() < absl::FromUnixNanos(silence.ends_unix_ns());
  }
  // Writes what is to be, and only then makes it so.
  absl::Status Put(std::map<std::string, Entry> entries);

  const base::Clock* const clock_;
  const WriteFn write_;
  base::Mutex change_mutex_;  // one change at a time: writing waits for the disk
  mutable base::Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);  // by id
  absl::BitGen random_ ABSL_GUARDED_BY(change_mutex_);
};

}  // namespace foreshock::notify
