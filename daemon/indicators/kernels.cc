#include "daemon/indicators/kernels.h"

#include "daemon/base/cpu.h"

namespace foreshock::indicators {

// One per translation unit of kernels.inc.
const Kernels& PortableKernels();
#ifdef FORESHOCK_X86_64
const Kernels& V3Kernels();
const Kernels& V4Kernels();
#endif

size_t KernelSets(const Kernels* sets[3]) {
  size_t count = 0;
  sets[count++] = &PortableKernels();
#ifdef FORESHOCK_X86_64
  const base::InstructionSet best = base::BestInstructionSet();
  if (best >= base::InstructionSet::kX86V3) sets[count++] = &V3Kernels();
  if (best >= base::InstructionSet::kX86V4) sets[count++] = &V4Kernels();
#endif
  return count;
}

const Kernels& GetKernels() {
  static const Kernels* const chosen = [] {
    const Kernels* sets[3];
    return sets[KernelSets(sets) - 1];
  }();
  return *chosen;
}

}  // namespace foreshock::indicators
