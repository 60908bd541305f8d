// The kernels for one instruction set; see CMakeLists.txt for its flags. Eigen is renamed so that
// the linker cannot merge its inline functions with those built for another instruction set.
#define Eigen EigenV3
#define FORESHOCK_KERNEL_SET kernels_v3
#define FORESHOCK_KERNEL_NAME "v3"
#include "daemon/indicators/kernels.inc"

namespace foreshock::indicators {
const Kernels& V3Kernels() { return FORESHOCK_KERNEL_SET::kSet; }
}  // namespace foreshock::indicators
