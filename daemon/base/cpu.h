// Which instruction sets this processor has: for code that is compiled more than once and chosen at
// run time.
#pragma once

namespace foreshock::base {

enum class InstructionSet {
  kPortable,  // what the compiler takes by default
  kX86V3,     // x86-64-v3: AVX2, FMA, BMI2, F16C
  kX86V4,     // x86-64-v4: AVX-512 F, DQ, BW, VL, CD
};

// The best of them; each contains those before it. kPortable on other processors.
InstructionSet BestInstructionSet();

}  // namespace foreshock::base
