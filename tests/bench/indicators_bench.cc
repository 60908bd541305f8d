// Spectra and router gates. Every row that has a yardstick times it in the same iterations, on the
// same core, and prints medians and their ratio:
//
//   build/bench/tests/bench/indicators_bench
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "daemon/indicators/kernels.h"
#include "daemon/indicators/qk_spectra.h"
#include "daemon/indicators/snapshots.h"
#include "daemon/indicators/spectrum.h"
#include "daemon/indicators/summarise.h"

extern "C" {
void openblas_set_num_threads(int);
void dsyrk_(const char*, const char*, const int*, const int*, const double*, const double*,
            const int*, const double*, double*, const int*);
void dpotrf_(const char*, const int*, double*, const int*, int*);
void dtrmm_(const char*, const char*, const char*, const char*, const int*, const int*,
            const double*, const double*, const int*, double*, const int*);
void dsyevd_(const char*, const char*, const int*, double*, const int*, double*, double*,
             const int*, int*, const int*, int*);
}

namespace foreshock::bench {

double EigenSoftmaxEntropyV3(const double* scores, size_t tokens, size_t experts);
double EigenSoftmaxEntropyV4(const double* scores, size_t tokens, size_t experts);

namespace {

using Values = std::vector<double>;

Values Gaussian(size_t n, double scale, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, scale);
  Values values(n);
  for (double& value : values) value = normal(random);
  return values;
}

double Median(Values values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Processor time of this thread: other load on the machine does not count.
double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <typename Work>
double SecondsOf(const Work& work) {
  const double start = ThreadSeconds();
  work();
  return ThreadSeconds() - start;
}

// Times `ours` and `yardstick` in turn; reports medians.
template <typename Ours, typename Yardstick>
void Compare(benchmark::State& state, const Ours& ours, const Yardstick& yardstick) {
  Values mine, theirs;
  for (auto _ : state) {
    theirs.push_back(SecondsOf(yardstick));
    mine.push_back(SecondsOf(ours));
    state.SetIterationTime(mine.back());
  }
  state.counters["ours_ms"] = 1e3 * Median(mine);
  state.counters["yardstick_ms"] = 1e3 * Median(theirs);
  state.counters["ratio"] = Median(mine) / Median(theirs);
}

constexpr size_t kD = 4096, kR = 128, kN = 2 * kR;

// dsyrk twice, dpotrf, L^T G L, dsyevd without vectors.
void OpenBlasFirstOrder(const Values& a, const Values& b, Values* eigenvalues) {
  const int d = kD, n = kN;
  const double one = 1, zero = 0;
  Values ga(kN * kN), gb(kN * kN), work(1 + 6 * kN + 2 * kN * kN);
  std::vector<int> iwork(3 + 5 * kN);
  dsyrk_("L", "T", &n, &d, &one, a.data(), &d, &zero, ga.data(), &n);
  dsyrk_("L", "T", &n, &d, &one, b.data(), &d, &zero, gb.data(), &n);
  int info = 0;
  dpotrf_("L", &n, ga.data(), &n, &info);
  for (size_t j = 0; j < kN; ++j) {
    for (size_t i = 0; i < j; ++i) gb[i + j * kN] = gb[j + i * kN];
  }
  dtrmm_("L", "L", "T", "N", &n, &n, &one, ga.data(), &n, gb.data(), &n);
  dtrmm_("R", "L", "N", "N", &n, &n, &one, ga.data(), &n, gb.data(), &n);
  eigenvalues->resize(kN);
  const int lwork = static_cast<int>(work.size()), liwork = static_cast<int>(iwork.size());
  dsyevd_("N", "L", &n, gb.data(), &n, eigenvalues->data(), work.data(), &lwork, iwork.data(),
          &liwork, &info);
}

void KernelFirstOrder(const indicators::Kernels& kernels, const Values& a, const Values& b,
                      Values* eigenvalues) {
  Values ga(kN * kN), gb(kN * kN), work(kN * kN), product(kN * kN);
  kernels.gram(a.data(), kD, kN, ga.data());
  kernels.gram(b.data(), kD, kN, gb.data());
  kernels.cholesky(ga.data(), kN);
  kernels.congruence(ga.data(), kN, gb.data(), kN, work.data(), product.data());
  eigenvalues->resize(kN);
  kernels.symmetric_eigenvalues(product.data(), kN, work.data(), eigenvalues->data());
}

const indicators::Kernels* SetOf(benchmark::State& state) {
  const indicators::Kernels* sets[3];
  const auto index = static_cast<size_t>(state.range(0));
  if (index >= indicators::KernelSets(sets)) {
    state.SkipWithError("not on this processor");
    return nullptr;
  }
  state.SetLabel(sets[index]->name);
  return sets[index];
}

// First-order spectrum of one head from factors, exponent 2, against OpenBLAS.
void BM_FirstOrderFromFactors(benchmark::State& state) {
  const indicators::Kernels* kernels = SetOf(state);
  if (kernels == nullptr) return;
  openblas_set_num_threads(1);
  const Values a = Gaussian(kD * kN, 1.0 / 64, 1), b = Gaussian(kD * kN, 1.0 / 64, 2);
  Values mine, theirs;
  Compare(
      state, [&] { KernelFirstOrder(*kernels, a, b, &mine); },
      [&] { OpenBlasFirstOrder(a, b, &theirs); });
  double difference = 0;
  const auto entropy = [](const Values& lambda) {
    return indicators::SpectrumOfEigenvalues(lambda, 0, kN, 2.3e-16, 0).entropy();
  };
  difference = std::abs(entropy(mine) / entropy(theirs) - 1);
  state.counters["entropy_difference"] = difference;
}
BENCHMARK(BM_FirstOrderFromFactors)
    ->Arg(0)
    ->Arg(1)
    ->Arg(2)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->MinTime(1.5);

// Parts of it, ours over OpenBLAS.
void BM_Gram(benchmark::State& state) {
  const indicators::Kernels* kernels = SetOf(state);
  if (kernels == nullptr) return;
  openblas_set_num_threads(1);
  const Values a = Gaussian(kD * kN, 1.0 / 64, 1);
  Values out(kN * kN);
  const int d = kD, n = kN;
  const double one = 1, zero = 0;
  Compare(
      state, [&] { kernels->gram(a.data(), kD, kN, out.data()); },
      [&] { dsyrk_("L", "T", &n, &d, &one, a.data(), &d, &zero, out.data(), &n); });
}
BENCHMARK(BM_Gram)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);

void BM_Eigenvalues(benchmark::State& state) {
  const indicators::Kernels* kernels = SetOf(state);
  if (kernels == nullptr) return;
  openblas_set_num_threads(1);
  const Values a = Gaussian(kD * kN, 1.0 / 64, 1);
  Values gram(kN * kN), spoilt, values(kN), work(1 + 6 * kN + 2 * kN * kN);
  kernels->gram(a.data(), kD, kN, gram.data());
  std::vector<int> iwork(3 + 5 * kN);
  const int n = kN, lwork = static_cast<int>(work.size()), liwork = static_cast<int>(iwork.size());
  int info = 0;
  Compare(
      state,
      [&] {
        spoilt = gram;
        kernels->symmetric_eigenvalues(spoilt.data(), kN, work.data(), values.data());
      },
      [&] {
        spoilt = gram;
        dsyevd_("N", "L", &n, spoilt.data(), &n, values.data(), work.data(), &lwork, iwork.data(),
                &liwork, &info);
      });
}
BENCHMARK(BM_Eigenvalues)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);

