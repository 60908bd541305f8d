#include <algorithm>

#include "absl/strings/str_cat.h"
#include "daemon/rules/parse.h"

namespace foreshock::rules {
namespace {

constexpr int kDepthMax = 8;
constexpr int kPointsMax = 9;

// Parses the parts of one signature that name alerts.
class References {
 public:
  References(const AlertNames& names, size_t self, Signature* signature)
      : names_(names), self_(self), signature_(signature) {}

  std::optional<AlertRef> Alert(const yaml::YamlNode& node) const {
    const std::string name = node.String();
    if (!node.is_scalar()) return std::nullopt;
    const auto found = names_.by_name.find(name);
    if (found != names_.by_name.end()) return found->second;
    const absl::string_view near = yaml::NearestWord(name, names_.all);
    node.Error(absl::StrCat(
        "unknown alert ", name, "; ", near.empty() ? "" : absl::StrCat("did you mean ", near, "? "),
        "Allowed are the alerts and signatures of all files given; is one missing?"));
    return std::nullopt;
  }

  // Rules only.
  std::vector<AlertRef> List(const yaml::YamlNode& node) const {
    std::vector<AlertRef> refs;
    for (const yaml::YamlNode& item : node.Items()) {
      const std::optional<AlertRef> ref = Alert(item);
      if (!ref.has_value()) continue;
      if (ref->signature) {
        item.Error("a signature; only alerts of rules are allowed here");
      } else {
        refs.push_back(*ref);
      }
    }
    return refs;
  }

  std::vector<Term> Score(const yaml::YamlNode& node) {
    std::vector<Term> score;
    std::vector<AlertRef> against;
    for (const yaml::YamlNode& item : node.Items()) {
      Term term;
      term.points = static_cast<int>(item.Require("points").Int({-kPointsMax, kPointsMax}, 1));
      if (term.points == 0) item.Get("points").Error("0 points say nothing; leave the term out");
      if (term.points < 0) named_ = &against;
      term.when = When(item.Require("if"));
      named_ = &signature_->evidence;
      score.push_back(std::move(term));
    }
    for (const AlertRef ref : against) {
      const auto& evidence = signature_->evidence;
      if (std::find(evidence.begin(), evidence.end(), ref) == evidence.end()) {
        signature_->against.push_back(ref);
      }
    }
    return score;
  }

  Condition When(const yaml::YamlNode& node, int depth = 0) {
    Condition condition;
    if (!node.present()) return condition;
    if (!node.is_map()) {
      if (node.is_list()) {
        node.Error(
            "a list; an alert, or a map with one of all, any, at_least, same_layer, healed, "
            "brewing is expected");
        return condition;
      }
      condition.alert = Named(node, /*rules_only=*/false);
      return condition;
    }
    if (depth >= kDepthMax) {
      node.Error(absl::StrCat("nested too deep; at most ", kDepthMax, " levels are allowed"));
      return condition;
    }
    const yaml::YamlNode all = node.Get("all");
    const yaml::YamlNode any = node.Get("any");
    const yaml::YamlNode at_least = node.Get("at_least");
    const yaml::YamlNode same_layer = node.Get("same_layer");
    const yaml::YamlNode healed = node.Get("healed");
    const yaml::YamlNode brewing = node.Get("brewing");
    const int given = all.present() + any.present() + at_least.present() + same_layer.present() +
                      healed.present() + brewing.present();
    if (given != 1) {
      node.Error(absl::StrCat(given,
                              " conditions are given; exactly one of all, any, at_least, "
                              "same_layer, healed, brewing is expected"));
    }
    if (all.present()) {
      condition.kind = Condition::Kind::kAll;
      Children(all, depth, &condition);
    } else if (any.present()) {
      condition.kind = Condition::Kind::kAny;
      Children(any, depth, &condition);
    } else if (at_least.present()) {
      condition.kind = Condition::Kind::kAtLeast;
      Children(node.Require("of"), depth, &condition);
      condition.at_least = static_cast<int>(
          at_least.Int({1, std::max<int64_t>(1, static_cast<int64_t>(condition.of.size()))}, 1));
    } else if (same_layer.present()) {
      condition.kind = Condition::Kind::kSameLayer;
      for (const yaml::YamlNode& item : same_layer.Items()) {
        Condition leaf;
        leaf.alert = Named(item, /*rules_only=*/true);
        condition.of.push_back(leaf);
      }
      if (condition.of.size() < 2) same_layer.Error("`same_layer` needs at least 2 alerts");
    } else if (healed.present()) {
      condition.kind = Condition::Kind::kHealed;
      condition.alert = Named(healed, /*rules_only=*/true);
      const Length within = ParseLength(node.Require("within"), {.count = 1});
      if (within.in_samples) node.Error("`within` must be in steps");
      condition.within = within.count;
    } else if (brewing.present()) {
      condition.kind = Condition::Kind::kBrewing;
      condition.alert = Named(brewing, /*rules_only=*/true);
    }
    return condition;
  }

