// What an evaluator remembers, for a restart that goes on from there. The memory holds what all
// rules share and, by rule, what its judge knows, so that a restart with some other rules still
// goes on with those that are the same.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/base/archive.h"
#include "daemon/base/check.h"
#include "daemon/base/stable_hash.h"
#include "daemon/rules/evaluator_impl.h"

namespace foreshock::rules {
namespace {

// Of the fields and their meaning; another number makes a restart judge from the start once. The
// bytes are held by RestartTest.TheFormOfTheMemoryHasAVersion.
constexpr uint32_t kMemoryVersion = 8;
constexpr uint32_t kReplacedVersion = 1;

void TakeJudge(RuleJudge* judge, base::Archive* archive) { judge->Fields(archive); }
void TakeJudge(SignatureJudge* judge, base::Archive* archive) { archive->Take(judge); }

}  // namespace

void Evaluator::Impl::SharedFields(base::Archive* archive) {
  archive->Take(&schedule_, &tokens_, &progress_, &coverage_, &rank_scalars_, &checkpoints_,
                &attempt_, &attempts_begun_, &resumed_, &first_of_attempt_, &resume_step_,
                &attempt_start_, &last_step_, &model_layers_, &rows_judged_, &judged_from_);
  archive->Take(&row_.attempt, &row_.step, &row_.time_unix_ns, &row_.tokens, &row_.ranks,
                &row_.skipped, &row_.partial, &row_.late);
}

std::string Evaluator::Impl::Remember() {
  std::map<uint64_t, std::string> judges;
  ForEachJudge([&judges](uint64_t identity, auto* judge) {
    base::Archive archive;
    TakeJudge(judge, &archive);
    judges[identity] = archive.bytes();
  });
  uint32_t version = kMemoryVersion;
  base::Archive archive;
  archive.Take(&version);
  SharedFields(&archive);
  archive.Take(&divisors_, &judges);
  return archive.bytes();
}

bool Evaluator::Impl::Recall(absl::string_view memory) {
  uint32_t version = 0;
  absl::flat_hash_map<std::string, Divisor> divisors;
  std::map<uint64_t, std::string> judges;
  base::Archive archive(memory);
  archive.Take(&version);
  if (version != kMemoryVersion) return false;
  SharedFields(&archive);
  archive.Take(&divisors, &judges);
  if (!archive.AtEnd()) return false;

  bool readable = true;
  bool knows_any = rules_.empty() && signatures_.empty();
  ForEachJudge([&](uint64_t identity, auto* judge) {
    const auto remembered = judges.find(identity);
    // A rule that a reload brought into force behind the memory is known to begin there. What is
    // remembered of the same rule is from before it was taken out of force.
    if (IsReplaced(identity)) {
      knows_any = true;
    } else if (remembered == judges.end()) {
      lacked_.insert(identity);
    } else {
      base::Archive fields(remembered->second);
      TakeJudge(judge, &fields);
      readable = readable && fields.AtEnd();
      knows_any = true;
    }
  });
  for (auto& [name, divisor] : divisors_) {
    const auto remembered = divisors.find(name);
    if (remembered == divisors.end()) {
      lacked_divisors_.insert(name);
    } else {
      divisor = std::move(remembered->second);
    }
  }
  primed_ = true;
  return readable && knows_any;
}

void Evaluator::Impl::TakeLackedRules(Impl* primed) {
  FORESHOCK_CHECK(primed->set_ == set_);
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (lacked_.contains(IdentityOf(rules_[i]->rule()))) rules_[i] = std::move(primed->rules_[i]);
  }
  for (size_t i = 0; i < signatures_.size(); ++i) {
    if (!lacked_.contains(IdentityOf(signatures_[i].signature()))) continue;
    signatures_[i] = std::move(primed->signatures_[i]);
  }
  for (const std::string& name : lacked_divisors_) {
    divisors_[name] = std::move(primed->divisors_[name]);
  }
  lacked_.clear();
  lacked_divisors_.clear();
  ResetSlots();
}

bool Evaluator::Impl::IsReplaced(uint64_t identity) const {
  return std::any_of(replaced_.begin(), replaced_.end(),
                     [identity](const ReplacedRule& rule) { return rule.identity == identity; });
}

std::string Evaluator::Impl::Replaced() {
  if (replaced_.empty()) return "";
  uint32_t version = kReplacedVersion;
  base::Archive archive;
  archive.Take(&version, &replaced_);
  return archive.bytes();
}

void Evaluator::Impl::RecallReplaced(absl::string_view bytes) {
  uint32_t version = 0;
  std::vector<ReplacedRule> replaced;
  base::Archive archive(bytes);
  archive.Take(&version);
  if (version != kReplacedVersion) return;
  archive.Take(&replaced);
  if (!archive.AtEnd()) return;
  replaced_ = replaced;
  to_start_ = std::move(replaced);
}

void Evaluator::Impl::StartReplaced(int64_t step) {
  std::erase_if(to_start_, [this, step](const ReplacedRule& rule) {
    if (attempt_ < rule.attempt || (attempt_ == rule.attempt && step <= rule.step)) return false;
    StartFresh(rule.identity);
    return true;
  });
}

void Evaluator::Impl::StartFresh(uint64_t identity) {
  for (std::unique_ptr<RuleJudge>& judge : rules_) {
    if (IdentityOf(judge->rule()) != identity) continue;
    const std::string& divide_by = judge->rule().input.divide_by;
    if (lacked_divisors_.contains(divide_by)) divisors_[divide_by] = Divisor();
    judge = NewJudge(judge->shared_rule());
    ResetSlots();
  }
  for (SignatureJudge& judge : signatures_) {
    if (IdentityOf(judge.signature()) == identity) judge = SignatureJudge(judge.shared_signature());
  }
}

std::string Evaluator::Remember() { return impl_->Remember(); }

bool Evaluator::Recall(absl::string_view memory) {
  std::unique_ptr<Impl> recalled = impl_->Fresh();
  if (!recalled->Recall(memory)) return false;
  impl_ = std::move(recalled);
  return true;
}

bool Evaluator::LacksRules() const { return impl_->LacksRules(); }
void Evaluator::TakeLackedRules(Evaluator* primed) { impl_->TakeLackedRules(primed->impl_.get()); }
std::string Evaluator::Replaced() const { return impl_->Replaced(); }
void Evaluator::RecallReplaced(absl::string_view replaced) { impl_->RecallReplaced(replaced); }
void Evaluator::ForgetReplaced() { impl_->ForgetReplaced(); }

}  // namespace foreshock::rules
