#include "daemon/base/cpu.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace foreshock::base {

#ifdef __x86_64__
namespace {

// clang 14 does not let __builtin_cpu_supports be asked for it.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

InstructionSet BestInstructionSet() {
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2") && HasF16c();
  if (!v3) return InstructionSet::kPortable;
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
  return v4 ? InstructionSet::kX86V4 : InstructionSet::kX86V3;
}
#else
InstructionSet BestInstructionSet() { return InstructionSet::kPortable; }
#endif

}  // namespace foreshock::base