struct Head {
  Values q = Gaussian(kD * kR, 0.02, 1), k = Gaussian(kD * kR, 0.02, 2);
  Values dq = Gaussian(kD * kR, 2e-5, 3), dk = Gaussian(kD * kR, 2e-5, 4);
  indicators::QkWindow window() const {
    return {
        .q = q.data(), .k = k.data(), .delta_q = dq.data(), .delta_k = dk.data(), .d = kD, .r = kR};
  }
};

// All five spectra, both exponents, gate and norms: what the daemon does with a QkFactors head.
void BM_AllSpectraFromFactors(benchmark::State& state) {
  const Head head;
  for (auto _ : state) benchmark::DoNotOptimize(indicators::SpectraFromFactors(head.window()));
}
BENCHMARK(BM_AllSpectraFromFactors)->Unit(benchmark::kMillisecond);

// The same where Grams cannot resolve exponent 1 (steep spectra): Householder QR and the core.
void BM_AllSpectraFromSteepFactors(benchmark::State& state) {
  Head head;
  for (size_t c = 0; c < kR; ++c) {
    for (size_t i = 0; i < kD; ++i) head.dq[i + c * kD] *= std::exp(-0.2 * static_cast<double>(c));
  }
  for (auto _ : state) benchmark::DoNotOptimize(indicators::SpectraFromFactors(head.window()));
}
BENCHMARK(BM_AllSpectraFromSteepFactors)->Unit(benchmark::kMillisecond);

