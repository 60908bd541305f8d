#include "client/cli/scalar_names.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/rules/unknown_scalars.h"

namespace foreshock::cli {
namespace {

constexpr ColumnAlias kAliases[] = {
    {"lm_loss", "loss"},
    {"ce_loss", "loss"},
    {"global_avg_loss", "loss"},
    {"loss_step", "loss"},
    {"loss_mean", "loss"},
    {"training_loss", "loss"},
    {"loss_train", "loss"},
    {"lm_loss_training_lm_loss", "loss"},
    {"gradient_norm", "grad_norm"},
    {"total_grad_norm", "grad_norm"},
    {"grad_norm_total", "grad_norm"},
    {"grad_norm_mean", "grad_norm"},
    {"gradnorm", "grad_norm"},
    {"global_grad_norm", "grad_norm"},
    {"grad_norm_grad_norm", "grad_norm"},
    {"actor_grad_norm", "grad_norm"},
    {"learning_rate", "lr"},
    {"lr_group_0", "lr"},
    {"lr_mean", "lr"},
    {"learning_rate_learning_rate", "lr"},
    {"actor_lr", "lr"},
    {"load_balancing_loss", "aux_loss"},
    {"moe_aux_loss", "aux_loss"},
    {"router_aux_loss", "aux_loss"},
    {"lossscale", "loss_scale"},
    {"loss_scale_loss_scale", "loss_scale"},
    {"tokens_per_step", "tokens"},
    {"actor_entropy", "policy_entropy"},
    {"entropy", "policy_entropy"},
    {"critic_rewards_mean", "reward_mean"},
    {"reward", "reward_mean"},
    {"rewards_mean", "reward_mean"},
    {"mean_reward", "reward_mean"},
    {"actor_pg_clipfrac", "clip_fraction"},
    {"clip_ratio", "clip_fraction"},
    {"clipfrac", "clip_fraction"},
    {"number_of_skipped_iterations", "skipped_iterations"},
    {"number_of_nan_iterations", "nan_iterations"},
    {"loss_nan_count", "nan_count"},
    {"critic_kl", "kl"},
    {"actor_kl_loss", "kl"},
    {"objective_kl", "kl"},
    {"kl_loss", "kl"},
    {"objective_entropy", "policy_entropy"},
    {"actor_entropy_loss", "policy_entropy"},
    {"completions_mean_length", "completion_length"},
    {"response_length_mean", "completion_length"},
    {"completions_mean_terminated_length", "terminated_length"},
    {"actor_clip_frac", "clip_fraction"},
    {"clip_ratio_region_mean", "clip_fraction"},
    {"pg_clipfrac", "clip_fraction"},
};
// Prefixes that say what is understood.
constexpr std::array<absl::string_view, 8> kTrainPrefixes = {
    "train_", "training_", "data_", "learning_", "optim_", "loss_metrics_", "trainer_", "metrics_"};
// train.NAME that the daemon computes itself.
constexpr std::array<absl::string_view, 6> kComputed = {
    "nonfinite", "spike_rate", "step_seconds", "tokens_total", "update_per_lr", "update_ratio"};

std::string AliasOf(absl::string_view name) {
  for (const ColumnAlias& alias : kAliases) {
    if (alias.column == name) return std::string(alias.scalar);
  }
  // Without a prefix, so that train/grad_norm is grad_norm.
  const absl::Span<const absl::string_view> usual = rules::UsualScalars();
  return std::find(usual.begin(), usual.end(), name) != usual.end() ? std::string(name)
                                                                    : std::string();
}

absl::string_view UnitOf(absl::string_view name) {
  if (name == "loss" || name == "policy_entropy" || name == "log_z") return "nats";
  return name == "tokens" ? "tokens" : "1";
}

// "" or why the daemon takes no scalar of this name.
std::string WrongName(absl::string_view name) {
  if (name.empty() || !absl::ascii_islower(name[0]) || SanitisedName(name) != name) {
    return "a scalar's name is [a-z][a-z0-9_]*; --map COLUMN=NAME gives it one";
  }
  if (name.size() > ScalarNames::kNameBytesMax) {
    return absl::StrCat("a scalar's name has at most ", ScalarNames::kNameBytesMax, " bytes");
  }
  if (std::find(kComputed.begin(), kComputed.end(), name) != kComputed.end()) {
    return absl::StrCat("the daemon computes train.", name, " itself");
  }
  return "";
}

}  // namespace

absl::Span<const ColumnAlias> ColumnAliases() { return kAliases; }

std::string SanitisedName(absl::string_view column) {
  std::string name;
  for (const char c : column) {
    if (absl::ascii_isalnum(c)) {
      name += absl::ascii_tolower(c);
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

absl::StatusOr<ScalarNames> ScalarNames::Create(const std::vector<std::string>& map) {
  ScalarNames names;
  for (const std::string& entry : map) {
    const size_t equals = entry.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--map ", entry, ": allowed is COLUMN=NAME, for example \"lm loss=loss\""));
    }
    const std::string column = entry.substr(0, equals);
    const std::string name = entry.substr(equals + 1);
    if (const std::string wrong = WrongName(name); !wrong.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--map ", entry, ": ", wrong));
    }
    for (const auto& [other_column, other_name] : names.map_) {
      if (other_column == column || other_name == name) {
        return absl::InvalidArgumentError(
            absl::StrCat("--map ", entry, ": --map ", other_column, "=", other_name,
                         " is there already; a column has one name, a name one column"));
      }
    }
    names.map_.emplace_back(column, name);
  }
  return names;
}

std::string ScalarNames::NameOf(const std::string& column, std::string* why) const {
  for (const auto& [mapped, name] : map_) {
    if (mapped == column) return name;
  }
  std::string name = SanitisedName(column);
  std::string known = AliasOf(name);
  for (const absl::string_view prefix : kTrainPrefixes) {
    absl::string_view rest = name;
    if (known.empty() && absl::ConsumePrefix(&rest, prefix)) known = AliasOf(rest);
  }
  if (!known.empty()) name = known;
  *why = WrongName(name);
  for (const auto& [mapped, taken] : map_) {
    if (taken == name) *why = absl::StrCat("`", name, "` is `", mapped, "`, by --map");
  }
  for (const auto& [other, taken] : found_) {
    if (taken == name) {
      *why = absl::StrCat("`", name, "` is `", other, "` already; --map COLUMN=NAME names it else");
    }
  }
  return name;
}

const v1::ScalarDeclaration* ScalarNames::Find(const std::string& column, LogNotes* notes) {
  if (const auto known = of_column_.find(column); known != of_column_.end()) {
    return known->second == kLeftOut ? nullptr : &declarations_[known->second];
  }
  std::string why;
  const std::string name = NameOf(column, &why);
  if (why.empty() && found_.size() >= kScalarsMax) {
    why = absl::StrCat("more than ", kScalarsMax, " scalars, which is all the daemon takes");
  }
  if (!why.empty()) {
    notes->Skip(column, why);
    if (of_column_.size() < kColumnsKept) of_column_.emplace(column, kLeftOut);
    return nullptr;
  }
  of_column_.emplace(column, found_.size());
  found_.emplace_back(column, name);
  v1::ScalarDeclaration& declaration = declarations_.emplace_back();
  declaration.set_id(static_cast<uint32_t>(found_.size()));
  declaration.set_name(name);
  declaration.set_unit(std::string(UnitOf(name)));
  declaration.set_reduction(v1::REDUCTION_LAST);
  declaration.set_scope(v1::SCOPE_GLOBAL);
  return &declaration;
}

std::vector<std::string> ScalarNames::NotFound() const {
  std::vector<std::string> columns;
  for (const auto& [column, name] : map_) {
    if (!of_column_.contains(column)) columns.push_back(column);
  }
  return columns;
}

}  // namespace foreshock::cli
