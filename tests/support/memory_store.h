// A store in memory, for tests: it answers as the one on a disk does.
//
//   const std::unique_ptr<Store> store = NewMemoryStore();
#pragma once

#include <memory>

#include "daemon/store/store.h"

namespace foreshock::support {

std::unique_ptr<store::Store> NewMemoryStore();

}  // namespace foreshock::support
