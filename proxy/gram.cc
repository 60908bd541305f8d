#include "proxy/gram.h"

#include "daemon/base/cpu.h"

namespace foreshock::proxy {

// One per translation unit of gram.inc.
void GramPortable(const double* rows, int64_t count, int64_t width, double* gram);
#ifdef FORESHOCK_X86_64
void GramV3(const double* rows, int64_t count, int64_t width, double* gram);
void GramV4(const double* rows, int64_t count, int64_t width, double* gram);
#endif

int GramFunctions(GramFunction functions[3]) {
  int count = 0;
  functions[count++] = &GramPortable;
#ifdef FORESHOCK_X86_64
  if (base::BestInstructionSet() >= base::InstructionSet::kX86V3) functions[count++] = &GramV3;
  if (base::BestInstructionSet() >= base::InstructionSet::kX86V4) functions[count++] = &GramV4;
#endif
  return count;
}

GramFunction BestGram() {
  GramFunction functions[3];
  return functions[GramFunctions(functions) - 1];
}

}  // namespace foreshock::proxy