// Target: 12 ms. All five spectra with both exponents from one QkGram head.
void BM_AllSpectraFromGram(benchmark::State& state) {
  Values a, b;
  const Head head;
  for (double x : head.dq) a.push_back(x * 64);
  for (double x : head.q) a.push_back(x / 16);
  for (double x : head.k) b.push_back(x / 64);
  for (double x : head.dk) b.push_back(x * 16);
  indicators::QkGrams grams{.gram_a = Values(kN * kN),
                            .gram_b = Values(kN * kN),
                            .a = 1.0 / 64,
                            .q = 16,
                            .d = kD,
                            .r = kR};
  indicators::GetKernels().gram(a.data(), kD, kN, grams.gram_a.data());
  indicators::GetKernels().gram(b.data(), kD, kN, grams.gram_b.data());
  for (auto _ : state) benchmark::DoNotOptimize(indicators::SpectraFromGrams(grams));
}
BENCHMARK(BM_AllSpectraFromGram)->Unit(benchmark::kMillisecond);

constexpr size_t kTokens = 4096, kExperts = 256;

// Target: twice Eigen's softmax-and-entropy, built for the same instruction set.
void BM_Gates(benchmark::State& state) {
  const indicators::Kernels* kernels = SetOf(state);
  if (kernels == nullptr) return;
  const Values scores = Gaussian(kTokens * kExperts, 2, 7);
  Values scratch(indicators::GateScratchDoubles(kExperts)), p_sum(kExperts), margins(kTokens);
  std::vector<int64_t> counts(kExperts);
  const auto yardstick =
      std::string(kernels->name) == "v4" ? EigenSoftmaxEntropyV4 : EigenSoftmaxEntropyV3;
  double ours = 0, theirs = 0;
  Compare(
      state,
      [&] {
        indicators::GateTask task;
        task.scores = scores.data();
        task.tokens = kTokens;
        task.experts = kExperts;
        task.top_k = 8;
        task.scratch = scratch.data();
        task.p_sum = p_sum.data();
        task.counts = counts.data();
        task.margins = margins.data();
        kernels->gates(&task);
        ours = task.entropy_sum;
      },
      [&] { theirs = yardstick(scores.data(), kTokens, kExperts); });
  state.counters["entropy_difference"] = std::abs(ours / theirs - 1);
  state.counters["ns_per_token"] = state.counters["ours_ms"] * 1e6 / kTokens;
}
BENCHMARK(BM_Gates)->Arg(1)->Arg(2)->UseManualTime()->Unit(benchmark::kMillisecond);

// From the BF16 payload to the shard: decode, finding check, gates, margin sketch, fingerprint.
void BM_SummariseGatesBf16(benchmark::State& state) {
  const Values scores = Gaussian(kTokens * kExperts, 2, 7);
  v1::Summary summary;
  v1::RouterGates* gates = summary.mutable_router_gates();
  gates->set_score_kind(v1::SCORE_KIND_SOFTMAX_LOGITS);
  gates->set_top_k(8);
  v1::Tensor* tensor = gates->mutable_scores();
  tensor->set_dtype(v1::DTYPE_BF16);
  tensor->add_shape(kTokens);
  tensor->add_shape(kExperts);
  for (double score : scores) {
    const auto narrow = static_cast<float>(score);
    uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    tensor->mutable_data()->push_back(static_cast<char>(bits >> 16));
    tensor->mutable_data()->push_back(static_cast<char>(bits >> 24));
  }
  const indicators::Sender sender;
  const model::StreamNames names;
  indicators::Snapshots snapshots({});
  const auto ours = [&] {
    model::StepShards shards;
    benchmark::DoNotOptimize(
        indicators::Summarise(summary, {.sender = sender, .names = names}, &snapshots, &shards)
            .ok());
  };
  Compare(state, ours, [&] {
    benchmark::DoNotOptimize(EigenSoftmaxEntropyV3(scores.data(), kTokens, kExperts));
  });
}
BENCHMARK(BM_SummariseGatesBf16)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foreshock::bench
