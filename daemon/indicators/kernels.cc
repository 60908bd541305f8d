#include "daemon/indicators/kernels.h"

#ifdef FORESHOCK_X86_64
#include <cpuid.h>
#endif

namespace foreshock {

// One per translation unit of kernels.inc.
const Kernels& PortableKernels();
#ifdef FORESHOCK_X86_64
const Kernels& V3Kernels();
const Kernels& V4Kernels();

namespace {
// clang 14 does not let __builtin_cpu_supports be asked for it.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
}  // namespace
#endif

size_t KernelSets(const Kernels* sets[3]) {
  size_t count = 0;
  sets[count++] = &PortableKernels();
#ifdef FORESHOCK_X86_64
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2") && HasF16c();
  if (v3) sets[count++] = &V3Kernels();
  if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd")) {
    sets[count++] = &V4Kernels();
  }
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

}  // namespace foreshock
