// The kernels for one instruction set; see CMakeLists.txt for its flags. Eigen is renamed so that
// the linker cannot merge its inline functions with those built for another instruction set.
#define Eigen EigenV4
#define FORESHOCK_KERNEL_SET kernels_v4
#define FORESHOCK_KERNEL_NAME "v4"
#include "daemon/indicators/kernels.inc"

namespace foreshock::indicators {
const Kernels& V4Kernels() { return FORESHOCK_KERNEL_SET::kSet; }
}  // namespace foreshock::indicators
