// Query parameters of a JSON request, checked. Internal to query/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/http/server.h"

namespace foreshock::query::internal {

// Thread-compatible. An absent or empty parameter reads as not given. Errors are InvalidArgument.
class Params {
 public:
  // Refuses a name outside `allowed`, naming them.
  static absl::StatusOr<Params> Parse(const http::HttpRequest& request,
                                      std::vector<absl::string_view> allowed);

  absl::StatusOr<std::string> Text(absl::string_view name) const;  // "" if not given
  // Every value of a name that may be repeated, whole: "name=a,b&name=c" has "a,b" and "c".
  std::vector<std::string> All(absl::string_view name) const;
  absl::StatusOr<std::optional<int64_t>> Integer(absl::string_view name, int64_t min,
                                                 int64_t max) const;
  // From "name=1,2&name=3".
  absl::StatusOr<std::vector<int64_t>> Integers(absl::string_view name, int64_t min,
                                                int64_t max) const;

 private:
  std::vector<std::pair<std::string, std::string>> query_;
};

}  // namespace foreshock::query::internal