 private:
  void Children(const yaml::YamlNode& list, int depth, Condition* condition) {
    for (const yaml::YamlNode& item : list.Items()) condition->of.push_back(When(item, depth + 1));
    if (list.is_list() && condition->of.empty())
      list.Error("an empty list; name at least one alert");
  }

  AlertRef Named(const yaml::YamlNode& node, bool rules_only) {
    const std::optional<AlertRef> ref = Alert(node);
    if (!ref.has_value()) return {};
    if (ref->signature && (rules_only || ref->index >= self_)) {
      node.Error(rules_only ? "a signature; only alerts of rules are allowed here"
                            : "only alerts of rules and signatures further up are allowed here");
      return {};
    }
    if (!ref->signature && std::find(named_->begin(), named_->end(), *ref) == named_->end()) {
      named_->push_back(*ref);
    }
    return *ref;
  }

  const AlertNames& names_;
  const size_t self_;
  Signature* const signature_;
  std::vector<AlertRef>* named_ = &signature_->evidence;  // where the rules of conditions go
};

int64_t Steps(const yaml::YamlNode& node) {
  const Length length = ParseLength(node, {});
  if (length.in_samples) node.Error("a signature has no samples of its own; write steps");
  return length.count;
}

// Keys of earlier versions by which one alert hid another.
void RefuseOld(const yaml::YamlNode& node) {
  static constexpr std::pair<absl::string_view, absl::string_view> kOld[] = {
      {"absent",
       "write what speaks against the name in `score`, as {if: ALERT, points: -2}, and "
       "let the graver name list what follows from it in `explains`"},
      {"not_brewing", "write {if: {brewing: ALERT}, points: -2} in `score`"},
      {"fallback",
       "give it a `score` of 1 point; a name with as many that stands further up, or "
       "with more, is told instead where it accounts for the same alerts"}};
  for (const auto& [key, instead] : kOld) {
    if (!node.Has(key)) continue;
    node.Get(key).Error(
        absl::StrCat("`", key, "` is gone, for one alert must not hide another: ", instead));
  }
}

}  // namespace

Signature ParseSignature(const yaml::YamlNode& node, const AlertNames& names, size_t self) {
  Signature signature;
  signature.group = "signatures";
  signature.name = ParseName(node.Require("signature"));
  References references(names, self, &signature);
  signature.when = references.When(node.Require("when"));
  signature.score = references.Score(node.Get("score"));
  signature.explains = references.List(node.Get("explains"));
  if (!signature.explains.empty() && signature.score.empty()) {
    node.Get("explains").Error("only a signature with a `score` competes, so only it may explain");
  }
  RefuseOld(node);
  signature.window_steps = Steps(node.Get("window"));
  signature.pending_for = ParseLength(node.Get("for"), {});
  signature.keep_firing_for = Steps(node.Get("keep_firing_for"));
  signature.rate_limit = ParseRateLimit(node.Get("rate_limit"));
  signature.attempt_start_steps = Steps(node.Get("after_resume"));

  const yaml::YamlNode wait = node.Get("wait");
  if (wait.present()) {
    const yaml::YamlNode wait_while = wait.Get("while");
    if (wait_while.present()) signature.wait_while = references.Alert(wait_while);
    const std::optional<AlertRef> samples_of = references.Alert(wait.Require("samples_of"));
    if (samples_of.has_value() && samples_of->signature) {
      wait.Get("samples_of").Error("a signature has no samples; name an alert of a rule");
    } else if (samples_of.has_value()) {
      signature.wait_samples_of = *samples_of;
    }
    signature.wait_samples = static_cast<int>(wait.Require("samples").Int({1, 1000}, 1));
  }

  const Labels labels = ParseLabels(node, node.Get("labels"), std::nullopt);
  signature.severity = labels.severity;
  signature.fault = labels.fault;
  signature.labels = labels.others;
  if (signature.fault.empty()) node.Error("the label `fault` is missing in `labels`");
  static constexpr absl::string_view kConfidence[] = {"low", "medium", "high"};
  signature.confidence = node.Get("confidence").Word(kConfidence, "medium");
  for (const yaml::YamlNode& item : node.Get("confirmations").Items()) {
    Confirmation confirmation;
    confirmation.when = references.When(item.Require("when"));
    const yaml::YamlNode severity = item.Get("severity");
    confirmation.severity = severity.Word({"info", "warning", "critical"}, signature.severity);
    if (SeverityRank(confirmation.severity) < SeverityRank(signature.severity)) {
      severity.Error(absl::StrCat("a confirmation cannot lower the severity from ",
                                  signature.severity, " to ", confirmation.severity));
    }
    confirmation.confidence = item.Get("confidence").Word(kConfidence, "high");
    signature.confirmations.push_back(std::move(confirmation));
  }
  signature.annotations = ParseAnnotations(node.Get("annotations"));
  signature.canonical = node.Canonical();
  return signature;
}

}  // namespace foreshock::rules
