// The hot loops, compiled for several instruction sets and chosen once at run time: x86-64-v4
// (AVX-512), x86-64-v3 (AVX2 and FMA) or what the compiler targets by default. Plain pointers only:
// nothing that an inline function of another translation unit could share crosses this border.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace foreshock::indicators {

// How the rows of a RouterGates payload are to be read.
enum class GateForm : int { kSoftmaxLogits, kSigmoidLogits, kSoftmax, kSigmoid };

// Router scores [tokens, experts] of one payload and what one pass over them gives. Rows that are
// no distribution (negative score, sum 0) are left out and counted in `rejected`.
struct GateTask {
  // In. Scores are finite.
  const double* scores = nullptr;
  size_t tokens = 0;
  size_t experts = 0;
  GateForm form = GateForm::kSoftmaxLogits;
  size_t top_k = 0;                 // 0: no selection statistics
  const int64_t* chosen = nullptr;  // [tokens, top_k], each in [0, experts); null: top-k of scores
  const double* bias = nullptr;     // [experts]; null: none
  double* scratch = nullptr;        // GateScratchDoubles(experts)

  // In and out: calls on parts of the tokens add up. Start as they are here, arrays at 0.
  double* p_sum = nullptr;    // [experts]
  int64_t* counts = nullptr;  // [experts]
  double* margins = nullptr;  // [tokens]; negative: none for this token
  double entropy_sum = 0;
  double entropy_square_sum = 0;
  double entropy_min = std::numeric_limits<double>::infinity();
  double top_k_mass_sum = 0;
  double logit_sum = 0;
  double logit_square_sum = 0;
  double logit_absmax = 0;
  double z_sum = 0;
  double overlap_sum = 0;
  uint64_t overlap_tokens = 0;
  uint64_t accepted = 0;
  uint64_t rejected = 0;
};
inline size_t GateScratchDoubles(size_t experts) { return 5 * (experts + 64); }

// Matrices are column-major with leading dimension = rows, F64 and finite, scaled so that squares
// neither overflow nor underflow. "Spoilt": used as work space.
struct Kernels {
  const char* name;

  void (*decode_f32)(const char* bytes, size_t count, double* out);
  void (*decode_f16)(const char* bytes, size_t count, double* out);
  void (*decode_bf16)(const char* bytes, size_t count, double* out);

  uint64_t (*count_nonfinite)(const double* values, size_t count);

  void (*gates)(GateTask* task);

  // gram [n, n] (both triangles) = A^T A, A [d, n].
  void (*gram)(const double* a, size_t d, size_t n, double* gram);
  // The same in parts: adds A^T A to the lower triangle; mirror_lower at the end.
  void (*add_gram)(const double* a, size_t d, size_t n, double* gram);
  void (*mirror_lower)(double* gram, size_t n);
  // out [m, p] = A B^T, A [m, n], B [p, n].
  void (*multiply_transposed)(const double* a, size_t m, const double* b, size_t p, size_t n,
                              double* out);
  // Upper triangular factor r [n, n] (zeros below) of A = QR, A [d, n] spoilt, d >= n. Householder.
  void (*qr_factor)(double* a, size_t d, size_t n, double* r);
  // Lower triangular L [n, n] of A = L L^T in place (zeros above). False: not positive definite to
  // working precision; `a` is spoilt then.
  bool (*cholesky)(double* a, size_t n);
  // P [n, rank] with P P^T = A for a semidefinite A [n, n] (spoilt), to n eps |A|; returns rank.
  size_t (*semidefinite_factor)(double* a, size_t n, double* p);
  // out [k, k] (both triangles) = P^T G P, P [n, k], G [n, n] symmetric; work: n k doubles.
  void (*congruence)(const double* p, size_t k, const double* g, size_t n, double* work,
                     double* out);
  // Eigenvalues, ascending, of a symmetric A [n, n] (spoilt); error O(eps |A|). work: 5 n doubles.
  void (*symmetric_eigenvalues)(double* a, size_t n, double* work, double* values);
  // Singular values, descending, of A [m, n] (spoilt), m >= n; error O(eps |A|).
  // work: 2 m + 8 n doubles.
  void (*singular_values)(double* a, size_t m, size_t n, double* work, double* values);
};

// The best set this processor has. Thread-safe.
const Kernels& GetKernels();
// The sets of this build that this processor can run, best last; for tests and benchmarks.
size_t KernelSets(const Kernels* sets[3]);

}  // namespace foreshock::indicators
