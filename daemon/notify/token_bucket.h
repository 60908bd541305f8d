// How many messages an hour may be sent: a bucket that holds an hour's tokens and refills evenly.
//
//   TokenBucket bucket(60);
//   if (!bucket.Take(now)) return bucket.next();   // when the next token is there
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace foreshock::notify {

// Value type. Times are steady.
class TokenBucket {
 public:
  explicit TokenBucket(int64_t per_hour)  // 0: no limit
      : per_hour_(static_cast<double>(per_hour)), tokens_(per_hour_) {}

  bool Take(absl::Time now);
  absl::Time next() const;  // after Take returned false

 private:
  double per_hour_;
  double tokens_;
  absl::Time at_ = absl::InfinitePast();  // when tokens_ was right
};

}  // namespace foreshock::notify
