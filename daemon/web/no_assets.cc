#include "daemon/web/assets.h"

namespace foreshock::web::internal {

absl::Span<const Asset> Assets() { return {}; }

}  // namespace foreshock::web::internal
