#include "daemon/web/assets.h"

namespace foreshock::web_internal {

absl::Span<const Asset> Assets() { return {}; }

}  // namespace foreshock::web_internal
