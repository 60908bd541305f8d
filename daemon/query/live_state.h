// What queries need beside the store: what is connected, loaded and counted right now. The
// application implements it over the pipeline.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "foreshock/v1/query.pb.h"

namespace foreshock::query {

// Thread-safe; nothing waits.
class LiveState {
 public:
  virtual ~LiveState() = default;

  // Ranks with an open stream, by attempt number; attempts without any may be missing.
  virtual std::map<uint32_t, uint32_t> Connected(const std::string& run) const = 0;

  // Rules and signatures in force, in file order.
  virtual std::vector<v1::RuleInfo> Rules() const = 0;
  // The files they were read from, as they were then.
  virtual std::vector<v1::RuleFile> RuleFiles() const = 0;
  // Of an indicator; "": of all, without points.
  virtual v1::ListBandsResponse Bands(const std::string& indicator) const = 0;

  virtual std::vector<v1::Silence> Silences(bool expired) const = 0;
  // Ids of the silences in force that match.
  virtual std::vector<std::string> SilencedBy(const v1::Alert& alert) const = 0;

  // Everything but what Store::Stats says (series, store_bytes, store_writable, points_written).
  virtual v1::GetStatusResponse Status() const = 0;
};

}  // namespace foreshock::query
