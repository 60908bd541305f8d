// What an evaluator remembers, for a restart that goes on from there.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/stable_hash.h"
#include "daemon/rules/evaluator_impl.h"

namespace foreshock::rules {
namespace {

// Of the fields and their meaning; another number makes a restart judge from the start once. The
// bytes are held by RestartTest.TheFormOfTheMemoryHasAVersion.
constexpr uint32_t kMemoryVersion = 3;

}  // namespace

uint64_t Evaluator::Impl::Fingerprint() const {
  std::string text;
  for (const auto& rule : set_->rules) absl::StrAppend(&text, "\n", rule->canonical);
  for (const auto& signature : set_->signatures) {
    absl::StrAppend(&text, "\n", signature->canonical);
  }
  return base::StableHash(text);
}

void Evaluator::Impl::Fields(base::Archive* archive) {
  for (const auto& judge : rules_) judge->Fields(archive);
  for (SignatureJudge& judge : signatures_) judge.Fields(archive);
  archive->Take(&divisors_, &schedule_, &tokens_, &progress_, &coverage_, &rank_scalars_,
                &checkpoints_, &attempt_, &attempts_begun_, &resumed_, &first_of_attempt_,
                &resume_step_, &attempt_start_, &last_step_, &model_layers_);
  archive->Take(&row_.attempt, &row_.step, &row_.time_unix_ns, &row_.tokens, &row_.ranks,
                &row_.skipped, &row_.partial, &row_.late);
}

std::string Evaluator::Impl::Remember() {
  uint32_t version = kMemoryVersion;
  uint64_t fingerprint = Fingerprint();
  base::Archive archive;
  archive.Take(&version, &fingerprint);
  Fields(&archive);
  return archive.bytes();
}

bool Evaluator::Impl::Recall(absl::string_view memory) {
  uint32_t version = 0;
  uint64_t fingerprint = 0;
  base::Archive archive(memory);
  archive.Take(&version, &fingerprint);
  if (version != kMemoryVersion || fingerprint != Fingerprint()) return false;
  Fields(&archive);
  primed_ = true;
  return archive.AtEnd();
}

std::string Evaluator::Remember() { return impl_->Remember(); }

bool Evaluator::Recall(absl::string_view memory) {
  std::unique_ptr<Impl> recalled = impl_->Fresh();
  if (!recalled->Recall(memory)) return false;
  impl_ = std::move(recalled);
  return true;
}

}  // namespace foreshock::rules
