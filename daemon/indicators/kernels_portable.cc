// The kernels for one instruction set; see CMakeLists.txt for its flags. Eigen is renamed so that
// the linker cannot merge its inline functions with those built for another instruction set.
#define Eigen EigenPortable
#define FORESHOCK_KERNEL_SET kernels_portable
#define FORESHOCK_KERNEL_NAME "portable"
#include "daemon/indicators/kernels.inc"

namespace foreshock::indicators {
const Kernels& PortableKernels() { return FORESHOCK_KERNEL_SET::kSet; }
}  // namespace foreshock::indicators
